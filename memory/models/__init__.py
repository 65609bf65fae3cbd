"""The graph: runs, attempts, tips, and every retrieval of a tip into an attempt.

Guarantees (by constraints, not by convention): a run is current at most once per (skill, external
id); an attempt is numbered once per rule; a tip is retrieved at most once into an attempt; a grade
and its confidence come together; an error never stands beside a label; a label names its source.
What cannot be back-filled later is a column from the first migration on: the whole script, the text
that was really shown, the inclusion propensity, the evaluator's raw output, the sender's model.

Does not guarantee that credit is up to date: it is derived from these rows, and the sums kept of it
(TipEvidence) are those of the last recount.
Nothing here is deleted: a revised run stays as an older revision, a tip retires with a reason.

Shaped by: a schema where successes had no attempt row, scripts were cut at 200 characters, and the
text of a tip was joined in later although the agent had seen another one (ADR-0019).
"""

from __future__ import annotations

from memory.models.evidence import RunEvidence, TipEvidence
from memory.models.passes import DreamPass, DreamStage
from memory.models.retrievals import Retrieval
from memory.models.revisions import Ban, OutcomeRevision, TipVector
from memory.models.runs import Attempt, Run, Tip
from memory.models.sweeps import EvictionSweep, SweepEntry, TipChange

__all__ = [
    "Attempt",
    "Ban",
    "DreamPass",
    "DreamStage",
    "EvictionSweep",
    "OutcomeRevision",
    "Retrieval",
    "Run",
    "RunEvidence",
    "SweepEntry",
    "Tip",
    "TipChange",
    "TipEvidence",
    "TipVector",
]
