"""The facts of a category: its last run against the one before, and the tips that mislead in it.

Guarantees: the two runs are the latest final ones of the skill, among the last RUNS_BACK, whose dream
pass knows the category; a category that none of them knows is an error. Of the passes only the entries
of categories are read, of tips the sums of the category (TipEvidence), by index. Every figure names the
category in its label, as it is of the category alone. Signals of passes under two credit policies are not
subtracted from each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory.dream_report import signal_of
from memory.models import DreamPass, Run, Tip, TipEvidence
from memory.querysets import can_be_stored
from memory.tip_record import POLICY
from scoring.memos import product_labels as label
from scoring.memos.ledger import Ledger, held_by
from scoring.memos.naming import Shown, clean, quoted
from scoring.memos.product_pass import Scope, facts_of_pass, part_of

if TYPE_CHECKING:
    from datetime import date

    from scoring.memos.facts import Snapshot

RUNS_BACK: Final = 20
WORST_TIPS: Final = 3


class CategoryUnknown(LookupError):
    """No pass of the last runs of the skill knows the category."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one pass says of the category. ``run`` is the external id, ``key`` the pass's."""

    run: str
    key: int
    day: date
    policy: str
    said: dict[str, Any]


def category_snapshot(skill: str, category: str) -> Snapshot:
    """Return the facts of a category; raises CategoryUnknown."""
    found = _entries(skill, category) if can_be_stored(f"{skill}{category}") else []
    if not found:
        raise CategoryUnknown(category)
    shown, ledger = Shown(), Ledger()
    identifier = shown.name("category", f"{skill}/{category}")
    here = shown.name("category", category)
    scopes = []
    for place, entry in enumerate(found):
        run = shown.name("run", entry.run)
        scope = Scope(entry.key, (here, run), category)
        scopes.append(scope)
        rate = entry.said["rules_remediated"]
        facts_of_pass(ledger, scope, entry.said, rate["hits"], rate["n"], material=place == 0)
        signal = scope.at(f"{entry.said['basis']}_signal")
        ledger.score(scope.label(label.SIGNAL_IN), signal_of(entry.said), signal)
        source = held_by("dream_passes", entry.key, "policy")
        ledger.name(label.POLICY_IN.of(run), clean(entry.policy), source)
    if len(scopes) > 1:
        _changes(ledger, here, *scopes, one_policy=found[0].policy == found[1].policy)
    _tips(ledger, skill, category, here, shown)
    return ledger.snapshot("category", identifier, found[0].day)


def _entries(skill: str, category: str) -> list[Entry]:
    """The latest run that knows the category, and the one before it."""
    runs = Run.objects.current().filter(skill=skill, status=Run.Status.DONE)
    found: list[Entry] = []
    for run in runs.order_by("-started_at", "-pk").only("pk", "external_id")[:RUNS_BACK]:
        kept = (
            DreamPass.objects.filter(run=run)
            .order_by("-number")
            .values("pk", "created_at", "policy", categories=part_of("categories"))
            .first()
        )
        if kept is None:
            continue
        said = [each for each in kept["categories"] or [] if each["category"] == category]
        if said:
            day = kept["created_at"].date()
            found.append(Entry(run.external_id, kept["pk"], day, kept["policy"], said[0]))
        if len(found) == 2:
            break
    return found


def _changes(
    ledger: Ledger, here: str, now: Scope, before: Scope, *, one_policy: bool
) -> None:  # fmt: skip
    for change, kind in (
        (label.REMEDIATED_CHANGE_IN, label.REMEDIATED_SHARE_IN),
        (label.FOLLOW_CHANGE_IN, label.FOLLOW_SHARE_IN),
        (label.MISLEADING_CHANGE_IN, label.MISLEADING_IN),
        (label.SIGNAL_CHANGE_IN, label.SIGNAL_IN),
    ):
        if change is label.SIGNAL_CHANGE_IN and not one_policy:
            continue
        ledger.change(
            change.of(here), ledger.get(now.label(kind)), ledger.get(before.label(kind)),
            material=change in {label.REMEDIATED_CHANGE_IN, label.FOLLOW_CHANGE_IN},
        )  # fmt: skip


def _tips(ledger: Ledger, skill: str, category: str, here: str, shown: Shown) -> None:
    """What the tips that misled most in the category did there, in all runs."""
    rows = TipEvidence.objects.filter(
        skill=skill, policy=POLICY, level=TipEvidence.Level.CATEGORY, key=category, misleading__gt=0
    )
    worst = list(rows.order_by("-misleading", "earned", "tip_id")[:WORST_TIPS])
    stored = Tip.objects.only("external_id", "text").in_bulk([row.tip_id for row in worst])
    for place, row in enumerate(worst):
        tip = stored[row.tip_id]
        name = shown.name("tip", tip.external_id)
        bad = ledger.count(
            label.INTO_FAILURE.within.of(name, here), row.misleading,
            held_by("tip_evidence", row.pk, "misleading"), material=place == 0,
        )  # fmt: skip
        good = ledger.count(
            label.INTO_SUCCESS.within.of(name, here), row.earned,
            held_by("tip_evidence", row.pk, "earned"),
        )  # fmt: skip
        whole = ledger.total(label.TIMES_GRADED.within.of(name, here), good, bad)
        ledger.share(label.FAILURE_SHARE.within.of(name, here), bad, whole)
        ledger.name(label.TEXT.of(name), quoted(tip.text), held_by("tips", tip.pk, "text"))
