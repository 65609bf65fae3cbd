"""The facts of a tip: how often it was shown and followed, into what, its credit, and on which rules.

Guarantees: figures are the sums of TipEvidence (``memory.evidence``) under the policy of the tip's
record (``memory.tip_record``), read by index; no retrieval is read. Sums are over all runs of the tip's
own skill that are in evidence; a tip that no such run retrieved has its text and zeros. Of rules those
on which it failed most, a fixed number. The memo names that policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory.evidence import skill_sums
from memory.models import TipEvidence
from memory.tip_record import POLICY, by_policy, flag_now, unit_of
from scoring.memos import product_labels as label
from scoring.memos.ledger import Ledger, held_by, rows_of
from scoring.memos.naming import Shown, quoted

if TYPE_CHECKING:
    from memory.models import Tip
    from memory.tip_record import Figure
    from scoring.memos.facts import Fact, Snapshot

RULES: Final = 5


def tip_snapshot(tip: Tip) -> Snapshot:
    """Return the facts of ``tip``; ``as_of`` is not known, as sums carry no date."""
    shown, ledger = Shown(), Ledger()
    name = shown.name("tip", f"{tip.skill}/{tip.external_id}")
    figure = next(
        (one for one in by_policy(tip)
         if (one.evidence.skill, one.evidence.policy) == (tip.skill, POLICY)), None,
    )  # fmt: skip
    _counts(ledger, tip, name, figure)
    ledger.name(label.POLICY, POLICY, _source(tip, figure, "policy"))
    _credit(ledger, tip, name, figure)
    ledger.name(
        label.CALLED.of(name), str(flag_now(tip)).replace("_", " "), _source(tip, figure),
        material=True,
    )  # fmt: skip
    ledger.name(label.TEXT.of(name), quoted(tip.text), held_by("tips", tip.pk, "text"))
    ledger.day(
        label.STORED_ON.of(name), tip.created_at.date(), held_by("tips", tip.pk, "created_at")
    )
    if tip.retired_at is not None:
        ledger.day(
            label.RETIRED_ON.of(name), tip.retired_at.date(), held_by("tips", tip.pk, "retired_at")
        )
    _rules(ledger, tip, name, shown)
    return ledger.snapshot("tip", name, None)


def _source(tip: Tip, figure: Figure | None, path: str = "") -> str:
    if figure is None:
        return rows_of("tip_evidence", tip_id=tip.pk, policy=POLICY)
    return held_by("tip_evidence", figure.evidence.pk, path)


def _counts(ledger: Ledger, tip: Tip, name: str, figure: Figure | None) -> None:
    def add(kind: label.Subject, column: str, *, material: bool = False, **rows: object) -> Fact:
        value = getattr(figure.evidence, column) if figure else 0
        counted = rows_of("tip_retrievals", tip_id=tip.pk, **rows)
        source = _source(tip, figure, column)
        return ledger.count(kind.of(name), value, source, counted, material=material)

    add(label.TIMES_RETRIEVED, "rows", material=True)
    add(label.TIMES_SHOWN, "shown", shown=True)
    add(label.TIMES_FOLLOWED, "followed", material=True, answer="followed")
    add(label.TIMES_IGNORED, "ignored", answer="ignored")
    good = add(label.INTO_SUCCESS, "earned", material=True, quadrant="earned")
    bad = add(label.INTO_FAILURE, "misleading", material=True, quadrant="misleading")
    add(label.BESIDE_SUCCESS, "lucky_neighbour", material=True, quadrant="lucky_neighbour")
    add(label.BESIDE_FAILURE, "bystander", material=True, quadrant="bystander")
    whole = ledger.total(label.TIMES_GRADED.of(name), good, bad)
    ledger.share(label.FAILURE_SHARE.of(name), bad, whole, material=True)


def _credit(ledger: Ledger, tip: Tip, name: str, figure: Figure | None) -> None:
    """The tip's mean, shrunk toward the mean of the skill's tips, and the plain mean of all of them.

    Both are of what the skill's ranking counts once. No column holds a shrunk mean: its source is the
    rows of sums from which it is made.
    """
    unit = unit_of(tip.skill)
    all_tips = rows_of("tip_evidence", skill=tip.skill, policy=POLICY, level="skill")
    if figure is not None and figure.mean is not None:
        source = (_source(tip, figure), all_tips)
        ledger.score(label.CREDIT.of(name), figure.mean.mean, *source, material=True)
        ledger.score(label.CREDIT_LOW.of(name), figure.mean.low, *source)
        ledger.score(label.CREDIT_HIGH.of(name), figure.mean.high, *source)
        if unit == "visit":  # credit of retrievals rests on the graded times it was followed
            visits = figure.evidence.visits
            ledger.count(label.VISITS.of(name), visits, _source(tip, figure, "visits"))
    everything = skill_sums(tip.skill, POLICY, unit=unit)
    if everything.n:
        ledger.score(label.SKILL_TIPS_CREDIT, everything.total / everything.n, all_tips)


def _rules(ledger: Ledger, tip: Tip, name: str, shown: Shown) -> None:
    rows = TipEvidence.objects.filter(
        tip=tip, skill=tip.skill, policy=POLICY, level=TipEvidence.Level.RULE
    )
    known = rows.exclude(misleading=0, earned=0).order_by("-misleading", "-earned", "key")
    for row in known[:RULES]:
        rule = shown.name("rule", row.key)
        for kind, column in ((label.FAILURE_ON, "misleading"), (label.SUCCESS_ON, "earned")):
            source = held_by("tip_evidence", row.pk, column)
            ledger.count(kind.of(name, rule), getattr(row, column), source)
