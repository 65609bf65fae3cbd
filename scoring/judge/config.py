"""Where the judge is, how it is asked, and what one call may cost.

Guarantees: a configuration that can never work is refused with ValueError when it is made, without
quoting a secret; the values are frozen and hashable, so that one client serves one configuration.
It does not say whether the server is there (``JudgeClient.probe`` does). Sampling parameters are all
sent explicitly: a server's own defaults come from the model's generation_config.json and change with
the model. Shaped by keys in URLs, and by ten-minute default timeouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pydantic import SecretStr

Dialect = Literal["vllm", "openai"]


@dataclass(frozen=True, slots=True)
class CallBudget:
    """What one call may cost: requests, seconds over all of them with their pauses, tokens out."""

    tries: int
    deadline_s: float
    max_tokens: int

    def __post_init__(self) -> None:
        if self.deadline_s <= 0 or min(self.tries, self.max_tokens) < 1:
            raise ValueError("deadline_s must be above 0, tries and max_tokens at least 1")


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """Where the judge is and how long we wait. Raises ValueError on what can never work.

    ``base_url`` is taken with or without ``/v1``. Times are seconds: ``connect_timeout_s`` and
    ``read_timeout_s`` (silence between two pieces of a reply) per request, ``deadline_s`` over
    one call with all its tries and pauses, at which whatever still runs is cut; only looking up the
    server's name and connecting (to each of its addresses) may take longer. ``max_tokens`` is the
    cap on a reply unless a call has a budget of its own. ``dialect`` "openai" leaves out what only
    vLLM and its kin know (repetition penalty, switching thinking off).
    """

    base_url: str
    model: str
    api_key: SecretStr | None = None
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 60.0
    deadline_s: float = 120.0
    max_tries: int = 4
    max_tokens: int = 1_024
    seed: int = 0
    dialect: Dialect = "vllm"
    thinking: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("base_url must look like http://host:port or http://host:port/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("base_url must hold no user, password or query; use api_key")
        if self.dialect not in get_args(Dialect):
            raise ValueError(f"dialect is one of: {', '.join(get_args(Dialect))}")
        if not self.model.strip():
            raise ValueError("model is empty: name the model that the server serves")
        if self.api_key is not None:
            key = self.api_key.get_secret_value()
            if not key or not key.isascii() or not key.isprintable() or " " in key:
                raise ValueError("api_key must be printable ASCII without blanks or line ends")
        times = (self.connect_timeout_s, self.read_timeout_s, self.deadline_s)
        if min(times) <= 0 or min(self.max_tries, self.max_tokens) < 1:
            raise ValueError("timeouts must be above 0, max_tries and max_tokens at least 1")

    @property
    def api_root(self) -> str:
        """The address that ``/chat/completions`` and ``/models`` are appended to."""
        root = self.base_url.rstrip("/").removesuffix("/chat/completions")
        segments = urlsplit(root).path.split("/")
        versioned = any(part[:1] == "v" and part[1:2].isdigit() for part in segments)
        return root if versioned else f"{root}/v1"

    @property
    def budget(self) -> CallBudget:
        """What a call may cost that names no budget of its own."""
        return CallBudget(self.max_tries, self.deadline_s, self.max_tokens)

    def sampling(self, max_tokens: int) -> dict[str, object]:
        """Return every sampling parameter of a request: one choice, greedy, the same every time."""
        common: dict[str, object] = {
            "temperature": 0,
            "top_p": 1,
            "n": 1,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "seed": self.seed,
        }
        if self.dialect == "openai":
            return common | {"max_completion_tokens": max_tokens}
        return common | {
            "max_tokens": max_tokens,
            "repetition_penalty": 1.0,
            "chat_template_kwargs": {"enable_thinking": self.thinking},
        }
