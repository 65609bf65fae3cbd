"""The run that the fault tests post: small, with every kind of row, and the same texts each time.

Guarantees: the texts do not differ between runs, so that the embedding worker encodes them once per
database and a restarted one finds them cached; only the external id is new. Of each run it is known
how many rows it must have and how many of them a judge can answer.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

from tests.faults.saboteur import POISON

ATTEMPTS, TIPS = 6, 4
_serial = itertools.count(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultRun:
    """An envelope and what must become of it."""

    external_id: str
    envelope: dict[str, Any]
    rows: int
    judgeable: int


def fault_run(*, poisoned: bool = False) -> FaultRun:
    """A new run of 24 rows: one tip was dropped from the prompt, one attempt has no script."""
    external_id = f"fault-{os.getpid()}-{next(_serial)}"
    tips = [
        {"tip": f"tip-{n}", "text": f"Write `Option{n} yes` to /etc/ssh/sshd_config.d/{n}.conf"}
        for n in range(1, TIPS + 1)
    ]
    attempts = [_attempt(number, [str(tip["tip"]) for tip in tips]) for number in range(ATTEMPTS)]
    attempts[0]["retrievals"][-1]["shown"] = False
    attempts[-1]["script"] = None
    if poisoned:
        tips.append({"tip": "tip-poison", "text": f"Run `sysctl -w {POISON}=1`"})
        attempts[1]["retrievals"].append({"tip": "tip-poison", "rank": TIPS + 1})
    rows = ATTEMPTS * TIPS + poisoned
    envelope = {
        "schema": "contextgraph.run/1",
        "run": {
            "skill": "stig",
            "external_id": external_id,
            "started_at": "2026-11-01T08:00:00Z",
            "ended_at": "2026-11-01T09:00:00Z",
            "model": "agent-1",
        },
        "tips": tips,
        "attempts": attempts,
    }
    return FaultRun(
        external_id=external_id, envelope=envelope, rows=rows, judgeable=rows - TIPS - 1
    )


def _attempt(number: int, tips: list[str]) -> dict[str, Any]:
    passed = number % 2 == 0
    return {
        "rule_id": f"rule-{number}",
        "number": 1,
        "category": "ssh" if number < ATTEMPTS // 2 else "audit",
        "script": f"echo 'Option{number} yes' > /etc/ssh/sshd_config.d/{number}.conf\n",
        "passed": passed,
        "failure_mode": "" if passed else "health_failure",
        "retrievals": [{"tip": tip, "rank": rank} for rank, tip in enumerate(tips, start=1)],
    }
