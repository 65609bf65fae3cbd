"""Verdicts that need not be asked for again: same judge, same prompt, same tip, same script.

Guarantees: the key is a sha256 over everything that the verdict may depend on: requested model, what
the server says about itself (served model and fingerprint, as last seen), every sampling parameter,
the prompt file, the schema, tip and script as they are sent. So a changed prompt, model or redaction
rule finds nothing. Only verdicts that hold are kept: a label that says something, quotes that were
found. Two workers may keep the same verdict at once; the first wins.

Not part of the key: which other tips stood in the same call. A server that was exchanged is noticed
at the first call that is not a hit. Shaped by caches that kept errors and empty answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import connection

from memory.insertion import insert_rows
from memory.reasons import JudgeLabel
from scoring.judge.verdict import verdict_schema
from scoring.models import JudgeCall, VerdictCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scoring.judge.config import JudgeConfig

_switched_off: ContextVar[bool] = ContextVar("verdict_cache_switched_off", default=False)


def _sha256(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


_LOOKUP: Final = """
SELECT key, label, said, reasoning, evidence::text, served_model, system_fingerprint
FROM scoring_verdictcache WHERE key = ANY(%s)
"""
SCHEMA_SHA256: Final = _sha256(verdict_schema(("id",)))
"""The version of the schema is the schema itself, asked about one tip."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the server said it was, when it last answered; empty: not known."""

    model: str = ""
    fingerprint: str = ""


def last_served(requested_model: str) -> Served:
    """As the latest stored call has it; for a process that has not asked yet."""
    calls = JudgeCall.objects.filter(requested_model=requested_model, error_class="")
    found = calls.order_by("-pk").values_list("served_model", "system_fingerprint").first()
    return Served(*found) if found else Served()


def request_key(
    config: JudgeConfig, served: Served, *, prompt_sha256: str, tip: str, script: str
) -> str:
    """The sha256 (hex) of the canonical request. ``tip`` and ``script`` as they are sent."""
    return _sha256(
        {
            "model": config.model,
            "served": [served.model, served.fingerprint],
            "sampling": config.sampling(config.max_tokens),
            "prompt": prompt_sha256,
            "schema": SCHEMA_SHA256,
            "tip": tip,
            "script": script,
        }
    )


def enabled() -> bool:
    """Whether verdicts are looked up, and identical pairs asked about once."""
    return bool(settings.JUDGE_CACHE) and not _switched_off.get()


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """Ask anew for everything that is judged in this thread meanwhile; nothing is kept either.

    How a batch that is ``without_cache`` is worked on.
    """
    token = _switched_off.set(True)
    try:
        yield
    finally:
        _switched_off.reset(token)


@dataclass(frozen=True, slots=True)
class Kept:
    """A verdict that is kept, as it is needed again; the fields of `VerdictCache`."""

    label: str
    said: str
    reasoning: str
    evidence: list[dict[str, Any]]
    served_model: str
    system_fingerprint: str


def lookup(keys: Iterable[str]) -> dict[str, Kept]:
    """The verdicts that are kept under these keys."""
    if not enabled():
        return {}
    with connection.cursor() as cursor:  # twice a call: the ORM would put it together each time
        cursor.execute(_LOOKUP, [list(keys)])
        return {
            key: Kept(label, said, reasoning, json.loads(evidence), *served)
            for key, label, said, reasoning, evidence, *served in cursor.fetchall()
        }


def keepable(label: str, reason: str) -> bool:
    """Whether a verdict may be kept: it says something, and its quotes were found."""
    good = {JudgeLabel.FOLLOWED, JudgeLabel.CONTRADICTED, JudgeLabel.NOT_FOLLOWED}
    return label == JudgeLabel.NOT_APPLICABLE or (label in good and not reason)


def keep(verdicts: Iterable[VerdictCache]) -> None:
    """Keep them, unless they are there; by key, so that no two wait for each other."""
    if enabled():
        insert_rows(sorted(verdicts, key=lambda one: one.key), unless_there=True)
