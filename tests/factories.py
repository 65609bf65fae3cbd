"""Row builders for tests: plain functions that fill in whatever the constraints ask for.

Each takes keyword arguments only, makes what it needs (a retrieval makes its attempt, an attempt its
run) and returns the saved row. Any model field may be given by name. Signals have short names here
(``llm=True``, ``emb=0.7``, ``trace="followed"``, ``review=False``), because a label in the table
needs a source and a time beside it, which no test wants to spell out.
"""

from __future__ import annotations

import hashlib
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from contextgraph.skills import Eviction
from memory.duplicates import words_sha256
from memory.eviction_gate import gate_as_dict
from memory.models import (
    Attempt,
    Ban,
    DreamPass,
    DreamStage,
    EvictionSweep,
    OutcomeRevision,
    Retrieval,
    Run,
    RunEvidence,
    SweepEntry,
    Tip,
    TipChange,
    TipEvidence,
    TipVector,
)
from memory.reasons import Reason
from scoring.models import Review

MOMENT = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
"""When the first run starts; each later one minutes after, so that a whole suite lies in the past."""

_serial = itertools.count(1)


def sha256(text: str) -> str:
    """Hex digest of *text*; empty for an empty text, as the tables have it."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def make_run(**fields: Any) -> Run:
    """A run of skill ``stig`` that was ingested and waits for scoring."""
    number = next(_serial)
    started = MOMENT + timedelta(minutes=number)
    values: dict[str, Any] = {
        "skill": "stig",
        "external_id": f"run-{number}",
        "source": "tests",
        "digest": sha256(f"run {number}"),
        "started_at": started,
        "ended_at": fields.get("started_at", started) + timedelta(minutes=30),
        "model": "model-a",
        "environment_tag": "env-a",
        "state_changed_at": started,
    }
    if fields.get("status") == Run.Status.DONE:
        values["done_at"] = started
    return Run.objects.create(**(values | fields))


def make_tip(**fields: Any) -> Tip:
    """An active tip of skill ``stig``. ``created_at`` may be given although it is set on insert."""
    number = next(_serial)
    created_at = fields.pop("created_at", None)
    text = fields.get("text", f"Write option {number} to /etc/app{number}.conf")
    values: dict[str, Any] = {
        "skill": "stig",
        "external_id": f"tip-{number}",
        "text": text,
        "text_sha256": sha256(text),
        "words_sha256": words_sha256(text),
        "tip_type": "strategy",
        "category": "ssh",
    }
    tip = Tip.objects.create(**(values | fields))
    if created_at is not None:
        tip.created_at = created_at
        tip.save(update_fields=["created_at"])
    return tip


def make_attempt(*, run: Run | None = None, outcome: float | None = 1.0, **fields: Any) -> Attempt:
    """A graded attempt with a whole script. ``outcome=None``: the evaluator gave no verdict."""
    run = run or make_run()
    script = fields.get("script", "echo 'option on' > /etc/app.conf\n")
    graded = outcome is not None
    values: dict[str, Any] = {
        "skill": run.skill,
        "rule_id": f"rule_{next(_serial)}",
        "number": 1,
        "sender_number": fields.get("number", 1),
        "category": "ssh",
        "script": script,
        "script_sha256": sha256(script or ""),
        "passed": outcome > 0 if outcome is not None else None,
        "outcome_value": outcome,
        "outcome_confidence": 1.0 if graded else None,
        "outcome_reason": "" if graded else Reason.NO_OUTCOME,
        "outcome_grader": "stig@1",
    }
    return Attempt.objects.create(run=run, **(values | fields))


def make_retrieval(
    *,
    attempt: Attempt | None = None,
    tip: Tip | None = None,
    llm: bool | None = None,
    emb: float | None = None,
    trace: str = "",
    review: bool | None = None,
    **fields: Any,
) -> Retrieval:
    """A tip that was shown to *attempt*, with the signals given and no others.

    ``trace`` is a verdict: followed, violated, not_followed or abstained. A row made with
    ``shown=False`` gets the reason ``not_shown`` for every signal.
    """
    attempt = attempt or make_attempt()
    tip = tip or make_tip(skill=attempt.skill)
    shown = fields.get("shown", True)
    values: dict[str, Any] = {
        "rule_id": attempt.rule_id,
        "rank": 1,
        "similarity_score": 0.5,
        "outcome_value": attempt.outcome_value,
        "outcome_confidence": attempt.outcome_confidence,
        "retrieved_at": attempt.run.started_at,
        "skill": attempt.skill,
        "category": attempt.category,
        "model": attempt.run.model,
        "environment_tag": attempt.run.environment_tag,
        "superseded": attempt.run.superseded_at is not None,
        "shown": shown,
        "shown_text": tip.text if shown else "",
        "shown_sha256": tip.text_sha256 if shown else "",
    }
    if not shown:
        values |= dict.fromkeys(("llm_reason", "emb_reason", "trace_reason"), Reason.NOT_SHOWN)
    values |= signal_fields(llm=llm, emb=emb, trace=trace, review=review)
    if fields.get("llm_label") in {"unclear", "not_applicable"}:
        values |= {"llm_reason": fields["llm_label"], "llm_source": "judge-a@0"}
    return Retrieval.objects.create(run=attempt.run, attempt=attempt, tip=tip, **(values | fields))


def signal_fields(
    *,
    llm: bool | None = None,
    emb: float | None = None,
    trace: str = "",
    review: bool | None = None,
) -> dict[str, Any]:
    """The columns that make these signals valid rows: values with their sources and times."""
    values: dict[str, Any] = {}
    if llm is not None:
        values |= {"tip_followed_llm": llm, "llm_source": "judge-a@0"}
    if emb is not None:
        values |= {
            "tip_followed_emb": emb,
            "tip_followed_emb_max_chunk": emb,
            "emb_source": "encoder-a",
        }
    if llm is not None or emb is not None:
        values["tip_followed_computed_at"] = MOMENT
    if trace:
        scores = {"followed": 1.0, "violated": 0.0, "not_followed": 0.0, "abstained": None}
        values |= {
            "tip_followed_trace_verdict": trace,
            "tip_followed_trace_version": "1",
            "tip_followed_trace": scores[trace],
            "trace_reason": Reason.TRACE_ABSTAINED if trace == "abstained" else "",
        }
    if review is not None:
        values |= {"tip_followed_review": review, "tip_followed_review_by": "reviewer"}
    return values


def make_dream_pass(*, run: Run | None = None, **fields: Any) -> DreamPass:
    """A stored recount of *run*."""
    values: dict[str, Any] = {"number": 1, "policy": "adr0019", "retrievals": 0, "summary": {}}
    return DreamPass.objects.create(run=run or make_run(), **(values | fields))


def make_dream_stage(*, run: Run | None = None, **fields: Any) -> DreamStage:
    """A stage that is still to be done."""
    return DreamStage.objects.create(
        run=run or make_run(), **({"stage": "score", "number": 1} | fields)
    )


def make_review(*, retrieval: Retrieval | None = None, **fields: Any) -> Review:
    """A review as a row; the retrieval does not know of it (``scoring.reviews`` is the door)."""
    values = {"followed": True, "by": "reviewer"}
    return Review.objects.create(retrieval=retrieval or make_retrieval(), **(values | fields))


# --- Sums -----------------------------------------------------------------------------------------

NO_SUMS: dict[str, int] = dict.fromkeys(
    ("rows", "shown", "followed", "ignored", "earned", "misleading", "lucky_neighbour", "bystander",
     "credit_n", "credit_total", "visits", "visit_total", "visit_squares"), 0,
)  # fmt: skip


def make_run_evidence(
    *, run: Run | None = None, tip: Tip | None = None, **sums: Any
) -> RunEvidence:
    """Sums as given, of no rows at all: what ``memory.evidence`` makes is another matter."""
    values: dict[str, Any] = {"policy": "adr0019", "rule_id": "rule", **NO_SUMS}
    return RunEvidence.objects.create(
        run=run or make_run(), tip=tip or make_tip(), **(values | sums)
    )


def make_tip_evidence(*, tip: Tip | None = None, **sums: Any) -> TipEvidence:
    """Sums of a tip anywhere, as given."""
    tip = tip or make_tip()
    values: dict[str, Any] = {"skill": tip.skill, "policy": "quadrant", "level": "tip", **NO_SUMS}
    return TipEvidence.objects.create(tip=tip, **(values | sums))


# --- Sweeps, changes, revisions -------------------------------------------------------------------


def make_sweep(**fields: Any) -> EvictionSweep:
    """A previewed sweep of skill ``stig`` that has caught nothing yet."""
    values: dict[str, Any] = {
        "skill": "stig",
        "policy": "adr0019",
        "gate": gate_as_dict(Eviction(policy="adr0019")),
        "active": 1,
        "with_evidence": 1,
        "created_at": MOMENT,
        "created_by": "operator",
    }
    return EvictionSweep.objects.create(**(values | fields))


def make_sweep_entry(
    *, sweep: EvictionSweep | None = None, tip: Tip | None = None, **fields: Any
) -> SweepEntry:
    """A tip that the gate caught for following into failures."""
    counts = ("earned", "misleading", "lucky_neighbour", "bystander")
    values: dict[str, Any] = {
        "cause": "misleading", "mean": -0.5, "low": -0.9, "high": 0.1, "visits": 3,
        "figures": dict.fromkeys(counts, 0),
    }  # fmt: skip
    return SweepEntry.objects.create(
        sweep=sweep or make_sweep(), tip=tip or make_tip(), **(values | fields)
    )


def make_tip_change(*, tip: Tip | None = None, **fields: Any) -> TipChange:
    """A line of a tip's history; the tip itself stays as it is."""
    values = {"action": "retire", "reason": "it misleads", "by": "operator", "at": MOMENT}
    return TipChange.objects.create(tip=tip or make_tip(), **(values | fields))


def make_revision(*, attempt: Attempt | None = None, **fields: Any) -> OutcomeRevision:
    """A regrade that made a success of a failure."""
    values: dict[str, Any] = {
        "number": 1, "cause": "regrade", "old_value": 0.0, "old_confidence": 1.0,
        "old_grader": "stig@1", "new_value": 1.0, "new_confidence": 1.0, "new_grader": "stig@2",
        "by": "operator", "at": MOMENT,
    }  # fmt: skip
    return OutcomeRevision.objects.create(attempt=attempt or make_attempt(), **(values | fields))


def make_ban(*, run: Run | None = None, **fields: Any) -> Ban:
    """A pattern that is not to be tried again."""
    run = run or make_run()
    return Ban.objects.create(run=run, **({"skill": run.skill, "pattern": "chmod 777"} | fields))


def make_tip_vector(*, tip: Tip | None = None, **fields: Any) -> TipVector:
    """A vector of unit length, of no real encoder."""
    tip = tip or make_tip()
    values: dict[str, Any] = {
        "skill": tip.skill, "encoder": "e" * 64, "text_sha256": tip.text_sha256,
        "values": [1.0, 0.0, 0.0],
    }  # fmt: skip
    return TipVector.objects.create(tip=tip, **(values | fields))
