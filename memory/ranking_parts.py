"""What a ranking is asked and what it answers: request, ranked tips, and the parts of each composite.

Guarantees: values only, no database; a composite is the sum of its parts times the same-run factor, to
12 decimals, so that two tips with the same parts tie wherever they are computed. Does not say which
tips are looked at (``memory.candidates``) nor which of them speak for others (``memory.duplicates``).

Source: ADR-0019 and upstream's composite (prefix + category + hit rate + prior at the source).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memory.models.families import rule_prefix

if TYPE_CHECKING:
    from contextgraph.skills import Ranking as Weights

DIGITS: Final = 12
"""Composites are rounded to this many decimals: the last bits of a sum hang on its order."""


@dataclass(frozen=True, slots=True)
class RankRequest:
    """For what tips are wanted.

    ``run``: external id of the run that asks; tips born in it are damped. ``query``: free text (a rule's
    title) for the search by similarity; empty: no such search. ``policy``: name of a credit policy;
    None: the skill's, else CREDIT_POLICY. ``k``: tips wanted, at least 1; None: the skill's.
    """

    skill: str
    rule_id: str
    category: str = ""
    environment_tag: str = ""
    query: str = ""
    run: str = ""
    policy: str | None = None
    k: int | None = None


class Candidate(NamedTuple):
    """A tip that may rank, with what is known of it before its evidence is read."""

    tip_id: int
    source_rule_id: str
    in_category: bool
    value: float | None
    confidence: float | None
    born_here: bool


class Level(NamedTuple):
    """Mean credit at one level of the back-off, shrunk towards the level above. ``n``: visits there."""

    name: str
    n: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Parts:
    """The terms of one composite, each already weighted; ``same_run`` multiplies their sum.

    ``mean``: expected credit, [-1, 1]; ``levels``: where it comes from, widest first, filled by
    ``explain`` only. ``cosine``: with the query, if known.
    """

    prefix: float
    category: float
    helpfulness: float
    source_prior: float
    similarity: float
    same_run: float
    mean: float
    cosine: float | None = None
    levels: tuple[Level, ...] = ()

    @property
    def base(self) -> float:
        """What the tip has by its origin alone; decides between equal composites."""
        return round(self.prefix + self.category, DIGITS)

    @property
    def composite(self) -> float:
        """The score; may be negative and may exceed 1."""
        total = self.prefix + self.category + self.helpfulness + self.source_prior + self.similarity
        return round(total * self.same_run, DIGITS)


class Duplicate(NamedTuple):
    """A tip that gives the same advice as a ranked one and came after it.

    ``score``: its composite. ``cosine``: of the two texts; None: they are equal.
    """

    tip_id: int
    external_id: str
    score: float
    cosine: float | None


@dataclass(frozen=True, slots=True)
class RankedTip:
    """One tip of a ranking. ``rank`` counts from 1 over all that may be shown; ``score``: composite.

    ``canary``: a retired tip, shown now and then to test it again. ``environment``: retrieved for its
    whole environment. ``parts``: filled by ``explain``. ``exempt``: the coin leaves it alone.
    """

    tip_id: int
    external_id: str
    text: str
    rank: int
    score: float
    parts: Parts | None = None
    duplicates: tuple[Duplicate, ...] = ()
    canary: bool = False
    environment: bool = False
    tip_type: str = ""
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """The answer: tips in the order of their ranks. ``candidates``: tips that were looked at.

    ``ranker``: sha256 over version and settings of what ranked, hex. ``notes``: what could not be done.
    """

    tips: tuple[RankedTip, ...]
    ranker: str
    candidates: int
    request: RankRequest
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; keys are the field names."""
        found = asdict(self)
        for tip, ranked in zip(found["tips"], self.tips, strict=True):
            tip["duplicates"] = [duplicate._asdict() for duplicate in ranked.duplicates]
            if ranked.parts is not None:
                tip["parts"]["levels"] = [level._asdict() for level in ranked.parts.levels]
                tip["parts"] |= {"base": ranked.parts.base, "composite": ranked.parts.composite}
        return found


class Composer:
    """Makes the parts of candidates for one request under one table of weights."""

    def __init__(self, rule_id: str, weights: Weights) -> None:
        self._rule_id = rule_id
        self._weights = weights

    def parts(self, candidate: Candidate, *, mean: float, cosine: float | None) -> Parts:
        """The parts once mean credit in [-1, 1] and cosine (None: unknown) are there."""
        weights = self._weights
        return Parts(
            prefix=weights.prefix * rule_prefix(self._rule_id, candidate.source_rule_id),
            category=weights.category * candidate.in_category,
            helpfulness=weights.helpfulness * mean,
            source_prior=weights.source_prior * _at_source(candidate),
            similarity=weights.similarity * (cosine or 0.0),
            same_run=weights.same_run if candidate.born_here else 1.0,
            mean=mean,
            cosine=cosine,
        )


def _at_source(candidate: Candidate) -> float:
    """How well the attempt went that the tip was learned from; 0 when nobody has told."""
    if candidate.value is None or candidate.confidence is None:
        return 0.0
    return candidate.value * candidate.confidence
