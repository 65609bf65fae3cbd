"""How far the signals reach, and how far they agree: coverage with reason codes, pairwise agreement.

Guarantees: every retrieval is counted once per signal, either as labelled or under the reason why it
is not ("pending" when no reason was stored yet); agreement counts only rows on which both answered,
and comes with its n, an interval and Cohen's kappa. Does not say who is right: a high agreement of
two signals that share a blind spot is still a blind spot, and only the review column is a person.

Shaped by: a judge and an embedding that were computed on thousands of rows and never compared.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Count, Q

from memory.credit import ANSWERS, Signal
from memory.rates import Rate, kappa, rounded

if TYPE_CHECKING:
    from memory.querysets import RetrievalQuerySet

PENDING: Final = "pending"
"""Stands for a NULL without a reason: the signal has not been there yet."""

COLUMNS: Final = {
    Signal.LLM: ("tip_followed_llm", "llm_reason"),
    Signal.EMB: ("tip_followed_emb", "emb_reason"),
    Signal.TRACE: ("tip_followed_trace", "trace_reason"),
}
"""Per machine signal: the column that holds its answer, and the one that says why there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """How many retrievals a signal labelled, and why it did not label the others."""

    signal: str
    labelled: Rate
    null_reasons: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "signal": self.signal,
            "labelled": self.labelled.as_dict(),
            "null_reasons": dict(self.null_reasons),
        }


def coverage(rows: RetrievalQuerySet) -> list[Coverage]:
    """Coverage of each machine signal and of human review over *rows*; one query."""
    groups = (
        rows.order_by()
        .values(
            *(reason for _, reason in COLUMNS.values()),
            **{
                f"has_{signal}": Q(**{f"{column}__isnull": False})
                for signal, (column, _) in COLUMNS.items()
            },
            has_review=Q(tip_followed_review__isnull=False),
        )
        .annotate(n=Count("pk"))
    )
    groups = list(groups)
    total = sum(group["n"] for group in groups)
    found = []
    for signal, (_, reason) in COLUMNS.items():
        why: dict[str, int] = {}
        for group in groups:
            if not group[f"has_{signal}"]:
                code = group[reason] or PENDING
                why[code] = why.get(code, 0) + group["n"]
        labelled = Rate(total - sum(why.values()), total)
        found.append(
            Coverage(signal=signal, labelled=labelled, null_reasons=dict(sorted(why.items())))
        )
    reviewed = Rate(sum(group["n"] for group in groups if group["has_review"]), total)
    return [*found, Coverage(signal=Signal.REVIEW, labelled=reviewed, null_reasons={})]


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Two signals on the rows that both answered. The four counts are first x second."""

    first: str
    second: str
    yes_yes: int
    yes_no: int
    no_yes: int
    no_no: int

    @property
    def raw(self) -> Rate:
        """Share of rows with the same answer."""
        same = self.yes_yes + self.no_no
        return Rate(same, same + self.yes_no + self.no_yes)

    def as_dict(self) -> dict[str, Any]:
        """Plain data; ``kappa`` is None where it is not defined."""
        table = (self.yes_yes, self.yes_no, self.no_yes, self.no_no)
        names = ("both_followed", "only_first_followed", "only_second_followed", "neither_followed")
        return {
            "first": self.first,
            "second": self.second,
            "agreement": self.raw.as_dict(),
            "kappa": rounded(kappa(*table)),
            **dict(zip(names, table, strict=True)),
        }


PAIRS: Final = tuple(
    itertools.combinations((Signal.LLM, Signal.EMB, Signal.TRACE, Signal.REVIEW), 2)
)


def agreement(rows: RetrievalQuerySet) -> list[Agreement]:
    """Every pair of signals over the shown ones of *rows*; one query."""
    cells = {
        f"{first}_{second}_{row}{column}": Count("pk", filter=said_first & said_second)
        for first, second in PAIRS
        for row, said_first in zip("yn", ANSWERS[first], strict=True)
        for column, said_second in zip("yn", ANSWERS[second], strict=True)
    }
    counts = rows.filter(shown=True).order_by().aggregate(**cells)
    return [
        Agreement(
            first=first,
            second=second,
            yes_yes=counts[f"{first}_{second}_yy"],
            yes_no=counts[f"{first}_{second}_yn"],
            no_yes=counts[f"{first}_{second}_ny"],
            no_no=counts[f"{first}_{second}_nn"],
        )
        for first, second in PAIRS
    ]
