"""Sweeps: preview changes nothing, apply once, undo exactly; and the sweep of a dream pass."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from contextgraph.skills import Eviction
from memory.audit.scope import ScopeError
from memory.eviction import (
    SweepStateError,
    UnknownSweep,
    apply,
    flips,
    plan,
    preview,
    undo,
)
from memory.eviction_gate import gate_of
from memory.evidence import check
from memory.models import EvictionSweep, Run, SweepEntry, Tip, TipChange, TipEvidence
from memory.retirement import RetirementError, reactivate, retire
from tests.factories import make_run, make_tip
from tests.memory.sweep_histories import (
    BYSTANDER,
    EARNED,
    GATE,
    LUCKY,
    MISLEADING,
    UNKNOWN,
    bad_tip,
    columns,
    give_past,
    old_tip,
)

pytestmark = pytest.mark.django_db

ALL = GATE.model_copy(update={"cap_share": 1.0})
"""The gate without a share of the pool to keep small sweeps small."""


def previewed(**fields: Any) -> EvictionSweep:
    """A stored sweep of stig."""
    return preview("stig", gate=ALL.model_copy(update=fields), by="ann")


def states(sweep: EvictionSweep) -> dict[int, tuple[bool, bool, bool]]:
    """Per tip: over the cap, retired, given back."""
    rows = sweep.entries.values_list("tip_id", "over_cap", "retired", "given_back")
    return {tip: (over_cap, retired, back) for tip, over_cap, retired, back in rows}


# --- Preview --------------------------------------------------------------------------------------


def test_a_preview_stores_what_it_saw_and_changes_no_tip() -> None:
    good, bad = old_tip(), bad_tip()
    give_past(good, *[EARNED] * 3)
    before = columns()
    sweep = previewed()
    assert columns() == before
    assert not TipChange.objects.exists()
    sweep.refresh_from_db()
    assert (sweep.state, sweep.policy, sweep.created_by) == ("previewed", "adr0019", "ann")
    assert (sweep.active, sweep.with_evidence, sweep.run) == (2, 2, None)
    assert sweep.gate["threshold"] == 0.3
    assert sweep.gate["prior"]["mean"] == 0.3
    entry = sweep.entries.get()
    assert (entry.tip, entry.cause, entry.visits) == (bad, "misleading", 3)
    assert entry.figures["misleading"] == 3


def test_a_plan_is_the_preview_without_a_row() -> None:
    bad = bad_tip()
    sweep, entries = plan("stig", gate=ALL, by="ann")
    assert [entry.tip_id for entry in entries] == [bad.pk]
    assert sweep.pk is None
    assert not EvictionSweep.objects.exists()
    assert not SweepEntry.objects.exists()


def test_the_gate_of_the_skill_is_taken_where_none_is_given() -> None:
    tip = bad_tip(visits=12)
    sweep = preview("stig", by="ann")
    assert Eviction.model_validate(
        {name: sweep.gate[name] for name in Eviction.model_fields}
    ) == gate_of("stig")
    assert states(sweep) == {tip.pk: (False, False, False)}


def test_a_sweep_of_another_skills_run_is_refused() -> None:
    bad_tip()
    with pytest.raises(ScopeError, match="is of skill 'cve', not 'stig'"):
        preview("stig", gate=ALL, by="ann", run=make_run(skill="cve"))
    assert not EvictionSweep.objects.exists()


# --- Apply ----------------------------------------------------------------------------------------


def test_apply_retires_what_was_caught_and_says_why() -> None:
    good, bad = old_tip(), bad_tip()
    give_past(good, *[EARNED] * 3)
    sweep = previewed()
    change = apply(sweep.pk, by="bob")
    assert (change.tips, change.left) == ((bad.pk,), {})
    assert list(Tip.objects.active()) == [good]
    bad.refresh_from_db()
    assert bad.retired_sweep == sweep
    assert bad.retired_reason == (
        "followed into failures: mean credit +0.120 (95 % -0.281 to +0.521) over 3 visits is below "
        f"+0.300 under adr0019 (sweep {sweep.pk})"
    )
    sweep.refresh_from_db()
    assert (sweep.state, sweep.applied_by, sweep.applied_at) == ("applied", "bob", bad.retired_at)
    assert states(sweep) == {bad.pk: (False, True, False)}
    (written,) = TipChange.objects.all()
    assert (written.tip, written.action, written.by) == (bad, "retire", "bob")
    assert (written.sweep, written.reason, written.at) == (
        sweep, bad.retired_reason, bad.retired_at,
    )  # fmt: skip


def test_entries_over_the_cap_stay_active() -> None:
    first, second = bad_tip(), bad_tip()
    sweep = previewed(cap=1)
    assert apply(sweep.pk, by="ann").tips == (first.pk,)
    assert states(sweep) == {first.pk: (False, True, False), second.pk: (True, False, False)}
    assert list(Tip.objects.active()) == [second]


def test_what_happened_since_the_preview_is_respected_and_noted() -> None:
    kept, gone, swept, taken = (bad_tip() for _ in range(4))
    sweep = previewed()
    Tip.objects.filter(pk=kept.pk).update(protected=True)
    retire(gone.pk, reason="by hand", by="cleo")
    other = preview("stig", gate=ALL.model_copy(update={"cap": 1}), by="ann")
    assert apply(other.pk, by="ann").tips == (swept.pk,)
    change = apply(sweep.pk, by="ann")
    assert change.tips == (taken.pk,)
    assert change.left == {
        kept.pk: "protected",
        gone.pk: "retired by hand",
        swept.pk: f"retired by sweep {other.pk}",
    }
    assert {e.tip_id: e.figures.get("left", "") for e in sweep.entries.all()} == change.left | {
        taken.pk: ""
    }
    gone.refresh_from_db()
    assert gone.retired_reason == "by hand"


def test_a_tip_that_a_person_brought_back_since_the_preview_stays() -> None:
    """The sweep that had retired it in between says nothing about the older one; its undoing would."""
    returned, undone = bad_tip(), bad_tip()
    sweep, other = previewed(), previewed()
    apply(other.pk, by="ann")
    reactivate(returned.pk, reason="it is right", by="cleo")
    undo(other.pk, by="ann")
    change = apply(sweep.pk, by="ann")
    assert change.tips == (undone.pk,)
    assert change.left == {returned.pk: "brought back since the preview"}
    later = previewed()
    assert apply(later.pk, by="ann").tips == (returned.pk,), "this preview has seen it come back"


def test_a_tip_of_a_type_that_is_protected_by_the_sweeps_own_gate() -> None:
    tip = bad_tip(tip_type="")
    sweep = previewed(protected_types=("strategy",))
    Tip.objects.filter(pk=tip.pk).update(tip_type="strategy")  # its text came late
    assert apply(sweep.pk, by="ann").left == {tip.pk: "protected"}


# --- Undo -----------------------------------------------------------------------------------------


def test_undo_gives_back_exactly_what_is_still_retired_by_the_sweep() -> None:
    back, by_hand, returned, again, apart = (bad_tip() for _ in range(5))
    sweep = previewed()
    Tip.objects.filter(pk=apart.pk).update(protected=True)
    apply(sweep.pk, by="ann")
    for tip in (by_hand, returned, again):
        reactivate(tip.pk, reason="looked at", by="bob")
    retire(by_hand.pk, reason="no good after all", by="bob")
    other = previewed()
    Tip.objects.filter(pk=returned.pk).update(protected=True)
    assert apply(other.pk, by="ann").tips == (again.pk,)

    change = undo(sweep.pk, by="cleo")
    assert change.tips == (back.pk,)
    assert change.left == {
        by_hand.pk: "retired by hand",
        returned.pk: "came back before",
        again.pk: f"retired by sweep {other.pk}",
    }
    assert set(Tip.objects.active()) == {back, returned, apart}
    assert states(sweep)[back.pk] == (False, True, True)
    assert states(sweep)[by_hand.pk] == (False, True, False)
    sweep.refresh_from_db()
    assert (sweep.state, sweep.undone_by) == ("undone", "cleo")
    last = back.changes.last()
    assert (last.action, last.reason) == ("reactivate", f"sweep {sweep.pk} was undone")
    assert (last.by, last.sweep) == ("cleo", sweep)


def test_a_tip_that_a_person_retired_in_the_sweeps_name_comes_back_too() -> None:
    bad_tip()
    late = bad_tip()
    sweep = previewed(cap=1)
    apply(sweep.pk, by="ann")
    retire(late.pk, reason="the other one as well", by="ann", sweep=sweep)
    undo(sweep.pk, by="ann")
    assert Tip.objects.active().count() == 2
    assert states(sweep)[late.pk] == (True, False, False)


@pytest.mark.parametrize("step", [apply, undo])
def test_a_sweep_that_there_is_not(step: Any) -> None:
    with pytest.raises(UnknownSweep, match="there is no sweep 77"):
        step(77, by="ann")


@pytest.mark.parametrize(
    ("done", "step", "message"),
    [
        ([], undo, "is previewed .it was never applied.*only from applied"),
        ([apply], apply, "is applied .by ann at .*only from previewed"),
        ([apply, undo], undo, "is undone .by ann at .*only from applied"),
        ([apply, undo], apply, "is undone .by ann at .*make a new one with: manage.py sweep SKILL"),
    ],
)
def test_a_step_that_does_not_start_from_here_changes_nothing(
    done: list[Any], step: Any, message: str
) -> None:
    bad_tip()
    sweep = previewed()
    for earlier in done:
        earlier(sweep.pk, by="ann")
    before, written = columns(), TipChange.objects.count()
    with pytest.raises(SweepStateError, match=rf"sweep {sweep.pk} of stig {message}"):
        step(sweep.pk, by="bob")
    assert (columns(), TipChange.objects.count()) == (before, written)


def test_nobody_sweeps_nothing() -> None:
    bad_tip()
    sweep = previewed()
    with pytest.raises(RetirementError, match="names nobody"):
        preview("stig", gate=ALL, by=" ")
    with pytest.raises(RetirementError, match="names nobody"):
        apply(sweep.pk, by="")
    sweep.refresh_from_db()
    assert (sweep.state, EvictionSweep.objects.count()) == ("previewed", 1)


def test_a_sweep_touches_no_evidence() -> None:
    bad_tip()
    Run.objects.update(status="done", done_at=timezone.now())
    before = list(TipEvidence.objects.order_by("pk").values())
    sweep = previewed()
    apply(sweep.pk, by="ann")
    undo(sweep.pk, by="ann")
    assert list(TipEvidence.objects.order_by("pk").values()) == before
    assert check() == []


VISITS = st.sampled_from([EARNED, MISLEADING, LUCKY, BYSTANDER, UNKNOWN])


@given(
    pasts=st.lists(st.lists(VISITS, max_size=5), min_size=1, max_size=6),
    protected=st.sets(st.integers(0, 5)),
    by_hand=st.sets(st.integers(0, 5)),
    threshold=st.floats(-1, 1),
    cap=st.integers(0, 4),
    policy=st.sampled_from(["adr0019", "quadrant"]),
)
@hypothesis_settings(max_examples=15)
def test_undo_of_apply_changes_no_tip(
    pasts: list[list[tuple[bool | None, float]]],
    protected: set[int],
    by_hand: set[int],
    threshold: float,
    cap: int,
    policy: str,
) -> None:
    with transaction.atomic():
        for place, past in enumerate(pasts):
            tip = old_tip(protected=place in protected)
            give_past(tip, *past)
            if place in by_hand:
                retire(tip.pk, reason="by hand", by="bob")
        before = columns()
        sweep = previewed(threshold=threshold, cap=cap, policy=policy, min_retrievals=1)
        change = apply(sweep.pk, by="ann")
        assert len(change.tips) <= cap
        changed = {row[0] for row in set(columns()) ^ set(before)}
        assert changed == set(change.tips)
        assert undo(sweep.pk, by="ann").tips == change.tips
        assert columns() == before
        transaction.set_rollback(True)


def test_a_large_sweep_takes_few_queries() -> None:
    def queries() -> int:
        sweep = previewed()
        with CaptureQueriesContext(connection) as asked:
            apply(sweep.pk, by="ann")
            undo(sweep.pk, by="ann")
        return len(asked)

    bad_tip()
    alone = queries()
    for _ in range(5):
        bad_tip()
    assert queries() == alone


# --- What if --------------------------------------------------------------------------------------


def test_flips_name_who_changes_sides() -> None:
    worst, middling, good = old_tip(), old_tip(), old_tip()
    give_past(worst, *[MISLEADING] * 4)
    give_past(middling, EARNED, MISLEADING, MISLEADING, MISLEADING)
    give_past(good, *[EARNED] * 4)
    found = flips("stig", ALL.model_copy(update={"threshold": 0.2}), ALL)
    assert [flip.tip_id for flip in found.newly_caught] == [middling.pk]
    assert [flip.tip_id for flip in found.caught_by_both] == [worst.pk]
    assert found.set_free == ()
    (both,) = found.caught_by_both
    assert both.old is not None and both.new is not None
    assert both.old.mean < both.new.mean  # each gate's prior stands at its own threshold
    back = flips("stig", ALL, ALL.model_copy(update={"threshold": 0.2}))
    assert [flip.tip_id for flip in back.set_free] == [middling.pk]
    assert back.newly_caught == ()
    assert not EvictionSweep.objects.exists()


def test_other_skills_are_never_touched() -> None:
    theirs = make_tip(skill="cve", created_at=timezone.now() - timedelta(days=30))
    give_past(theirs, *[MISLEADING] * 5)
    bad_tip()
    apply(previewed().pk, by="ann")
    assert list(Tip.objects.active()) == [theirs]
