"""Two consecutive runs of a small hardening job, in which the story of ADR-0019 happens.

Guarantees: ``RUN_LOGS`` are complete run logs in the upstream event format, oldest first, small enough to
be scored in a minute, and reproducible byte for byte from the TOML files beside them (``build.py``).

Does not guarantee: that they were run. Host, application and outcomes are invented; the scripts are
real shell and do what they say.

Shaped by: a demonstration whose every tip was right, on which outcome-only credit looked perfect.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
RUN_LOGS: tuple[Path, ...] = (HERE / "harbor-run-01.jsonl", HERE / "harbor-run-02.jsonl")
"""The bundled logs, in the order in which they were run."""

EXPECTED = HERE / "expected.toml"
"""What an audit of both runs has to find, written by hand."""
