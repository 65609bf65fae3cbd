"""The ranker: which tips go into the next attempt's prompt, and why.

Guarantees: the composite is that of ``contextgraph.skills.Ranking``; every candidate is considered (where
a family or category holds more than ``candidates``, the newest are; ``explain`` says so), and the order
is the exact one: composite, then prefix + category, then primary key. The database makes a first choice
(``memory.shortlist``), wider than its rough sums may be wrong. What helped comes from ``memory.evidence``
(sums, never history), shrunk and backed off by ``memory.shrinkage``, so that an unseen pair is not a
useless one and ten attempts at one rule do not outvote ten rules. Near duplicates stand behind the best
of them. Reads only; ``tip_retrievals`` is never read.

Beside the *k*, the best of the tips that hold for the whole environment get slots of their own, ranked
among themselves; nothing has to speak for them but their environment, so that 0 is enough for them.
With a canary rate, one tip that a sweep retired may come on top, if it would have ranked: it takes
nobody's place.

Does not toss the hold-out coin (``memory.holdout``) and does not log (``memory.retrieval_log``).

Shaped by: a hit rate of 0 for a pair that was never tried, averages over attempts in which one stubborn
rule outvoted all others, and 2,000 candidates in no order. Source: ADR-0019, issue 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from django.conf import settings

from contextgraph.skills import load_skill
from memory import evidence, shrinkage
from memory.candidates import cut_notes, legs_of
from memory.credit import policy_named
from memory.duplicates import same_advice
from memory.querysets import can_be_stored
from memory.ranker_identity import ranker_sha256
from memory.ranking_parts import (
    Composer,
    Duplicate,
    Level,
    Parts,
    RankedTip,
    Ranking,
    RankRequest,
)
from memory.shortlist import ENVIRONMENT, RETIRED, RULE, Shortlist, Terms, shortlists
from memory.text_leg import TextLeg
from memory.tip_texts import TipText, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from contextgraph.skills import Ranking as Weights
    from memory.candidates import Legs
    from memory.credit import Policy
    from memory.ranking_parts import Candidate

__all__ = ["RankRequest", "RankedTip", "Ranking", "rank"]

AT_LEAST: Final = 20
"""Candidates beyond the wanted ones that are weighed exactly: some turn out to be duplicates."""
K_AT_MOST: Final = 10_000
"""Tips that can be asked for at once; no prompt holds a hundredth of them."""
CANARIES_LOOKED_AT: Final = 5
"""The best retired tip may say what an active one says already; then the next is taken."""


def rank(request: RankRequest, *, explain: bool = False, weights: Weights | None = None) -> Ranking:
    """The tips for *request*, best first; an empty ranking when nothing is above zero.

    Args:
        request: for what.
        explain: fill ``parts`` and their levels.
        weights: instead of the skill's own table, to compare.

    Raises:
        ValueError: ``k`` not from 1 to K_AT_MOST, or text that the database cannot hold.
        memory.credit.UnknownPolicy: no policy has the name.
        contextgraph.skills.SkillError: the skill file does not make sense.
    """
    _check(request)
    skill = load_skill(settings.PROMPTS_DIR, request.skill)
    weights = weights or skill.ranking
    policy = policy_named(request.policy or weights.policy or settings.CREDIT_POLICY)
    canary_rate = skill.eviction.canary_rate
    text = TextLeg.of(request, weights)
    legs = legs_of(
        request,
        cap=weights.candidates,
        environment=weights.environment_slots > 0,
        canaries=canary_rate > 0.0,
        near=list(text.near),
    )
    ranker = _Ranker(request, weights, policy, legs, text.near)
    places = ranker.ranked()
    tips = [
        ranker.tip(place, number, explain=explain) for number, place in enumerate(places, start=1)
    ]
    return Ranking(
        tips=tuple(tips),
        ranker=ranker_sha256(weights, policy, k=ranker.k, canary_rate=canary_rate),
        candidates=ranker.looked_at,
        request=request,
        notes=text.notes + (cut_notes(request, weights.candidates) if explain else ()),
    )


def _check(request: RankRequest) -> None:
    if request.k is not None and not 1 <= request.k <= K_AT_MOST:
        msg = f"{request.k} tips cannot be ranked: k is a number from 1 to {K_AT_MOST}"
        raise ValueError(msg)
    texts = (request.skill, request.rule_id, request.category, request.environment_tag, request.run)
    if not all(map(can_be_stored, texts)):
        msg = f"no tip can be found for {request!r}: it holds NUL or lone surrogates"
        raise ValueError(msg)


class _Scored(NamedTuple):
    """A candidate with its composite; the order of the fields is the order of the ranking."""

    minus_composite: float
    minus_base: float
    tip_id: int
    parts: Parts


@dataclass(slots=True)
class _Place:
    """A tip that has a place, its text, and those that say the same and came after it."""

    scored: _Scored
    text: TipText
    canary: bool = False
    environment: bool = False
    duplicates: list[Duplicate] = field(default_factory=list)


class _Ranker:
    """One request under one table of weights."""

    def __init__(
        self,
        request: RankRequest,
        weights: Weights,
        policy: Policy,
        legs: Legs,
        near: Mapping[int, float],
    ) -> None:
        self.k = request.k or weights.k
        self._request = request
        self._weights = weights
        self._policy = policy
        self._legs = legs
        self._composer = Composer(request.rule_id, weights)
        self._figures: dict[int, evidence.TipFigures] = {}
        self._skill_mean = shrinkage.of_the_skill(
            evidence.skill_sums(request.skill, policy.name, unit=weights.unit),
            prior_mean=weights.prior_mean,
            strength=weights.shrinkage,
        )
        self._terms = Terms(
            request=request,
            weights=weights,
            policy=policy.name,
            prior=self._skill_mean.mean,
            near=near,
        )
        self._lists: dict[int, Shortlist] = {}
        self._wanted = self.k + weights.environment_slots + AT_LEAST
        self._look()
        self.looked_at = sum(found.size for found in self._lists.values())

    def _look(self) -> None:
        """The first choice, and the sums of all whom it names, in one query each."""
        self._lists = shortlists(self._legs, self._terms, wanted=self._wanted)
        named = {one.tip_id for found in self._lists.values() for one in found.candidates}
        unread = named - self._figures.keys()
        if unread:
            self._figures |= evidence.figures_for(
                self._request.skill,
                self._policy.name,
                rule_id=self._request.rule_id,
                category=self._request.category,
                tip_ids=sorted(unread),
                unit=self._weights.unit,
            )

    def ranked(self) -> list[_Place]:
        """The k, then the canary, then those of the environment."""
        places: list[_Place] = []
        self._fill(places, self._best(RULE, lambda score: score > 0.0), self.k)
        last = -places[-1].scored.minus_composite if len(places) >= self.k else 0.0
        canaries = self._canary(
            places, self._best(RETIRED, lambda score: score > 0.0 and score >= last)
        )
        beside: list[_Place] = []
        everywhere = self._best(ENVIRONMENT, lambda score: score >= 0.0)
        known = [*places, *canaries]  # advice that two rows show has no propensity of its own
        self._fill(beside, everywhere, self._weights.environment_slots, known=known)
        for place in beside:
            place.environment = True
        return [*places, *canaries, *beside]

    def _best(self, kind: int, enough: Callable[[float], bool]) -> Iterator[_Scored]:
        """Candidates of a *kind* in the order of the ranking, while their composites are *enough*."""
        given: set[int] = set()
        while kind in self._lists:
            known = self._lists[kind]
            for scored in sorted(self._score(known.candidates)):
                composite = -scored.minus_composite
                if composite <= known.below:
                    break  # one that was left out might come before it
                if not enough(composite):
                    return
                if scored.tip_id not in given:
                    given.add(scored.tip_id)
                    yield scored
            if len(known.candidates) == known.size or not enough(known.below):
                return
            self._wanted *= 4
            self._look()

    def _score(self, candidates: Sequence[Candidate]) -> Iterator[_Scored]:
        """Exactly, from the sums as ``memory.evidence`` gives them."""
        weights = self._weights
        for candidate in candidates:
            expected = shrinkage.backed_off(
                self._figures[candidate.tip_id],
                prior_mean=self._skill_mean.mean,
                strength=weights.shrinkage,
                back_off=weights.back_off,
            )
            cosine = self._terms.near.get(candidate.tip_id)
            parts = self._composer.parts(candidate, mean=expected.mean, cosine=cosine)
            yield _Scored(-parts.composite, -parts.base, candidate.tip_id, parts)

    def _fill(
        self,
        places: list[_Place],
        scored: Iterator[_Scored],
        wanted: int,
        *,
        known: Sequence[_Place] = (),
    ) -> None:
        """Give places to the best until there are *wanted*; who repeats another stands behind it."""
        at_once = wanted
        while len(places) < wanted:
            part = list(islice(scored, at_once))
            if not part:
                return
            at_once *= 2  # a thousand tips that say the same must not take hundreds of queries
            texts = texts_of([found.tip_id for found in part])
            for found in part:
                if len(places) == wanted:
                    return
                text = texts.get(found.tip_id)
                if text is None:
                    continue  # its row is gone: only a test's clean-up does that
                twin = self._twin(text, [*known, *places])
                if twin is None:
                    places.append(_Place(found, text))
                    continue
                place, cosine = twin
                score = -found.minus_composite
                place.duplicates.append(Duplicate(found.tip_id, text.external_id, score, cosine))

    def _twin(self, text: TipText, places: Sequence[_Place]) -> tuple[_Place, float | None] | None:
        """The first of *places* that gives the same advice, and how near it is."""
        for place in places:
            same, cosine = same_advice(
                text.advice, place.text.advice, threshold=self._weights.duplicate_similarity
            )
            if same:
                return place, cosine
        return None

    def _canary(self, places: Sequence[_Place], scored: Iterator[_Scored]) -> list[_Place]:
        """The best retired tip that says something else than the *places* do, if there is one."""
        part = list(islice(scored, CANARIES_LOOKED_AT))
        texts = texts_of([found.tip_id for found in part]) if part else {}
        for found in part:
            text = texts.get(found.tip_id)
            if text is not None and self._twin(text, places) is None:
                return [_Place(found, text, canary=True)]
        return []

    def tip(self, place: _Place, rank: int, *, explain: bool) -> RankedTip:
        """The public form of a place."""
        return RankedTip(
            tip_id=place.scored.tip_id,
            external_id=place.text.external_id,
            text=place.text.advice.text,
            rank=rank,
            score=-place.scored.minus_composite,
            parts=self._explained(place.scored) if explain else None,
            duplicates=tuple(place.duplicates),
            canary=place.canary,
            environment=place.environment,
            tip_type=place.text.tip_type,
            exempt=place.text.exempt,
        )

    def _explained(self, scored: _Scored) -> Parts:
        found = shrinkage.levels(
            self._figures[scored.tip_id],
            prior_mean=self._skill_mean.mean,
            strength=self._weights.shrinkage,
            back_off=self._weights.back_off,
        )
        levels = tuple(
            Level(name, said.n, said.mean, said.low, said.high)
            for name, said in (("skill", self._skill_mean), *found)
        )
        return replace(scored.parts, levels=levels)
