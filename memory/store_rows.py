"""The rows behind ``memory.store``: claiming a run, beginning, saving and joining attempts.

Guarantees: every change claims its run first by an UPDATE that also says that the agent lives, so that
calls for one run go one after the other, none reaches a run that was ended meanwhile, and the reaper
sees a run that speaks. An attempt is open until it is saved (``ended_at``). At every moment the rows of
an attempt say what those of a posted run would: an outcome or the reason why there is none, and for each
signal that can never be computed the reason why.

Does not grade: the row of an attempt comes from the grader that the store was given.

Shaped by: attempts that got their row when their rule was finished, and none when it had gone well, so
that retrievals had to be matched to attempts by position.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Case, Max, Value, When

from contextgraph.run_survey import MAX_INTEGER
from memory.models import Attempt, Retrieval, Run, Tip
from memory.querysets import UnknownRun
from memory.reasons import Reason
from memory.retrieval_log import reasons_of
from memory.store_values import (
    AttemptConflict,
    AttemptState,
    Retrieved,
    RunClosed,
    RunHandle,
    ShownTip,
    StoreRefused,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from memory.holdout import Draw
    from memory.ranking_parts import RankedTip

SENT_MODE: Final = "sender_failure_mode"
"""Key in ``Attempt.extra``: the failure mode as sent, "" too, where the grader found another one."""

_CONTENT: Final = (
    "script", "script_truncated", "narrative", "evaluator_raw", "evaluator_error", "passed",
    "apply_failed", "deferred", "sender_grade_value", "sender_grade_confidence",
)  # fmt: skip
"""What makes two savings of an attempt the same; what was graded of it is not part of it."""

_BEGUN: Final = ("category", "title", "started_at")
"""What ``retrieve`` knows of an attempt beside its tips."""

_IDENTITY: Final = frozenset({"id", "run", "skill", "rule_id", "number", "sender_number"})


# --- Runs -----------------------------------------------------------------------------------------


def handle_of(run: Run) -> RunHandle:
    """The handle of a stored run."""
    return RunHandle(
        id=run.pk,
        skill=run.skill,
        external_id=run.external_id,
        started_at=run.started_at,
        model=run.model,
        environment_tag=run.environment_tag,
    )


def claim(handle: RunHandle) -> Run:
    """The run, held until the end of the transaction.

    Raises:
        UnknownRun: there is no such run (any more).
        RunClosed: it is not being recorded.
    """
    # one statement, not an UPDATE and a SELECT: every verb of the store begins with it
    claimed = Run.objects.raw(
        "UPDATE runs SET state_changed_at = statement_timestamp() WHERE id = %s AND skill = %s"
        " AND superseded_at IS NULL AND status = %s RETURNING *",
        [handle.id, handle.skill, Run.Status.RECORDING.value],
    )
    if (run := next(iter(claimed), None)) is not None:
        return run
    run = Run.objects.filter(pk=handle.id, skill=handle.skill).first()
    if run is None:
        msg = f"there is no run {handle.skill}/{handle.external_id} (primary key {handle.id})"
        raise UnknownRun(msg)
    raise closed(run)


def closed(run: Run) -> RunClosed:
    """The refusal for a run that is not being recorded."""
    state = "superseded by another revision" if run.superseded_at else str(run.status)
    return RunClosed(
        f"run {run} is {state}, not recording: what it did is settled; start a run of another id"
    )


# --- Attempts -------------------------------------------------------------------------------------


def attempt_at(run: Run, rule_id: str, number: int | None) -> Attempt | None:
    """The attempt with this number; for None the only open one of the rule, if there is one.

    Raises:
        StoreRefused: several are open, and no number says which is meant.
    """
    found = Attempt.objects.filter(run=run, rule_id=rule_id)
    if number is not None:
        return found.filter(number=number).first()
    return only_open(found.filter(ended_at=None), rule_id)


def only_open(attempts: Iterable[Attempt], rule_id: str) -> Attempt | None:
    """The one of the open *attempts*, None when there is none. Raises StoreRefused for several."""
    found = list(attempts)
    if len(found) > 1:
        numbers = ", ".join(f"#{attempt.number}" for attempt in found)
        msg = f"several attempts at {rule_id} are open ({numbers}): say which one by its number"
        raise StoreRefused(msg)
    return found[0] if found else None


def states(handle: RunHandle) -> list[AttemptState]:
    """How far each attempt of the run has come, in the order in which they were begun."""
    found = Attempt.objects.filter(run=handle.id).order_by("pk")
    rows = found.values_list("rule_id", "number", "pk", "ended_at", "passed")
    return [
        AttemptState(rule, number, key, saved=ended is not None, passed=passed)
        for rule, number, key, ended, passed in rows
    ]


def attempt_of(run: Run, attempt_id: int) -> Attempt:
    """The attempt with this primary key. Raises StoreRefused when *run* has none."""
    found = Attempt.objects.filter(run=run, pk=attempt_id).first()
    if found is None:
        msg = f"run {run} has no attempt with primary key {attempt_id}"
        raise StoreRefused(msg)
    return found


def next_number(run: Run, rule_id: str) -> int:
    """One more than the highest number of the rule. Raises StoreRefused when no column holds it."""
    numbers = Attempt.objects.filter(run=run, rule_id=rule_id).aggregate(last=Max("number"))
    last: int = numbers["last"] or 0
    if last >= MAX_INTEGER:
        msg = f"run {run} has an attempt {rule_id} #{last}: give the next one a smaller number"
        raise StoreRefused(msg)
    return last + 1


def fill(stored: Attempt, new: Attempt) -> None:
    """Write into the open attempt *stored* what *new* holds."""
    new.text_repaired |= stored.text_repaired
    for field in Attempt._meta.concrete_fields:
        if field.name not in _IDENTITY:
            setattr(stored, field.attname, getattr(new, field.attname))
    stored.save()


def refuse_other_content(stored: Attempt, new: Attempt, also: Collection[str]) -> None:
    """Raise AttemptConflict unless both have the same content; *also*: further columns to compare."""
    columns = [*_CONTENT, *also]
    if stored.outcome_grader == new.outcome_grader:
        columns.append("failure_mode")
    differing = [name for name in columns if getattr(stored, name) != getattr(new, name)]
    if differing:
        said = ", ".join(differing)
        msg = (
            f"attempt {stored} of run {stored.run} is saved (primary key {stored.pk}: "
            f"{_described(stored)}), and this one differs in {said} ({_described(new)}): "
            "give it a number of its own"
        )
        raise AttemptConflict(msg, attempt_id=stored.pk)


def _described(attempt: Attempt) -> str:
    script = f"script {attempt.script_sha256[:12] or 'empty'}" if attempt.script is not None else ""
    return f"{script or 'no script'}, passed {attempt.passed}"


# --- Retrievals -----------------------------------------------------------------------------------


def settle(attempt: Attempt) -> None:
    """Bring the retrievals of *attempt* in line with it: outcome, category and reasons; one UPDATE."""
    judge, others = reasons_of(attempt)
    Retrieval.objects.filter(attempt=attempt).update(
        outcome_value=attempt.outcome_value,
        outcome_confidence=attempt.outcome_confidence,
        category=attempt.category,
        llm_reason=_unless_dropped(judge),
        emb_reason=_unless_dropped(others),
        trace_reason=_unless_dropped(others),
    )


def _unless_dropped(reason: str) -> Case:
    return Case(When(shown=False, then=Value(Reason.NOT_SHOWN.value)), default=Value(reason))


def note_shown(attempt: Attempt, texts: Mapping[int, str], dropped: Collection[int]) -> None:
    """Write what the agent saw; *texts* and *dropped* name tips by primary key.

    Raises:
        StoreRefused: one of them was not handed out for *attempt*, or is in both.
    """
    named = {*texts, *dropped}
    rows = Retrieval.objects.filter(attempt=attempt, withheld=False, tip_id__in=named)
    found = {row.tip_id: row for row in rows.select_related("tip").only("tip", "tip__text")}
    wrong = sorted((named - found.keys()) | (texts.keys() & set(dropped)))
    if wrong:
        msg = (
            f"tip {wrong[0]} was not handed out for attempt {attempt}, or is both shown and dropped"
        )
        raise StoreRefused(msg)
    for tip, row in found.items():
        text = texts.get(tip, "")
        row.shown, row.shown_text = tip in texts, text
        row.shown_sha256 = hashlib.sha256(text.encode()).hexdigest() if text else ""
        row.shown_cut = bool(text) and len(text) < len(row.tip.text)
    Retrieval.objects.bulk_update(
        found.values(), ["shown", "shown_text", "shown_sha256", "shown_cut"]
    )


def answer(handle: RunHandle, attempt: Attempt) -> Retrieved:
    """What was logged for *attempt*, as the agent may see it."""
    rows = Retrieval.objects.filter(attempt=attempt).select_related("tip").order_by("rank", "pk")
    rows = rows.only(
        "tip", "rank", "similarity_score", "shown", "shown_text", "withheld", "canary",
        "tip__external_id", "tip__tip_type", "tip__scope",
    )  # fmt: skip
    found = list(rows)
    tips = [_as_logged(row) for row in found if row.shown]
    return _retrieved(handle, attempt, tips, withheld=sum(row.withheld for row in found))


def answer_of(handle: RunHandle, attempt: Attempt, draws: Collection[Draw]) -> Retrieved:
    """The same of what has just been logged, without asking for it."""
    tips = [_as_drawn(draw.tip) for draw in draws if draw.shown]
    return _retrieved(handle, attempt, tips, withheld=len(draws) - len(tips))


def _retrieved(
    handle: RunHandle, attempt: Attempt, tips: Iterable[ShownTip], *, withheld: int
) -> Retrieved:
    return Retrieved(
        run=handle,
        rule_id=attempt.rule_id,
        attempt_id=attempt.pk,
        attempt_number=attempt.number,
        tips=tuple(tips),
        withheld=withheld,
    )


def _as_logged(row: Any) -> ShownTip:
    return ShownTip(
        tip_id=row.tip_id,
        tip=row.tip.external_id,
        text=row.shown_text,
        rank=row.rank,
        score=row.similarity_score,
        tip_type=row.tip.tip_type,
        canary=row.canary,
        environment=row.tip.scope == row.tip.Scope.ENVIRONMENT,
    )


def _as_drawn(tip: RankedTip) -> ShownTip:
    return ShownTip(
        tip_id=tip.tip_id,
        tip=tip.external_id,
        text=tip.text,
        rank=tip.rank,
        score=tip.score,
        tip_type=tip.tip_type,
        canary=tip.canary,
        environment=tip.environment,
    )


def join(target: Attempt) -> int:
    """Move the retrievals of the rule's other open attempt to *target*; how many moved.

    A tip that *target* has already stays where it is. When all have moved, the other one was this attempt
    by another number: *target* gets what only ``retrieve`` was told, and the other goes, unless something
    stands in it, or a tip was born of it. One that was begun without tips has none to move: it was this
    attempt if it was begun before *target* was, and the next one if it was begun after it.

    Raises:
        StoreRefused: several others are open; or coins were tossed, which hang on the attempt's number.
    """
    others = Attempt.objects.filter(run=target.run, rule_id=target.rule_id, ended_at=None)
    source = only_open(others.exclude(pk=target.pk), target.rule_id)
    if source is None:
        return 0
    theirs = Retrieval.objects.filter(attempt=source)
    taken = Retrieval.objects.filter(attempt=target).values("tip_id")
    moving = theirs.exclude(tip_id__in=taken)
    if moving.filter(coin__isnull=False).exists():
        msg = (
            f"the hold-out coins of attempt {source} were tossed for that number and would not verify "
            f"under {target}: save the attempt with number={source.number} instead"
        )
        raise StoreRefused(msg)
    moved = moving.update(attempt=target)
    # keys of one run follow the order in which its rows were made: each verb holds the run
    if (moved or source.pk < target.pk) and not theirs.exists() and _says_nothing(source):
        for name in _BEGUN:
            setattr(target, name, getattr(target, name) or getattr(source, name))
        target.save(update_fields=_BEGUN)
        source.delete()
    settle(target)
    return moved


def _says_nothing(attempt: Attempt) -> bool:
    """Whether nothing is lost with *attempt*, which has no retrieval."""
    new = Attempt()
    if any(getattr(attempt, name) != getattr(new, name) for name in (*_CONTENT, "outcome_value")):
        return False
    born = Tip.objects.filter(
        skill=attempt.skill,
        source_run_id=attempt.run.external_id,
        source_rule_id=attempt.rule_id,
        extra__source_attempt=attempt.number,
    )
    return not born.exists() and not attempt.outcome_revisions.exists()
