"""The summary of a dream pass: what a run says about each tip and category, recounted from rows.

Guarantees: the summary is derived from the rows of this one run and from nothing else, is plain JSON,
and is byte-identical when computed again from the same rows (exact sums, rounded once, fixed order, no
clock; :func:`digest` says so). A run without retrievals gets a summary of zeros; never another run's.
One query adds up the rows for totals, tips and categories; visits and coverage have their own. Rates
carry Wilson intervals over rows; values are shrunk means over visits (a run's attempts at one rule count
once), whose intervals therefore are not too narrow.
Does not store anything and moves no credit: the caller keeps the summary as a DreamPass.

Shaped by: a pass that credited before it scored, added its result to what was there, and fell back to
the latest run when it did not find its own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Count, F, Max, Sum

from memory.credit import SUCCESS_ABOVE, credit_sql, known_q
from memory.flags import flag_of
from memory.models import Attempt, Retrieval
from memory.rates import Mean, Rate, rounded
from memory.signals import coverage
from memory.tallies import EMPTY, exact, tally_aggregates, tally_of
from memory.visits import NO_VISITS, visits_by_tip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.credit import Policy
    from memory.models import Run
    from memory.querysets import RetrievalQuerySet
    from memory.visits import TipVisits

SUMMARY_VERSION: Final = 2
"""Of the summary's shape; stored with it."""

MIN_FOLLOW_ROWS: Final = 5
"""A category with fewer rows of known following is credited by its success rate (ADR-0020)."""


def summarise(run: Run, *, policy: Policy) -> dict[str, Any]:
    """The recount of *run* under *policy*: ``totals``, ``tips``, ``categories``, ``coverage``.

    Every rate has ``hits`` and ``n``, every mean its ``n``; tips stand in the order of their first
    row in the table of tips, categories in alphabetical order. A tip also has its ``flag``
    (``memory.flags``) and its ``visits``: how many there are, and per value the shrunk mean over them.
    """
    rows = Retrieval.objects.filter(run=run).order_by()
    groups = _groups(rows, policy)
    return {
        "version": SUMMARY_VERSION,
        "policy": policy.name,
        "run": {
            "id": run.pk,
            "external_id": run.external_id,
            "skill": run.skill,
            "revision": run.revision,
        },
        "totals": (tally_of(_added(groups)) if groups else EMPTY).as_dict(),
        "tips": _tips(groups, visits_by_tip(rows, policy)),
        "categories": _categories(run, groups, policy),
        "coverage": [signal.as_dict() for signal in coverage(rows)],
    }


def digest(summary: dict[str, Any]) -> str:
    """sha256 of the summary's canonical JSON; the same for one that was stored and read again."""
    text = json.dumps(summary, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _groups(rows: RetrievalQuerySet, policy: Policy) -> list[dict[str, Any]]:
    """What the rows of each tip in each category add up to; so do totals, tips and categories."""
    credit, known = credit_sql(policy), known_q(policy)
    key = ("tip_id", "category")
    found = (
        rows.values(*key, tip_name=F("tip__external_id"))
        .annotate(
            **tally_aggregates(policy),
            known_total=Sum(exact(credit), filter=known),
            known_n=Count(credit, filter=known),
        )
        .order_by(*key)
    )
    return list(found)


_KEYS: Final = frozenset({"tip_id", "tip_name", "category"})


def _added(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row for all of them, with the keys of the first. Counts and decimals: no digit is lost."""
    first, *others = groups
    if not others:
        return first
    return {
        name: value if name in _KEYS else sum(group[name] or 0 for group in groups)
        for name, value in first.items()
    }


def _by(key: str, groups: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """The groups added up by *key*, in the order of the first of each."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for group in groups:
        found.setdefault(group[key], []).append(group)
    return {value: _added(of_value) for value, of_value in found.items()}


def _tips(groups: list[dict[str, Any]], visits: dict[int, TipVisits]) -> list[dict[str, Any]]:
    entries = []
    for tip_id, row in _by("tip_id", groups).items():
        tally, seen = tally_of(row), visits.get(tip_id, NO_VISITS)
        entries.append(
            {
                "tip": row["tip_name"],
                "tip_id": tip_id,
                "flag": str(flag_of(tally, visits=seen.known, followed_visits=seen.followed)),
                **tally.as_dict(),
                "visits": seen.as_dict(),
            }
        )
    return entries


# --- Categories -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class CategorySignal:
    """Credit of a category in [-1, 1], by either rule.

    ``rules``: remediated among those with a graded attempt; a rule counts once, however many
    attempts it took. ``known``: mean credit of the rows whose following is known under the policy.
    """

    rules: Rate
    known: Mean
    signed: bool

    @property
    def legacy(self) -> float | None:
        """2 x success rate - 1: the rule from before attribution."""
        return None if self.rules.value is None else 2 * self.rules.value - 1

    @property
    def follow_aware(self) -> float | None:
        """2 x mean credit - 1; a policy whose failures are negative has that scale already.

        A grade below 0 (a server that was broken) is no worse here than a failure: -1 is the end.
        """
        if self.known.value is None:
            return None
        return self.known.value if self.signed else max(-1.0, 2 * self.known.value - 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain data. ``basis`` names the one that counts: follow_aware from MIN_FOLLOW_ROWS rows."""
        return {
            "rules_remediated": self.rules.as_dict(),
            "legacy_signal": rounded(self.legacy),
            "follow_aware_signal": rounded(self.follow_aware),
            "follow_aware_n": self.known.n,
            "basis": "follow_aware" if self.known.n >= MIN_FOLLOW_ROWS else "legacy",
        }


def _categories(run: Run, groups: list[dict[str, Any]], policy: Policy) -> list[dict[str, Any]]:
    rules = _rules_remediated(run)
    by_name = _by("category", groups)
    signed = policy.failure is not None
    summary = []
    for category in sorted({*rules, *by_name}):
        row = by_name.get(category)
        mean = Mean(float(row["known_total"] or 0), row["known_n"]) if row else Mean(0.0, 0)
        signal = CategorySignal(rules=rules.get(category, Rate(0, 0)), known=mean, signed=signed)
        counts = tally_of(row) if row else EMPTY
        summary.append({"category": category, **signal.as_dict(), **counts.as_dict()})
    return summary


def _rules_remediated(run: Run) -> dict[str, Rate]:
    """Per category: rules with a successful attempt, among those with any graded one."""
    best = (
        Attempt.objects.filter(run=run, outcome_value__isnull=False)
        .order_by()
        .values("category", "rule_id")
        .annotate(best=Max("outcome_value"))
    )
    found: dict[str, Rate] = {}
    for rule in best:
        one = Rate(int(rule["best"] > SUCCESS_ABOVE), 1)
        found[rule["category"]] = found.get(rule["category"], Rate(0, 0)) + one
    return found
