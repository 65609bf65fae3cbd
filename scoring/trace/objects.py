"""Reads "restart sshd", "the telnet package must be removed" as a verb and its object.

Guarantees: a plain English word becomes an object only beside a noun ("service"), in quotes, in
a technical form, or after a verb that takes nothing else; a past participle before a plain word
("is only disabled can") is no advice.

Does not guarantee the right kind: where a sentence speaks of neither packages nor services, the verb
decides.

Shaped by sentences in which "enabled", "installed" and "removed" only describe.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from scoring.trace.english import NO_NAMES

if TYPE_CHECKING:
    from scoring.trace.vocabulary import ActionVocabulary

_OBJECT_STATE: Final = re.compile(
    r"(?<![\w/.-])[\"`']?(?P<name>[a-z][\w.+@-]{1,40})[\"`']?(?:\s+(?P<noun>service|daemon|package|unit|socket))?"
    r"\s+(?:must|should|has to|needs to|is to|ought to)\s+(?:be|stay|remain|get)\s+"
    r"(?P<verb>restarted|reloaded|started|stopped|enabled|disabled|masked|unmasked|installed|removed)\b"
)
_VERB_OBJECT: Final = re.compile(
    r"\b(?P<verb>restart|reload|start|stop|enabl|disabl|mask|unmask|install|reinstall|uninstall|remov|eras|purg)"
    r"(?P<form>e|es|ed|s|ing|ping|ting)?\s+(?:the\s+|both\s+)?[\"`']?(?P<name>[A-Za-z][\w.+@-]{1,40})[\"`']?"
    r"(?:\s+(?P<noun>service|daemon|package|unit|socket|timer|rpm)\b)?",
    re.IGNORECASE,
)
_VERB_BEFORE: Final = re.compile(
    r"\b(?P<verb>restart|reload|start|stop|enable|disable|mask|unmask|install|remove)"
    r"(?:,|\s+and|\s+or|,\s+and)\s+$",
    re.IGNORECASE,
)
_PACKAGES: Final = re.compile(r"\b(?:packages?|rpms?|dnf|yum|apt|apt-get|zypper)\b", re.IGNORECASE)
_SERVICES: Final = re.compile(
    r"\b(?:services?|daemons?|systemctl|units?|sockets?)\b", re.IGNORECASE
)
_STEMS: Final = {
    "enabl": "enable", "disabl": "disable", "remov": "remove", "eras": "remove", "purg": "remove",
    "uninstall": "remove",
}  # fmt: skip
_STATES: Final = {
    "enabled": "enable", "disabled": "disable", "removed": "remove", "stopped": "stop",
}  # fmt: skip
_SERVICE_VERBS: Final = frozenset(
    {"restart", "reload", "start", "stop", "mask", "unmask", "enable", "disable"}
)
_LOOK_BACK: Final = 20
# "Start" and "stop" take anything; these take services and packages.
_STRONG: Final = frozenset({"restart", "reload", "mask", "unmask", "reinstall"})


def find_objects(text: str, vocabulary: ActionVocabulary, sentence: str) -> list[tuple[str, str]]:
    """Return pairs of "kind verb" and name, as ("service restart", "sshd")."""
    found: list[tuple[str, str] | None] = []
    for match in _VERB_OBJECT.finditer(text):
        pair = _verb_object(match, vocabulary, sentence)
        before = _VERB_BEFORE.search(text[max(match.start() - _LOOK_BACK, 0) : match.start()])
        if pair and before:
            # "Stop and disable x": both verbs have the one object.
            found.append((f"{pair[0].partition(' ')[0]} {before['verb'].lower()}", pair[1]))
        found.append(pair)
    found += [_state(match) for match in _OBJECT_STATE.finditer(text)]
    return [pair for pair in found if pair is not None]


def _verb_object(
    match: re.Match[str], vocabulary: ActionVocabulary, sentence: str
) -> tuple[str, str] | None:
    stem, name = match["verb"].lower(), match["name"]
    verb = _STEMS.get(stem, stem)
    quoted = match[0].rstrip()[-1:] in "\"`'" or match[0].split()[-1][:1] in "\"`'"
    noun = (match["noun"] or "").lower()
    technical = bool(re.search(r"[-_.\d]", name)) or name in vocabulary.programs
    if name.lower() in NO_NAMES or "/" in name or name.endswith(("ing", ".conf", ".d")):
        return None
    context = _PACKAGES if verb not in _SERVICE_VERBS else _SERVICES
    imperative = match["form"] != "ed"
    plain = imperative and name.islower() and (verb in _STRONG or bool(context.search(sentence)))
    if not (noun or technical or quoted or plain):
        return None
    kind = "package" if noun in ("package", "rpm") or verb not in _SERVICE_VERBS else "service"
    named = noun in ("package", "rpm") or technical or plain
    if kind == "package" and not (named or verb in ("install", "reinstall")):
        return None
    return f"{kind} {verb}", name.removesuffix(".service")


def _state(match: re.Match[str]) -> tuple[str, str] | None:
    """Read "X should stay masked" as "mask X"."""
    name, state = match["name"], match["verb"]
    if name in NO_NAMES:
        return None
    verb = _STATES.get(state, state.removesuffix("ed"))
    package = match["noun"] == "package" or verb in ("install", "remove")
    return f"{'package' if package else 'service'} {verb}", name
