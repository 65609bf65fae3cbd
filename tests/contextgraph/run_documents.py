"""Small envelopes and record streams for the intake tests, written for them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from contextgraph.envelope import (
    AttemptEntry,
    OutcomeCorrection,
    Record,
    RetrievalEntry,
    RunFooter,
    RunHeader,
    TipEntry,
)

START = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)


def header(external_id: str = "night-1", **fields: Any) -> RunHeader:
    values: dict[str, Any] = {"skill": "stig", "external_id": external_id, "started_at": START}
    return RunHeader(**(values | fields))


def tip(key: str, text: str = "", **fields: Any) -> TipEntry:
    return TipEntry(tip=key, text=text or f"Set option {key} in /etc/app.conf", **fields)


def retrieval(key: str, **fields: Any) -> RetrievalEntry:
    return RetrievalEntry(**({"tip": key, "rank": 1} | fields))


def attempt(rule_id: str = "app_option_set", **fields: Any) -> AttemptEntry:
    values: dict[str, Any] = {
        "rule_id": rule_id,
        "number": 1,
        "category": "app",
        "script": "echo 'option on' >> /etc/app.conf\n",
        "passed": True,
        "retrievals": (retrieval("t1"),),
    }
    return AttemptEntry(**(values | fields))


def run(*middle: Record, external_id: str = "night-1", **footer: Any) -> list[Record]:
    """A whole run around *middle*."""
    return [header(external_id), *middle, RunFooter(**footer)]


def correction(rule_id: str = "app_option_set", **fields: Any) -> OutcomeCorrection:
    return OutcomeCorrection(**({"rule_id": rule_id, "number": 1, "passed": True} | fields))


def envelope(
    external_id: str = "night-1", *, attempts: int = 2, **run_fields: Any
) -> dict[str, Any]:
    """A decoded envelope: each attempt retrieves both of its tips."""
    return {
        "schema": "contextgraph.run/1",
        "run": {
            "skill": "stig",
            "external_id": external_id,
            "started_at": START.isoformat(),
            "model": "model-a",
            "environment_tag": "lab",
        }
        | run_fields,
        "tips": [
            {"tip": f"{external_id}/t{n}", "text": f"Set option {n} of {external_id}"}
            for n in (1, 2)
        ],
        "attempts": [
            {
                "rule_id": f"app_option_{number}",
                "number": 1,
                "category": "app",
                "script": f"echo 'option {number}' >> /etc/app.conf\n",
                "passed": number % 2 == 0,
                "failure_mode": "" if number % 2 == 0 else "rule_still_failing",
                "retrievals": [{"tip": f"{external_id}/t{n}", "rank": n} for n in (1, 2)],
            }
            for number in range(attempts)
        ],
    }


def body_of(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
