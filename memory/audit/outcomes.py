"""Audit section 5: how outcomes are distributed, and what in that looks wrong.

Guarantees: attempts and retrievals are counted side by side, because five tips of one attempt repeat
its outcome five times; a missing outcome is counted with its reason and is in no denominator; flags
need a minimum of evidence and name their figures. A flag is a reason to look, not a finding.

Shaped by: 8,810 stored outcomes without a single negative one, which nobody noticed until a query
was typed by hand; and a grader that passed every rule with "password" in its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.db.models import Count, Max, Min, Q

from memory.credit import SUCCESS_ABOVE, followed_q, ignored_q
from memory.rates import Rate

if TYPE_CHECKING:
    from typing import Any

    from memory.audit.scope import Scope

STRONG_ABOVE: Final = 0.7

FLAG_MIN_GRADED: Final = 20
"""Fewer graded attempts raise no flag about the whole."""

BIMODAL_MIDDLE: Final = 0.10
BIMODAL_SIDE: Final = 0.20
"""Bimodal: less than this share between the two ends, and at least that share at each."""

EASY_MIN_RULES: Final = 5
EASY_WINS: Final = 0.95
EASY_FOLLOWED: Final = 0.25
"""Suspiciously easy: first tries win at least this often, and tips are followed at most that often."""

BUCKETS: Final = {
    "strong": Q(outcome_value__gt=STRONG_ABOVE),
    "weak": Q(outcome_value__gt=SUCCESS_ABOVE, outcome_value__lte=STRONG_ABOVE),
    "zero": Q(outcome_value=0.0),
    "negative": Q(outcome_value__lt=0.0),
    "null": Q(outcome_value__isnull=True),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """Counts per bucket: strong > 0.7, weak (0, 0.7], zero, negative, null."""

    strong: int
    weak: int
    zero: int
    negative: int
    null: int
    minimum: float | None
    maximum: float | None

    @property
    def graded(self) -> int:
        """All but null."""
        return self.strong + self.weak + self.zero + self.negative


@dataclass(frozen=True, kw_only=True, slots=True)
class EasyCategory:
    """A category that is won at the first try while its tips go unheeded."""

    skill: str
    category: str
    first_try_wins: Rate
    follow_rate: Rate


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """``code``: no_negatives, bimodal or suspiciously_easy; ``detail`` says it in words with figures."""

    code: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """Section 5. ``null_reasons``: why attempts have no outcome."""

    attempts: Distribution
    retrievals: Distribution
    null_reasons: dict[str, int]
    easy_categories: tuple[EasyCategory, ...]
    flags: tuple[Flag, ...]


def outcome_distribution(scope: Scope) -> Outcomes:
    """Five aggregate queries."""
    aggregates: dict[str, Any] = {
        name: Count("pk", filter=condition) for name, condition in BUCKETS.items()
    } | {"minimum": Min("outcome_value"), "maximum": Max("outcome_value")}
    attempts = Distribution(**scope.attempts().aggregate(**aggregates))
    reasons = (
        scope.attempts()
        .filter(outcome_value__isnull=True)
        .values("outcome_reason")
        .annotate(n=Count("pk"))
        .order_by("outcome_reason")
    )
    easy = _easy_categories(scope)
    return Outcomes(
        attempts=attempts,
        retrievals=Distribution(**scope.retrievals().aggregate(**aggregates)),
        null_reasons={row["outcome_reason"]: row["n"] for row in reasons},
        easy_categories=easy,
        flags=(*_flags(attempts), *map(_easy_flag, easy)),
    )


def _easy_categories(scope: Scope) -> tuple[EasyCategory, ...]:
    tries = (
        scope.attempts()
        .filter(number=1, outcome_value__isnull=False)
        .values("skill", "category")
        .annotate(n=Count("pk"), wins=Count("pk", filter=Q(outcome_value__gt=SUCCESS_ABOVE)))
        .filter(n__gte=EASY_MIN_RULES)
        .order_by("skill", "category")
    )
    following = {
        (row["skill"], row["category"]): Rate(row["followed"], row["followed"] + row["ignored"])
        for row in scope.retrievals()
        .values("skill", "category")
        .annotate(
            followed=Count("pk", filter=followed_q()), ignored=Count("pk", filter=ignored_q())
        )
    }
    found = []
    for row in tries:
        rate = following.get((row["skill"], row["category"]), Rate(0, 0))
        won = row["wins"] >= EASY_WINS * row["n"]
        if won and rate.n >= EASY_MIN_RULES and rate.hits <= EASY_FOLLOWED * rate.n:
            found.append(
                EasyCategory(
                    skill=row["skill"],
                    category=row["category"],
                    first_try_wins=Rate(row["wins"], row["n"]),
                    follow_rate=rate,
                )
            )
    return tuple(found)


def _flags(attempts: Distribution) -> list[Flag]:
    graded = attempts.graded
    if graded < FLAG_MIN_GRADED:
        return []
    flags = []
    if attempts.negative == 0:
        detail = (
            f"None of {graded} graded attempts is negative: either nothing ever broke, or the grader "
            "cannot see it."
        )
        flags.append(Flag(code="no_negatives", detail=detail))
    low = attempts.zero + attempts.negative
    if attempts.weak < BIMODAL_MIDDLE * graded and BIMODAL_SIDE * graded <= min(
        attempts.strong, low
    ):
        detail = (
            f"{attempts.strong} strong and {low} zero or negative attempts, {attempts.weak} between: "
            "the grade says little more than passed or failed."
        )
        flags.append(Flag(code="bimodal", detail=detail))
    return flags


def _easy_flag(easy: EasyCategory) -> Flag:
    wins, followed = easy.first_try_wins, easy.follow_rate
    detail = (
        f"Category {easy.category!r} of {easy.skill!r}: {wins.hits} of {wins.n} rules won at the first "
        f"try, {followed.hits} of {followed.n} known tips followed: does the check check anything?"
    )
    return Flag(code="suspiciously_easy", detail=detail)
