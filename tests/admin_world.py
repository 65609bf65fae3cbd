"""One row of every model that the admin shows, with the test's own text wherever a stranger may write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contextgraph.models import IncomingDocument, RejectedMessage
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
from scoring.memos.cache import sha256_of
from scoring.memos.facts import Snapshot, fact
from scoring.memos.naming import clean
from scoring.memos.stored import snapshot_as_dict
from scoring.models import (
    Calibration,
    EscalationBudget,
    JudgeCall,
    Judgement,
    JudgePause,
    Memo,
    Review,
    ScoreBatch,
    TextEmbedding,
    VerdictCache,
)
from tests import factories as make
from tests.factories import MOMENT

if TYPE_CHECKING:
    from django.db.models import Model

MODELS = (
    Attempt, Ban, Calibration, DreamPass, DreamStage, EscalationBudget, EvictionSweep,
    IncomingDocument, JudgeCall, JudgePause, Judgement, Memo, OutcomeRevision, RejectedMessage,
    Retrieval, Review, Run, RunEvidence, ScoreBatch, SweepEntry, TextEmbedding, Tip, TipChange,
    TipEvidence, TipVector, VerdictCache,
)  # fmt: skip
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202e\x1b[2J'

World = dict[type["Model"], Any]


def make_world(text: str, number: int) -> World:
    """One row of each model, with *text* wherever a stranger may write."""
    run = make.make_run(model=text, environment_tag=text, extra={"note": text}, source=text)
    attempt = make.make_attempt(
        run=run, rule_id=f"{text}{number}", title=text, script=text, narrative=text,
        failure_mode=text, evaluator_raw={"health": text},
    )  # fmt: skip
    tip = make.make_tip(
        text=text, mechanism=text, tip_type=text, category=text, source_rule_id=text
    )
    row = make.make_retrieval(
        attempt=attempt, tip=tip, trace="violated",
        tip_followed_trace_evidence=[{"text": text, "line": 1}],
    )  # fmt: skip
    rows = [run, attempt, tip, row, *_judging(row, text, number), *_intake(text, number)]
    rows += [*_memory(row, text), make_memo(text, number)]
    return {type(one): one for one in rows}


def _judging(row: Retrieval, text: str, number: int) -> list[Model]:
    call = JudgeCall.objects.create(
        run=row.run, requested_model=text[:200], served_model=text[:200], prompt_sha256="0" * 64,
        tips=1, http_tries=1, seconds=0.1, raw_reply=text, error=text[:500], error_class=text[:60],
    )  # fmt: skip
    judgement = Judgement.objects.create(
        retrieval=row, call=call, followed=True, reasoning=text, requested_model=text[:200],
        prompt_sha256="0" * 64, evidence=[{"quote": text, "claim": text, "why": text}],
    )  # fmt: skip
    pause = JudgePause.objects.create(
        since=MOMENT, until=MOMENT, cleared_at=MOMENT, cause=text[:500], error_class=text[:60]
    )
    batch = ScoreBatch.objects.create(
        run=row.run, round=1, signal="judge", number=1, first_id=1, last_id=2, changed_at=MOMENT
    )
    calibration = Calibration.objects.create(
        signal="trace", model=text[:200], version=text[:64], labels="pairs", pairs_sha256="0" * 64,
        n=1, decided=1, report={"note": text},
    )  # fmt: skip
    cached = VerdictCache.objects.create(
        key=f"{number:064d}", label="followed", said="followed", reasoning=text,
        requested_model=text[:200], prompt_sha256="0" * 64,
    )  # fmt: skip
    budget = EscalationBudget.objects.create(run=row.run, spent=1)
    vector = TextEmbedding.objects.create(
        text_sha256=f"{number:064d}", encoder_sha256="0" * 64, vector=b"x", chunks=b"", tokens=1,
        truncated=False,
    )  # fmt: skip
    review = make.make_review(retrieval=row, note=text, by=text[:150])
    return [call, judgement, pause, batch, calibration, cached, budget, vector, review]


def _intake(text: str, number: int) -> list[Model]:
    document = IncomingDocument.objects.create(
        sha256=f"{number:064d}", name=text, parts=2, size=10, last_part_at=MOMENT
    )
    rejected = make_rejected(detail=text, headers={"x": text}, body=text.encode())
    return [document, rejected]


def _memory(row: Retrieval, text: str) -> list[Model]:
    sweep = make.make_sweep(skill=text, created_by=text[:150])
    return [
        make.make_dream_pass(run=row.run, summary={"note": text}, report={"note": text}),
        make.make_dream_stage(run=row.run, state="failed", error=text, finished_at=MOMENT),
        make.make_run_evidence(run=row.run, tip=row.tip, rule_id=text, category=text),
        make.make_tip_evidence(tip=row.tip, level="rule", key=text),
        sweep,
        make.make_sweep_entry(sweep=sweep, tip=row.tip),
        make.make_tip_change(tip=row.tip, reason=text, by=text[:150]),
        make.make_revision(attempt=row.attempt, note=text, by=text[:150]),
        make.make_ban(run=row.run, pattern=text, rule_id=text),
        make.make_tip_vector(tip=row.tip),
    ]


def make_memo(text: str, number: int) -> Memo:
    """A memo that was judged, with a fact that is told, one of a file, and one that is left out."""
    facts = Snapshot(
        "run", f"{text}{number}", None,
        (
            fact("attempts", "count", 5, material=True, provenance=("attempts?run_id=1",)),
            fact("name of it", "name", clean(text), provenance=(text,)),
            fact("retrievals", "count", 7, provenance=(f"tip_retrievals?run_id=1&answer={text}",)),
        ),
    )  # fmt: skip
    said = f"There were 5 [F1] attempts. {text}"
    verdict = {
        "accepted": False, "reason": text, "tier": text[:20], "model": text, "prompt_sha": text,
        "items": [{"statement": 1, "claim": text, "finding": text, "citation": f"F1, {text}",
                   "why": text, "supported": False}], "faithfulness": "0.5",
    }  # fmt: skip
    return Memo.objects.create(
        key=f"{number:064d}", product="run", identifier=facts.identifier, mode="human",
        variant="single", model=text[:200], gate_version="gate-1", fingerprint="0" * 64,
        facts=snapshot_as_dict(facts), text=said, text_sha256=sha256_of(said),
        sides=[{"name": text, "text": text}], reason=text[:500], verdict=verdict,
        verdict_tier="default", accepted=False, written_at=MOMENT, judged_at=MOMENT,
    )  # fmt: skip


def make_rejected(**fields: Any) -> RejectedMessage:
    """A refused message that waits."""
    body = fields.pop("body", b"not json")
    values = {"reason": "not_json", "detail": "it is no JSON", "body": body, "body_size": len(body)}
    return RejectedMessage.objects.create(**(values | {"body_sha256": "0" * 64} | fields))
