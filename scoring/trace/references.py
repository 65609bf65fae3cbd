"""Resolves what a sentence only points at: "that file", "both units", "the limit is 60".

Guarantees: a reference is replaced only by something that the same tip names before it; without
such a thing the text stays as it is. Linear time.

Does not guarantee grammar: the nearest thing of the right sort is taken.

Shaped by "PASS_X 90 was too long; the limit is 60": the only key stands in the half that failed.
"""

from __future__ import annotations

import re
from typing import Final

_PATH: Final = re.compile(
    r"(?<![\w/.])/(?:[\w.@+*%-]+/)+[\w.@+*%-]*[\w@*]|[\w@-]+\.(?:conf|cfg|rules|repo|defs|ini|list)\b"
)
_THAT_FILE: Final = re.compile(r"\b(?:that|this|the same)\s+(?:file|drop-in|path)\b", re.IGNORECASE)
_UNITS: Final = re.compile(
    r"\bsystemctl\s+[a-z-]+\s+(?:--?[a-z]+\s+)*(?P<names>[\w.@-]*\w)"
    r"|(?<![\w/.])(?P<unit>[\w@-]+\.(?:service|socket|timer))\b"
)
_ALL_UNITS: Final = re.compile(
    r"\b(?P<verb>mask|unmask|enable|disable|start|stop|restart|reload)\s+"
    r"(?:(?:both|all|these|those|the)\s+(?:two\s+)?(?:units|services|sockets|of them)|both\b|them\b)",
    re.IGNORECASE,
)
_KEY_VALUE: Final = re.compile(
    r"(?<![\w/.-])(?P<key>[A-Za-z][a-z]*[A-Z]\w*|[A-Za-z]+_\w+|[a-z]\w*(?:\.\w+)+)"
    r"(?P<sign>\s?=\s?|\s)(?P<value>\d+)(?!\w)"
)
_LIMIT: Final = re.compile(
    r"\b(?:the|its)\s+(?:\w+\s+)?(?:limit|maximum|minimum|threshold|value|number)\s+"
    r"(?:is|must be|should be|has to be|needs to be)\s+(?P<value>\d+%?)(?!\w)",
    re.IGNORECASE,
)


_NOT_DONE: Final = re.compile(
    r"(?:\bthe\s+)?(?<![\w/.-])(?P<name>[\w.@-]{2,40}(?:\s+(?:package|service|daemon|socket|unit))?)"
    r"\s+(?:must|should|may|can)\s+not\s+be\s+"
    r"(?P<verb>remov|restart|reload|start|stopp|enabl|disabl|mask|unmask|install)ed\b",
    re.IGNORECASE,
)
_BLOCK: Final = re.compile(
    r"(?P<before>\b(?:under|inside|within|in|below)\s+(?:an?|the)\s+)(?P<head>[A-Z]\w+(?:\s\w+){0,2})"
    r"(?=\s+(?:block|section|stanza)\b)"
)


LOOK_BACK: Final = 600
"""Characters before a reference in which what it means is looked for."""


def resolve_references(text: str) -> str:
    """Return a text in which references stand replaced by what they point at."""
    text = _NOT_DONE.sub(lambda match: f"do not {_bare_verb(match['verb'])} {match['name']}", text)
    text = _BLOCK.sub(r"\g<before>`\g<head>`", text)
    text = _THAT_FILE.sub(lambda match: _last_path(text, match), text)
    text = _ALL_UNITS.sub(lambda match: _named_units(text, match), text)
    return _LIMIT.sub(lambda match: _keyed(text, match), text)


def _bare_verb(stem: str) -> str:
    verb = stem.lower().replace("stopp", "stop")
    return verb + "e" if verb in ("remov", "enabl", "disabl") else verb


def _before(text: str, match: re.Match[str]) -> str:
    return text[max(match.start() - LOOK_BACK, 0) : match.start()]


def _last_path(text: str, match: re.Match[str]) -> str:
    paths = _PATH.findall(_before(text, match))
    return paths[-1] if paths else match[0]


def _named_units(text: str, match: re.Match[str]) -> str:
    found = _UNITS.finditer(_before(text, match))
    names = dict.fromkeys(one["names"] or one["unit"] for one in found)
    if not names:
        return match[0]
    return f"`systemctl {match['verb'].lower()} {' '.join(names)}`"


def _keyed(text: str, match: re.Match[str]) -> str:
    before = list(_KEY_VALUE.finditer(_before(text, match)))
    if not before:
        return match[0]
    sign = " = " if "=" in before[-1]["sign"] else " "
    return f"set `{before[-1]['key']}{sign}{match['value']}`"
