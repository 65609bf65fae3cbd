"""Eviction sweeps: what the gate catches is written down, then retired, then perhaps given back.

Guarantees: a preview changes no tip; a sweep is applied once and undone once, by whoever claims its row
first; applying retires the entries that were not over the cap, are still active and unprotected at that
moment, and were not brought back by a person since the preview, and notes why it left the others;
undoing gives back exactly the tips that are still retired by this sweep, so that what a person or
another sweep has retired since stays retired. Each call is one transaction: a reader sees all of its
tips retired or none. Does not look at the evidence again between preview and apply: what was approved is
what happens.

An automatic sweep (of a dream pass) is made on a run's way to its first DONE, at most once, and never
after it, whatever was caught by then: so no re-grading, late verdict, scoring again or forced pass of a
run that was final retires a tip, however many runs it touches, and ``memory.gate_outlook`` tells who
would be caught then. A run that a change reached before its first pass was over is not final yet: the
pass that makes it so sweeps, on the rows as they are then. An automatic sweep leaves alone a tip that
came back until it has been tested again. A sweep that a person asks for spares nobody.

Shaped by: 587 tips retired in one night without a word which rule had caught which, and no way back;
one re-grading that swept once per run, so that no cap held; and a run that never swept because a verdict
came between its first pass and its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from contextgraph.skills import Eviction, load_skill
from memory.audit.scope import Scope
from memory.eviction_gate import Flip, Flips, evictable, gate_as_dict, gate_of, judge
from memory.models import EvictionSweep, SweepEntry, Tip, TipChange
from memory.retirement import BATCH, checked_author, reactivate_all, retire_all

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

    from memory.eviction_gate import Verdict
    from memory.models import Run

State = EvictionSweep.State

LEFT: Final = "left"
"""Key in ``SweepEntry.figures``: why an applied sweep, or its undoing, did not touch the tip."""

RETURNED: Final = "brought back since the preview"

FINAL_BEFORE: Final = (
    "a run that was final before sweeps no more; manage.py sweep shows who would be caught"
)


class SweepError(Exception):
    """A sweep cannot do what was asked; names the sweep and its state."""


class UnknownSweep(SweepError):
    """No sweep has this id."""


class SweepStateError(SweepError):
    """The sweep is not in the state that this step starts from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What applying or undoing a sweep did. ``left``: primary key of a tip -> why it was not touched."""

    sweep: EvictionSweep
    tips: tuple[int, ...]
    left: dict[int, str]


def plan(
    skill: str,
    *,
    gate: Eviction | None = None,
    by: str,
    run: Run | None = None,
    now: datetime | None = None,
    spare_returned: bool = False,
) -> tuple[EvictionSweep, list[SweepEntry]]:
    """The sweep that :func:`preview` would store, and its entries, worst first; nothing is stored.

    ``gate``: None takes that of the skill's file. ``run``: whose dream pass asks.

    Raises:
        ScopeError: nothing is stored about *skill*, or *run* is of another one or superseded.
        GateError, UnknownPolicy, SkillError: the gate cannot be used.
        RetirementError: *by* names nobody.
    """
    Scope(skill=skill, run=run)
    now = now or timezone.now()
    verdict = judge(skill, gate or gate_of(skill), now=now, spare_returned=spare_returned)
    sweep = EvictionSweep(
        skill=skill,
        policy=verdict.gate.policy,
        gate=gate_as_dict(verdict.gate) | {"spares_returned": spare_returned},
        run=run,
        active=verdict.active,
        with_evidence=verdict.with_evidence,
        created_at=now,
        created_by=checked_author(by),
    )
    return sweep, _entries(sweep, verdict)


def preview(
    skill: str,
    *,
    gate: Eviction | None = None,
    by: str,
    run: Run | None = None,
    now: datetime | None = None,
    spare_returned: bool = False,
) -> EvictionSweep:
    """Store a sweep with an entry for each tip that the gate catches; no tip changes.

    Arguments and errors as of :func:`plan`.
    """
    with transaction.atomic():
        sweep, entries = plan(
            skill, gate=gate, by=by, run=run, now=now, spare_returned=spare_returned
        )
        sweep.save()
        SweepEntry.objects.bulk_create(entries, batch_size=BATCH)
    return sweep


def apply(sweep_id: int, *, by: str, now: datetime | None = None) -> Change:
    """Retire what a previewed sweep caught; entries over the cap stay active.

    Raises:
        UnknownSweep: no such sweep.
        SweepStateError: it was applied before; nothing was changed.
        RetirementError: *by* names nobody.
    """
    by, now = checked_author(by), now or timezone.now()
    with transaction.atomic():
        sweep = _claimed(sweep_id, State.PREVIEWED, State.APPLIED, applied_at=now, applied_by=by)
        entries = list(sweep.entries.filter(over_cap=False))
        gate, returns = _stored_gate(sweep), _returns_by_people(sweep)
        retired = retire_all(
            {entry.tip_id: _reason(entry, sweep) for entry in entries},
            by=by,
            at=now,
            sweep=sweep,
            among=lambda tips: evictable(tips, gate).exclude(pk__in=returns),
        )
        sweep.entries.filter(tip__in=retired).update(retired=True)
        done, returned = set(retired), set(returns)
        left = _note_left([e for e in entries if e.tip_id in returned - done], active=RETURNED)
        others = [entry for entry in entries if entry.tip_id not in done | returned]
        left |= _note_left(others, active="protected")
    return Change(sweep=sweep, tips=tuple(retired), left=left)


def undo(sweep_id: int, *, by: str, now: datetime | None = None) -> Change:
    """Give back the tips that are still retired by an applied sweep.

    Raises:
        UnknownSweep: no such sweep.
        SweepStateError: it is not applied, or was undone before; nothing was changed.
        RetirementError: *by* names nobody.
    """
    by, now = checked_author(by), now or timezone.now()
    with transaction.atomic():
        sweep = _claimed(sweep_id, State.APPLIED, State.UNDONE, undone_at=now, undone_by=by)
        own = Tip.objects.filter(retired_sweep=sweep)
        given_back = reactivate_all(
            own, reason=f"sweep {sweep.pk} was undone", by=by, at=now, sweep=sweep
        )
        own_entries = sweep.entries.filter(retired=True)
        own_entries.filter(tip__in=given_back).update(given_back=True)
        left = _note_left(list(own_entries.filter(given_back=False)), active="came back before")
    return Change(sweep=sweep, tips=tuple(given_back), left=left)


def flips(skill: str, old: Eviction, new: Eviction, *, now: datetime | None = None) -> Flips:
    """Which tips change sides when *new* takes the place of *old*; reads only.

    Call it inside ``memory.snapshot.one_moment``, so that both gates see the same rows.

    Raises:
        ScopeError: nothing is stored about *skill*.
        UnknownPolicy: a gate names a policy that there is not.
    """
    now = now or timezone.now()
    before, after = judge(skill, old, now=now), judge(skill, new, now=now)
    was = {one.tip_id: one for one in before.caught}
    will = {one.tip_id: one for one in after.caught}
    return Flips(
        old=before,
        new=after,
        newly_caught=tuple(
            Flip(tip_id=tip, old=None, new=one) for tip, one in will.items() if tip not in was
        ),
        set_free=tuple(
            Flip(tip_id=tip, old=one, new=None) for tip, one in was.items() if tip not in will
        ),
        caught_by_both=tuple(
            Flip(tip_id=tip, old=was[tip], new=one) for tip, one in will.items() if tip in was
        ),
    )


def automatic_sweep(run: Run, by: str = "dream pass") -> dict[str, Any]:
    """The sweep of a dream pass: previewed and applied where the skill's file says ``automatic``.

    Makes no row when nothing is caught, and none for a superseded run. Once it was final, a run sweeps no
    more, whether or not anything was caught or the stage had failed: a later pass tells of the run's
    applied or undone sweep, where it has one, and retires nothing. A stage that failed is tried again,
    and sweeps, only where the run was left before it was DONE.

    Returns:
        ``sweep`` (id or None), ``state``, ``active``, ``with_evidence``, ``caught``, ``over_cap``,
        ``retired``, ``given_back`` (counts); ``note`` says why there is no sweep.
    """
    if run.superseded_at is not None:
        return _told(None, note="the run was superseded")
    earlier = run.sweeps.exclude(state=State.PREVIEWED).order_by("pk").first()
    if earlier is not None:
        return _told(earlier)
    if run.done_at is not None:
        return _told(None, note=FINAL_BEFORE)
    if not load_skill(settings.PROMPTS_DIR, run.skill).eviction.automatic:
        return _told(None, note="automatic sweeps are off for this skill")
    with transaction.atomic():
        planned, entries = plan(run.skill, by=by, run=run, spare_returned=True)
        if all(entry.over_cap for entry in entries):
            counts = {"active": planned.active, "with_evidence": planned.with_evidence}
            caught = {"caught": len(entries), "over_cap": len(entries)}
            note = "the cap is 0" if entries else "nothing was caught"
            return _told(None, note=note) | counts | caught
        planned.save()
        SweepEntry.objects.bulk_create(entries, batch_size=BATCH)
        return _told(apply(planned.pk, by=by).sweep)


def sweep_of(sweep_id: int) -> EvictionSweep:
    """The sweep with this id. Raises UnknownSweep."""
    found = EvictionSweep.objects.filter(pk=sweep_id).first()
    if found is None:
        msg = f"there is no sweep {sweep_id}"
        raise UnknownSweep(msg)
    return found


def _entries(sweep: EvictionSweep, verdict: Verdict) -> list[SweepEntry]:
    return [
        SweepEntry(
            sweep=sweep,
            tip_id=one.tip_id,
            cause=one.cause,
            mean=one.mean,
            low=one.low,
            high=one.high,
            visits=one.visits,
            figures=one.figures,
            over_cap=one.over_cap,
        )
        for one in verdict.caught
    ]


def _claimed(sweep_id: int, old: State, new: State, **fields: Any) -> EvictionSweep:
    """Take the sweep from *old* to *new* before anything else happens; of two callers one can."""
    claimed = EvictionSweep.objects.filter(pk=sweep_id, state=old).update(state=new, **fields)
    sweep = sweep_of(sweep_id)
    if not claimed:
        when = {
            State.PREVIEWED: "it was never applied",
            State.APPLIED: f"by {sweep.applied_by} at {sweep.applied_at}",
            State.UNDONE: f"by {sweep.undone_by} at {sweep.undone_at}",
        }[State(sweep.state)]
        msg = (
            f"sweep {sweep.pk} of {sweep.skill} is {sweep.state} ({when}): it cannot become {new} "
            f"from there, only from {old}; make a new one with: manage.py sweep SKILL"
        )
        raise SweepStateError(msg)
    return sweep


def _returns_by_people(sweep: EvictionSweep) -> QuerySet[TipChange, int]:
    """Tips of *sweep* that a person brought back after its preview: who approved it had not seen that."""
    returns = TipChange.objects.filter(
        tip__sweep_entries__sweep=sweep,
        action=TipChange.Action.REACTIVATE,
        sweep=None,
        at__gt=sweep.created_at,
    )
    return returns.order_by().values_list("tip_id", flat=True)


def _stored_gate(sweep: EvictionSweep) -> Eviction:
    known = {name: value for name, value in sweep.gate.items() if name in Eviction.model_fields}
    return Eviction.model_validate(known)


def _reason(entry: SweepEntry, sweep: EvictionSweep) -> str:
    """What stands beside a retired tip; it holds no text of strangers."""
    return (
        f"{entry.get_cause_display()}: mean credit {entry.mean:+.3f} "
        f"(95 % {entry.low:+.3f} to {entry.high:+.3f}) over {entry.visits} visits is below "
        f"{sweep.gate['threshold']:+.3f} under {sweep.policy} (sweep {sweep.pk})"
    )


def _note_left(entries: list[SweepEntry], *, active: str) -> dict[int, str]:
    """Write into each entry why its tip was not touched, *active* if it is; returns it by tip."""
    tips = Tip.objects.only("retired_at", "retired_sweep").in_bulk([one.tip_id for one in entries])
    for entry in entries:
        tip = tips[entry.tip_id]
        by = f"sweep {tip.retired_sweep_id}" if tip.retired_sweep_id else "hand"
        why = active if tip.retired_at is None else f"retired by {by}"
        entry.figures = entry.figures | {LEFT: why}
    SweepEntry.objects.bulk_update(entries, ["figures"], batch_size=BATCH)
    return {entry.tip_id: entry.figures[LEFT] for entry in entries}


def _told(sweep: EvictionSweep | None, note: str = "") -> dict[str, Any]:
    """Plain data on *sweep* as its rows stand."""
    entries = [] if sweep is None else list(sweep.entries.all())
    return {
        "sweep": sweep.pk if sweep else None,
        "state": sweep.state if sweep else "",
        "active": sweep.active if sweep else 0,
        "with_evidence": sweep.with_evidence if sweep else 0,
        "caught": len(entries),
        "over_cap": sum(entry.over_cap for entry in entries),
        "retired": sum(entry.retired for entry in entries),
        "given_back": sum(entry.given_back for entry in entries),
        "note": note,
    }
