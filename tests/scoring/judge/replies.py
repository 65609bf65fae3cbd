"""Replies for the judge's tests: verdicts as a server would write them, valid unless changed.

Holds no assertions. Shaped by tests that each spelled the schema out by hand and went stale apart.
"""

from __future__ import annotations

import json
from typing import Any

FINDING_OF = {
    "followed": "done",
    "contradicted": "opposite",
    "not_followed": "absent",
    "not_applicable": "absent",
    "unclear": "unclear",
}


def claim(
    finding: str = "done", quote: str = "chronyc -a makestep", **change: Any
) -> dict[str, Any]:
    """One line of a checklist."""
    line = {"claim": "step the clock", "finding": finding, "quote": quote, "why": "it runs it"}
    return line | change


def verdict(label: Any = "followed", **change: Any) -> dict[str, Any]:
    """One verdict whose checklist agrees with its label; done if that is none of ours."""
    finding = FINDING_OF.get(str(label), "done")
    quote = "chronyc -a makestep" if finding in {"done", "opposite"} else ""
    fields = {
        "claims": [claim(finding, quote)],
        "reasoning": "it runs chronyc makestep",
        "label": label,
    }
    return fields | change


def reply(*verdicts: Any, **by_id: Any) -> str:
    """The content of a reply; verdicts that are given without an id are about t1, t2, ..."""
    numbered = {f"t{number}": one for number, one in enumerate(verdicts, 1)}
    return json.dumps({"verdicts": numbered | by_id})


def with_id_twice(first: Any, second: Any) -> str:
    """The content of a reply in which t1 is a key twice, which no dict can hold."""
    return f'{{"verdicts": {{"t1": {json.dumps(first)}, "t1": {json.dumps(second)}}}}}'
