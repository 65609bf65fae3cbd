"""Looks up what a fact's provenance names: the value of a column, or what stands at a path in its JSON.

The forms of a path are those of ``scoring.memos.product_pass``; this is written from its description,
and shares no code with it. Holds no assertions about facts.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from django.apps import apps

_HELD = re.compile(r"([a-z_]+):([0-9]+)#(.+)", re.DOTALL)
_FILTER = re.compile(r"(\w+)\[(\w+)=([^\]]*)\]")


def stored(source: str) -> Any:
    """The value that ``table:key#path`` names; of a list how many there are. None if it names no path."""
    held = _HELD.fullmatch(source)
    if held is None:
        return None
    (model,) = [one for one in apps.get_models() if one._meta.db_table == held[1]]
    column, *steps = held[3].split(".")
    value = getattr(model._default_manager.get(pk=held[2]), column)
    return value.date() if isinstance(value, datetime) else walked(value, steps)


def walked(value: Any, steps: list[str]) -> Any:
    """What stands at the end of the path; raises where there is nothing."""
    if not steps:
        return len(value) if isinstance(value, list) else value
    first, rest = steps[0], steps[1:]
    if isinstance(value, list):
        if first == "*":
            return sum(walked(one, rest) for one in value)
        return walked(named(value, unquote(first)), rest)
    if found := _FILTER.fullmatch(first):
        return walked([one for one in value[found[1]] if one[found[2]] == found[3]], rest)
    return walked(value[first], rest)


def named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The entry of a category or of a tip."""
    (one,) = [
        entry for entry in entries if name in {entry.get("category"), str(entry.get("tip_id"))}
    ]
    return one
