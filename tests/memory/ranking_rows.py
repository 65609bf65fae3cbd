"""Rows and settings for tests of the ranker: evidence from real retrievals, skill files, vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from django.db import transaction

from contextgraph.skills import Ranking as Weights
from memory import evidence
from memory.models import EvictionSweep, Tip, TipVector
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from pathlib import Path

    from memory.encoders import FloatArray
    from memory.models import Run

SCAP: Final = "xccdf_org.ssgproject.content_rule_"
RULE: Final = f"{SCAP}audit_rules_dac_modification_fchmod"
ENCODER: Final = "e" * 64

UPSTREAM: Final = Weights(
    unit="retrieval",
    shrinkage=0.0,
    back_off=False,
    text_candidates=0,
    environment_slots=0,
    policy="adr0019",
)
"""The table under which the ranker is upstream's, constant by constant."""

SKILL_FILE: Final = """
[grading]
version = "1"
kind = "binary"

[ranking]
{ranking}

[holdout]
{holdout}

[eviction]
{eviction}
"""


def skill_files(folder: Path, *, ranking: str = "", holdout: str = "", eviction: str = "") -> Path:
    """A folder of skills with one file, for every skill; set PROMPTS_DIR to it."""
    (folder / "default").mkdir(parents=True, exist_ok=True)
    text = SKILL_FILE.format(ranking=ranking, holdout=holdout, eviction=eviction)
    (folder / "default" / "skill.toml").write_text(text)
    return folder


def history(tip: Tip, *rows: dict[str, Any], rule_id: str = RULE, category: str = "audit") -> Run:
    """A run that retrieved *tip* at *rule_id* once per dict, with its evidence counted.

    A dict names ``outcome`` (None: none), ``confidence`` and the signals of ``make_retrieval``.
    """
    run = make_run(status="done", skill=tip.skill)
    for number, row in enumerate(rows, start=1):
        signals = dict(row)
        attempt = make_attempt(
            run=run,
            rule_id=rule_id,
            number=number,
            category=category,
            outcome=signals.pop("outcome", 1.0),
        )
        confidence = signals.pop("confidence", None)
        if confidence is not None:
            signals["outcome_confidence"] = confidence
        make_retrieval(attempt=attempt, tip=tip, **signals)
    with transaction.atomic():
        evidence.refresh([run.pk])
    return run


def swept(tip: Tip) -> Tip:
    """*tip*, retired by a sweep."""
    sweep = EvictionSweep.objects.create(
        skill=tip.skill,
        policy="adr0019",
        gate={},
        state="applied",
        active=1,
        with_evidence=1,
        created_at=MOMENT,
        created_by="tests",
        applied_at=MOMENT,
        applied_by="tests",
    )
    tip.retired_at, tip.retired_reason, tip.retired_sweep = MOMENT, "weak", sweep
    tip.save()
    return tip


def unit(*numbers: float, length: int = 384) -> FloatArray:
    """A unit vector that starts with *numbers*."""
    vector = np.zeros(length, dtype=np.float64)
    vector[: len(numbers)] = numbers
    found: FloatArray = (vector / np.linalg.norm(vector)).astype(np.float32)
    return found


def with_vector(tip: Tip, vector: FloatArray, *, encoder: str = ENCODER) -> Tip:
    """*tip*, after its vector was stored."""
    TipVector.objects.create(
        tip=tip,
        skill=tip.skill,
        encoder=encoder,
        text_sha256=tip.text_sha256,
        values=vector.tolist(),
    )
    return tip


def rule_tip(**fields: Any) -> Tip:
    """A tip born of RULE in category audit, of which nothing else is known."""
    return make_tip(**({"source_rule_id": RULE, "category": "audit"} | fields))
