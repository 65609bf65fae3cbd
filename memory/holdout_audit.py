"""Were the coins of the hold-out tossed as stated? Every stored coin is recomputed, every share tested.

Guarantees: reads only; a row with a coin is recomputed from its own columns and the seed; shares are
tested per propensity, because rates change over time, by the exact binomial test. Rows without a coin
are counted, not judged: nothing was drawn for them here. Does not prove that no row was deleted, but a
share that a fair coin gives less than once in SUSPICIOUS says that something keeps rows away
(Fabijan et al. 2019, "Diagnosing sample ratio mismatch in online controlled experiments").
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.conf import settings
from django.db.models import Count, Q
from scipy.stats import binomtest  # type: ignore[import-untyped]

from memory.holdout import coin
from memory.models import Retrieval

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory.models import Run
    from memory.querysets import RetrievalQuerySet

SUSPICIOUS: Final = 0.001
"""Shares less likely than this (over the number of shares tested) are a mismatch."""
NAMED: Final = 20
"""Wrong rows that are named; all are counted."""
AT_ONCE: Final = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Rows of one propensity: how many were shown, and how likely a share that far off is."""

    propensity: float
    canary: bool
    rows: int
    shown: int
    p_value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class WrongCoin:
    """A row whose coin is not the one that the seed gives, or was not obeyed."""

    id: int
    run: str
    rule_id: str
    attempt: int
    tip: str
    stored: float
    recomputed: float
    propensity: float
    withheld: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldoutAudit:
    """What was looked at and what is wrong. ``wrong``: the first NAMED of ``wrong_coins`` rows."""

    rows: int
    coins: int
    withheld_without_coin: int
    wrong_coins: int
    wrong: tuple[WrongCoin, ...]
    shares: tuple[Share, ...]

    @property
    def suspicious(self) -> tuple[Share, ...]:
        """Shares that a fair coin does not give."""
        limit = SUSPICIOUS / max(len(self.shares), 1)
        return tuple(share for share in self.shares if share.p_value < limit)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {"suspicious": [asdict(share) for share in self.suspicious]}


def audit_holdout(
    *,
    skill: str | None = None,
    run: Run | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> HoldoutAudit:
    """Recompute the coins of a run, a skill, or all; superseded revisions too: they were tossed.

    *progress* is called with the coins done and all there are.
    """
    rows = Retrieval.objects.order_by()
    if run is not None:
        rows = rows.filter(run=run)
    if skill is not None:
        rows = rows.filter(skill=skill)
    counts = rows.aggregate(
        rows=Count("pk"),
        coins=Count("coin"),
        without=Count("pk", filter=Q(withheld=True, coin__isnull=True)),
    )
    n_wrong, wrong, shares = _recomputed(rows.filter(coin__isnull=False), counts["coins"], progress)
    return HoldoutAudit(
        rows=counts["rows"],
        coins=counts["coins"],
        withheld_without_coin=counts["without"],
        wrong_coins=n_wrong,
        wrong=tuple(wrong),
        shares=shares,
    )


def _recomputed(
    rows: RetrievalQuerySet, total: int, progress: Callable[[int, int], None] | None
) -> tuple[int, list[WrongCoin], tuple[Share, ...]]:
    n_wrong = 0
    wrong: list[WrongCoin] = []
    tossed: Counter[tuple[float, bool]] = Counter()
    shown: Counter[tuple[float, bool]] = Counter()
    found = rows.order_by("pk").values_list(*_COLUMNS).iterator(chunk_size=AT_ONCE)
    for done, row in enumerate(starmap(_Row, found), start=1):
        expected = row.expected()
        if expected != row.coin or row.withheld != (row.coin >= row.propensity):
            n_wrong += 1
            if n_wrong <= NAMED:  # with another seed every row is wrong
                wrong.append(row.complaint(expected))
        tossed[row.propensity, row.canary] += 1
        shown[row.propensity, row.canary] += not row.withheld
        if progress is not None and (done % AT_ONCE == 0 or done == total):
            progress(done, total)
    shares = tuple(
        Share(
            propensity=propensity,
            canary=canary,
            rows=n,
            shown=shown[propensity, canary],
            p_value=float(binomtest(shown[propensity, canary], n, propensity).pvalue),
        )
        for (propensity, canary), n in sorted(tossed.items())
    )
    return n_wrong, wrong, shares


_COLUMNS: Final = (
    "pk", "skill", "run__external_id", "rule_id", "attempt__number", "tip__external_id", "coin",
    "propensity", "withheld", "canary",
)  # fmt: skip


class _Row(NamedTuple):
    """The columns in ``_COLUMNS``."""

    pk: int
    skill: str
    run: str
    rule_id: str
    attempt: int
    tip: str
    coin: float
    propensity: float
    withheld: bool
    canary: bool

    def expected(self) -> float:
        return coin(
            settings.HOLDOUT_SEED,
            skill=self.skill,
            run=self.run,
            rule_id=self.rule_id,
            attempt=self.attempt,
            tip=self.tip,
        )

    def complaint(self, expected: float) -> WrongCoin:
        return WrongCoin(
            id=self.pk,
            run=self.run,
            rule_id=self.rule_id,
            attempt=self.attempt,
            tip=self.tip,
            stored=self.coin,
            recomputed=expected,
            propensity=self.propensity,
            withheld=self.withheld,
        )
