"""Which script did a tool call run, and is it all of it?

Guarantees: the text returned is exactly what the log holds, and ``truncated`` is True when the log itself
shows that this is not all: a marker, a length or sha256 that disagrees, or a string of exactly the 200
characters at which the upstream logger cuts, unless a length, sha256 or marker vouches for it, or a
longer script earlier in the run shows that this logger does not cut.

Does not guarantee: that the script ran to its end (see the tool result), or at all.

Shaped by: DEF-27 judging 4,085 retrievals on the first 200 characters of each script, most of them the
backup command that every script begins with.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contextgraph.runlogs.hazards import Hazard

if TYPE_CHECKING:
    from collections.abc import Callable

    from contextgraph.runlogs.fields import Fields

LOGGER_CUT = 200
"""Characters that the upstream logger keeps of each string argument."""

SCRIPT_ARGUMENTS = ("fix_script", "candidate_rule_yaml", "script")
"""Arguments that hold a script: hardening, detection tuning, and the plain name for other skills."""

CANONICAL_ARGUMENTS = {
    "apply_cve_fix": ("advisory_id",),
    "propose_exploit": ("cve_id", "recipe_id", "tool", "target_port", "worker_options"),
}
"""Tools without a script. What they do is their arguments; prose arguments say why and are left out."""

_STATUS = re.compile(r"\b(APPLIED|APPLY_FAILED)\b")


@dataclass(frozen=True, slots=True)
class LoggedScript:
    """A script as the log holds it."""

    text: str
    truncated: bool


def script_of(
    call: Fields, *, note: Callable[[Hazard], None], cuts: bool = True
) -> LoggedScript | None:
    """Return the script of a ``tool_call``, or None (noted) when its arguments hold none.

    ``cuts`` is False once the run has shown a longer string: then its logger does not cut at 200.
    """
    args = call.inner("args")
    for name in SCRIPT_ARGUMENTS:
        text = args.get(name)
        if isinstance(text, str) and text.strip():
            return _checked(text, name, args, call.data, note=note, cuts=cuts)
    tool = call.word("tool")
    if tool in CANONICAL_ARGUMENTS:
        return _canonical(tool, args, note=note, cuts=cuts)
    note(Hazard.UNKNOWN_TOOL)
    return None


def _canonical(
    tool: str, args: dict[str, Any], *, note: Callable[[Hazard], None], cuts: bool
) -> LoggedScript | None:
    """Write a call without a script as ``tool name=value …``, in the tool's own order."""
    parts, truncated = [tool], False
    for name in CANONICAL_ARGUMENTS[tool]:
        if (value := args.get(name)) in (None, ""):
            continue
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        truncated = truncated or (cuts and len(text) == LOGGER_CUT)
        parts.append(f"{name}={text}")
    if len(parts) == 1:
        note(Hazard.BAD_FIELD)
        return None
    return LoggedScript(" ".join(parts), truncated)


def _checked(
    text: str,
    name: str,
    args: dict[str, Any],
    data: dict[str, Any],
    *,
    note: Callable[[Hazard], None],
    cuts: bool,
) -> LoggedScript:
    """Compare the text with what the sender says about it. What is said outranks the 200 rule."""

    def said(*suffixes: str) -> Any:
        labels = [f"{stem}_{suffix}" for stem in (name, "script") for suffix in suffixes]
        return next((box[key] for box in (args, data) for key in labels if key in box), None)

    marked, length, digest = said("truncated"), said("len", "length"), said("sha256")
    if isinstance(marked, bool) and marked:
        return LoggedScript(text, truncated=True)
    if isinstance(length, int) and length not in (
        len(text),
        len(text.encode("utf-8", "surrogatepass")),
    ):
        # A longer original was cut; a shorter one is another text. Neither can be judged.
        if length < len(text):
            note(Hazard.SCRIPT_DIGEST_DIFFERS)
        return LoggedScript(text, truncated=True)
    if isinstance(digest, str):
        agrees = digest.lower().removeprefix("sha256:") == sha256_of(text)
        if not agrees and len(text) != LOGGER_CUT:
            note(Hazard.SCRIPT_DIGEST_DIFFERS)
        return LoggedScript(text, truncated=not agrees)
    vouched = not cuts or isinstance(marked, bool) or isinstance(length, int)
    return LoggedScript(text, truncated=not vouched and len(text) == LOGGER_CUT)


def shows_more(call: Fields) -> bool:
    """Whether an argument is longer than the upstream logger would have kept."""
    arguments = call.inner("args").values()
    return any(isinstance(value, str) and len(value) > LOGGER_CUT for value in arguments)


def sha256_of(text: str) -> str:
    """sha256 of the text's UTF-8 bytes, lone surrogates included, as 64 hex digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def apply_failed(result: object) -> bool:
    """True when the first status word of a tool result is APPLY_FAILED.

    The first one only: the output that follows may quote anything, the other word included.
    """
    text = result if isinstance(result, str) else json.dumps(result)
    status = _STATUS.search(text)
    return status is not None and status[0] == "APPLY_FAILED"
