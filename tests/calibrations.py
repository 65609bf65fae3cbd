"""Stored calibrations for tests that ask whether a judge has the mark. Holds no assertions."""

from __future__ import annotations

from typing import Any

from scoring.calibrated import MIN_DECIDED
from scoring.models import Calibration


def served(model: str = "", fingerprint: str = "", decided: int = MIN_DECIDED) -> dict[str, Any]:
    """What answered; by default a server that says nothing about itself."""
    return {"model": model, "fingerprint": fingerprint, "decided": decided}


def make_calibration(model: str, prompt_sha256: str, **fields: Any) -> Calibration:
    """A calibration of this judge on just enough answered pairs, several tips a question."""
    values: dict[str, Any] = {
        "signal": "judge",
        "version": "1",
        "labels": "pairs",
        "pairs_sha256": "0" * 64,
        "n": MIN_DECIDED,
        "decided": MIN_DECIDED,
        "report": {},
        "served": [served()],
        "asked": {"mode": "per_attempt"},
    }
    return Calibration.objects.create(model=model, prompt_sha256=prompt_sha256, **(values | fields))
