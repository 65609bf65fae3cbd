"""The facts of a category: its last run against the one before, and the tips that mislead in it.

Guarantees: the two runs are the latest final ones of the skill, among the last RUNS_BACK, whose dream
pass knows the category; a category that none of them knows is an error. Of the passes only the entries
of categories are read, of tips the sums of the category (TipEvidence), by index.
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
from scoring.memos.naming import Shown, quoted
from scoring.memos.product_run import facts_of_run, part_of

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
    said: dict[str, Any]


def category_snapshot(skill: str, category: str) -> Snapshot:
    """Return the facts of a category; raises CategoryUnknown."""
    found = _entries(skill, category) if can_be_stored(f"{skill}{category}") else []
    if not found:
        raise CategoryUnknown(category)
    shown, ledger = Shown(), Ledger()
    identifier = shown.name("category", f"{skill}/{category}")
    names = [shown.name("run", entry.run) for entry in found]
    for place, (name, entry) in enumerate(zip(names, found, strict=True)):
        rate = entry.said["rules_remediated"]
        facts_of_run(
            ledger, name, entry.key, entry.said, rate["hits"], rate["n"], material=place == 0
        )
        source = held_by("dream_passes", entry.key, "summary.categories.signal")
        ledger.score(label.SIGNAL_IN.of(name), signal_of(entry.said), source)
    if len(names) > 1:
        _changes(ledger, *names)
    _tips(ledger, skill, category, shown)
    return ledger.snapshot("category", identifier, found[0].day)


def _entries(skill: str, category: str) -> list[Entry]:
    """The latest run that knows the category, and the one before it."""
    runs = Run.objects.current().filter(skill=skill, status=Run.Status.DONE)
    found: list[Entry] = []
    for run in runs.order_by("-started_at", "-pk").only("pk", "external_id")[:RUNS_BACK]:
        kept = (
            DreamPass.objects.filter(run=run)
            .order_by("-number")
            .values("pk", "created_at", categories=part_of("categories"))
            .first()
        )
        if kept is None:
            continue
        said = [each for each in kept["categories"] or [] if each["category"] == category]
        if said:
            found.append(Entry(run.external_id, kept["pk"], kept["created_at"].date(), said[0]))
        if len(found) == 2:
            break
    return found


def _changes(ledger: Ledger, now: str, before: str) -> None:
    for change, kind in (
        (label.REMEDIATED_CHANGE, label.REMEDIATED_SHARE_IN),
        (label.FOLLOW_CHANGE, label.FOLLOW_SHARE_IN),
        (label.MISLEADING_CHANGE, label.MISLEADING_IN),
        (label.SIGNAL_CHANGE, label.SIGNAL_IN),
    ):
        ledger.change(
            change, ledger.get(kind.of(now)), ledger.get(kind.of(before)),
            material=change in {label.REMEDIATED_CHANGE, label.FOLLOW_CHANGE},
        )  # fmt: skip


def _tips(ledger: Ledger, skill: str, category: str, shown: Shown) -> None:
    rows = TipEvidence.objects.filter(
        skill=skill, policy=POLICY, level=TipEvidence.Level.CATEGORY, key=category, misleading__gt=0
    )
    worst = list(rows.order_by("-misleading", "earned", "tip_id")[:WORST_TIPS])
    stored = Tip.objects.only("external_id", "text").in_bulk([row.tip_id for row in worst])
    for place, row in enumerate(worst):
        tip = stored[row.tip_id]
        name = shown.name("tip", tip.external_id)
        bad = ledger.count(
            label.INTO_FAILURE.of(name), row.misleading, held_by("tip_evidence", row.pk, "misleading"),
            material=place == 0,
        )  # fmt: skip
        good = ledger.count(
            label.INTO_SUCCESS.of(name), row.earned, held_by("tip_evidence", row.pk, "earned")
        )
        whole = ledger.total(label.TIMES_GRADED.of(name), good, bad)
        ledger.share(label.FAILURE_SHARE.of(name), bad, whole)
        ledger.name(label.TEXT.of(name), quoted(tip.text), held_by("tips", tip.pk, "text"))
