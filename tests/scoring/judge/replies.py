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


def verdict(name: str = "t1", label: Any = "followed", **change: Any) -> dict[str, Any]:
    """One verdict whose checklist agrees with its label; done if that is none of ours."""
    finding = FINDING_OF.get(str(label), "done")
    quote = "chronyc -a makestep" if finding in {"done", "opposite"} else ""
    fields = {
        "id": name,
        "claims": [claim(finding, quote)],
        "reasoning": "it runs chronyc makestep",
        "label": label,
    }
    return fields | change


def reply(*verdicts: dict[str, Any]) -> str:
    """The content of a reply."""
    return json.dumps({"verdicts": list(verdicts)})
