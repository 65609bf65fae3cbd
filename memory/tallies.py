"""What a set of retrievals adds up to, in one aggregate query: counts, quadrants, rates, mean credit.

Guarantees: dream pass and audit count alike, because both count here; sums are made in exact decimals,
so that a recount gives the same digits whatever order the rows come in; no row reaches Python. The
questions "followed?" and "which quadrant?" are asked of every signal there is (``FOLLOW_CHAIN``),
under any policy; a policy only decides what the answer is worth. Beside the policy's credit stands that
of ``quadrant``, which asks every signal: a policy that does not read the trace may give a tip another
sign than the figures beside it. Does not guarantee independence of rows: five tips of one attempt
share one outcome, so intervals over rows are too narrow.

Shaped by: report sections that each counted with filters of their own and contradicted one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Count, DecimalField, F, Q, Sum
from django.db.models.functions import Cast

from memory.credit import (
    POLICIES,
    SUCCESS_ABOVE,
    Quadrant,
    credit_sql,
    followed_q,
    ignored_q,
    quadrant_q,
    unanswered_q,
)
from memory.rates import Mean, Rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models.expressions import Combinable

    from memory.credit import Policy

PRESENT: Final = Q(shown=True)
GRADED: Final = Q(outcome_value__isnull=False, outcome_confidence__isnull=False)
HELPED: Final = Q(outcome_value__gt=SUCCESS_ABOVE)

KNOWN_QUADRANTS: Final = tuple(which for which in Quadrant if which is not Quadrant.UNKNOWN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """Counts of retrievals. ``unknown``: shown, and no signal says whether it was followed."""

    retrievals: int
    shown: int
    judged: int
    followed: int
    ignored: int
    unknown: int
    quadrants: dict[str, int]
    helped_when_present: Rate
    helped_when_followed: Rate
    value_when_present: Mean
    value_when_followed: Mean
    credit: Mean
    quadrant_credit: Mean

    @property
    def earned(self) -> int:
        """Followed, went well."""
        return self.quadrants[Quadrant.EARNED]

    @property
    def misleading(self) -> int:
        """Followed, went badly."""
        return self.quadrants[Quadrant.MISLEADING]

    @property
    def lucky_neighbour(self) -> int:
        """Ignored, went well."""
        return self.quadrants[Quadrant.LUCKY_NEIGHBOUR]

    @property
    def bystander(self) -> int:
        """Ignored, went badly."""
        return self.quadrants[Quadrant.BYSTANDER]

    @property
    def follow_rate(self) -> Rate:
        """Followed, among the shown rows about which a signal says something."""
        return Rate(self.followed, self.followed + self.ignored)

    @property
    def fail_rate_when_followed(self) -> Rate:
        """Misleading, among the graded rows that were followed."""
        return Rate(self.misleading, self.misleading + self.earned)

    @property
    def ignored_rate_at_success(self) -> Rate:
        """Lucky neighbour, among the successes with a known answer."""
        return Rate(self.lucky_neighbour, self.lucky_neighbour + self.earned)

    def as_dict(self) -> dict[str, Any]:
        """Plain data with stable keys; every rate and mean carries its n."""
        return {
            "retrievals": self.retrievals,
            "present": self.shown,
            "judged": self.judged,
            "followed": self.followed,
            "ignored": self.ignored,
            "unknown": self.unknown,
            "follow_rate": self.follow_rate.as_dict(),
            "quadrants": dict(self.quadrants),
            "helpful_when_present": self.helped_when_present.as_dict(),
            "helpful_when_followed": self.helped_when_followed.as_dict(),
            "outcome_when_present": self.value_when_present.as_dict(),
            "outcome_when_followed": self.value_when_followed.as_dict(),
            "credit": self.credit.as_dict(),
            "quadrant_credit": self.quadrant_credit.as_dict(),
        }


def exact(number: Combinable) -> Cast:
    """*number* as a decimal: the sum of decimals does not depend on their order."""
    return Cast(number, DecimalField(max_digits=30, decimal_places=12))


def tally_aggregates(policy: Policy) -> dict[str, Any]:
    """Aggregates for ``annotate`` or ``aggregate``; :func:`tally_of` reads their result."""
    followed, ignored = followed_q(), ignored_q()
    present = PRESENT & GRADED
    credit, quadrant_credit = credit_sql(policy), credit_sql(POLICIES["quadrant"])
    counts = {
        "retrievals": Q(),
        "shown": PRESENT,
        "judged": Q(tip_followed_llm__isnull=False),
        "followed": followed,
        "ignored": ignored,
        "unknown": PRESENT & unanswered_q(),
        "graded_present": present,
        "helped_present": present & HELPED,
        "graded_followed": followed & GRADED,
        "helped_followed": followed & GRADED & HELPED,
    } | {f"in_{which}": quadrant_q(which) for which in KNOWN_QUADRANTS}
    value = exact(F("outcome_value"))
    sums = {
        "value_present": Sum(value, filter=present),
        "value_followed": Sum(value, filter=followed & GRADED),
        "credit_total": Sum(exact(credit)),
        "credit_n": Count(credit),
        "quadrant_credit_total": Sum(exact(quadrant_credit)),
        "quadrant_credit_n": Count(quadrant_credit),
    }
    return {
        f"tally_{name}": aggregate
        for name, aggregate in (
            *((name, Count("pk", filter=condition)) for name, condition in counts.items()),
            *sums.items(),
        )
    }


def tally_of(row: Mapping[str, Any]) -> Tally:
    """The tally in one row of a queryset annotated with :func:`tally_aggregates`."""
    found = {name.removeprefix("tally_"): value for name, value in row.items()}
    quadrants = {str(which): int(found[f"in_{which}"]) for which in KNOWN_QUADRANTS}
    quadrants[str(Quadrant.UNKNOWN)] = found["shown"] - sum(quadrants.values())
    return Tally(
        **{
            name: found[name]
            for name in ("retrievals", "shown", "judged", "followed", "ignored", "unknown")
        },
        quadrants=quadrants,
        helped_when_present=Rate(found["helped_present"], found["graded_present"]),
        helped_when_followed=Rate(found["helped_followed"], found["graded_followed"]),
        value_when_present=Mean(float(found["value_present"] or 0), found["graded_present"]),
        value_when_followed=Mean(float(found["value_followed"] or 0), found["graded_followed"]),
        credit=Mean(float(found["credit_total"] or 0), found["credit_n"]),
        quadrant_credit=Mean(
            float(found["quadrant_credit_total"] or 0), found["quadrant_credit_n"]
        ),
    )


EMPTY: Final = Tally(
    retrievals=0,
    shown=0,
    judged=0,
    followed=0,
    ignored=0,
    unknown=0,
    quadrants=dict.fromkeys(map(str, Quadrant), 0),
    helped_when_present=Rate(0, 0),
    helped_when_followed=Rate(0, 0),
    value_when_present=Mean(0.0, 0),
    value_when_followed=Mean(0.0, 0),
    credit=Mean(0.0, 0),
    quadrant_credit=Mean(0.0, 0),
)
"""The tally of no row."""


def pooled(first: Tally, second: Tally) -> Tally:
    """The tally of the rows of both; the two share no row."""
    return Tally(
        retrievals=first.retrievals + second.retrievals,
        shown=first.shown + second.shown,
        judged=first.judged + second.judged,
        followed=first.followed + second.followed,
        ignored=first.ignored + second.ignored,
        unknown=first.unknown + second.unknown,
        quadrants={name: n + second.quadrants[name] for name, n in first.quadrants.items()},
        helped_when_present=first.helped_when_present + second.helped_when_present,
        helped_when_followed=first.helped_when_followed + second.helped_when_followed,
        value_when_present=first.value_when_present + second.value_when_present,
        value_when_followed=first.value_when_followed + second.value_when_followed,
        credit=first.credit + second.credit,
        quadrant_credit=first.quadrant_credit + second.quadrant_credit,
    )
