"""Which ranker made a ranking: one sha256 over everything that decides an order and is no data.

Guarantees: two rankings with the same sha256 over the same tables are the same; a changed weight, policy,
rate, encoder or version of the code gives another one. Does not cover the tables themselves.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from memory import duplicates, shrinkage
from memory.encoders import current_encoder

if TYPE_CHECKING:
    from contextgraph.skills import Ranking as Weights
    from memory.credit import Policy

VERSION: Final = 1
"""Of the code: to be raised with any change that may change an order."""


def ranker_sha256(weights: Weights, policy: Policy, *, k: int, canary_rate: float) -> str:
    """The identity, 64 hex digits."""
    encoder = current_encoder()
    return _sha256(weights, policy, k, canary_rate, encoder.name if encoder else "")


@lru_cache(maxsize=256)
def _sha256(weights: Weights, policy: Policy, k: int, canary_rate: float, encoder: str) -> str:
    facts = {
        "version": VERSION,
        "weights": weights.model_dump(mode="json") | {"k": k, "policy": policy.name},
        "policy": asdict(policy),
        "canary_rate": canary_rate,
        "encoder": encoder,
        "prior": [shrinkage.PRIOR_SD, shrinkage.NOTHING_KNOWN],
        "duplicates": [duplicates.NEGATIONS.pattern, duplicates.LITERAL.pattern],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
