"""The hold-out coin: which tips that would have been shown are kept back, so that effects can be learned.

Guarantees: the coin of a (seed, skill, run, rule, attempt, tip) is the same on every machine and can be
recomputed by anyone who has the row and the seed (``memory.holdout_audit`` does); each tip has a coin of
its own, so that tips are withheld independently; a withheld tip is not replaced by the next one, so that
the stored propensity is exactly the probability with which the tip was shown (a replacement would owe
its place to the coins of others). Whether a tip is withheld does not hang on its score, its text or its
history.

Does not hide the seed: who knows it can foresee the coins. It is no secret, it is a statement.

Shaped by: hold-outs that rotate (no propensity, so nothing can be learned from them), and by logs of
tips that were always shown. Source: issue 4; ADR-0019 (column ``propensity``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from django.conf import settings

from contextgraph.skills import load_skill

if TYPE_CHECKING:
    from collections.abc import Callable

    from contextgraph.skills import Skill
    from memory.ranking_parts import RankedTip, Ranking

BITS: Final = 53
"""As many as a double holds, so that the number stored is the number drawn."""


def coin(seed: str, *, skill: str, run: str, rule_id: str, attempt: int, tip: str) -> float:
    """A number in [0, 1), uniform over its arguments: 53 bits of a sha256.

    ``run`` and ``tip`` are external ids, ``attempt`` is the attempt's number within its rule.
    """
    digest = hashlib.sha256()
    for part in (seed, skill, run, rule_id, str(attempt), tip):
        data = part.encode("utf-8", "surrogatepass")
        # with its length in front, or ("a", "bc") and ("ab", "c") would share a coin
        digest.update(len(data).to_bytes(8, "big") + data)
    first = int.from_bytes(digest.digest()[:8], "big") >> (64 - BITS)
    return float(first / (1 << BITS))


@dataclass(frozen=True, slots=True)
class Draw:
    """What the coin said about one ranked tip.

    ``propensity``: probability with which it is shown, (0, 1]. ``coin``: None: nothing was drawn, the
    tip is shown in any case; else it is shown when the coin is below the propensity.
    """

    tip: RankedTip
    shown: bool
    withheld: bool
    propensity: float
    coin: float | None


def draw(
    ranking: Ranking,
    *,
    attempt: int,
    run: str | None = None,
    seed: str | None = None,
    skill: Skill | None = None,
) -> list[Draw]:
    """One draw for each tip of *ranking*, in its order.

    Args:
        attempt: the attempt's number within its rule, from 1.
        run: external id of the run; None: the one that asked for the ranking.
        seed: None: HOLDOUT_SEED.
        skill: whose rates count; None: the skill file's.

    Raises:
        ValueError: there is no run, or no such attempt: two attempts would share their coins.
        contextgraph.skills.SkillError: the skill file does not make sense.
    """
    request = ranking.request
    name = request.run if run is None else run
    if not name or attempt < 1:
        msg = f"a coin needs a run and an attempt from 1, not {name!r} and {attempt}"
        raise ValueError(msg)
    rates = skill or load_skill(settings.PROMPTS_DIR, request.skill)
    chosen = settings.HOLDOUT_SEED if seed is None else seed
    toss = partial(
        coin, chosen, skill=request.skill, run=name, rule_id=request.rule_id, attempt=attempt
    )
    return [_drawn(tip, propensity_of(tip, rates), toss) for tip in ranking.tips]


def _drawn(tip: RankedTip, propensity: float, toss: Callable[..., float]) -> Draw:
    drawn = toss(tip=tip.external_id) if propensity < 1.0 else None
    shown = drawn is None or drawn < propensity
    return Draw(tip=tip, shown=shown, withheld=not shown, propensity=propensity, coin=drawn)


def propensity_of(tip: RankedTip, skill: Skill) -> float:
    """Probability with which *tip* is shown once it is ranked, (0, 1].

    A canary's is the canary rate alone: it was kept back already, the hold-out does not come on top.
    """
    if tip.canary:
        return skill.eviction.canary_rate
    if tip.exempt or tip.tip_type in skill.holdout.exempt_types:
        return 1.0
    return 1.0 - skill.holdout.rate
