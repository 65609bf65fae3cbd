"""What each signal says about pairs of tip and script, in the form that calibration measures.

Guarantees: one place turns raw signals into scores and answers, for pairs of a file and for rows
of the database alike; each distinct text is embedded once. Pure; the embedding model is loaded only
by whoever asks for cosines. Does not ask the judge, and compares nothing with labels.

Shaped by two commands that each read "followed" from a cosine in their own way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from scoring.calibration import Scored
from scoring.trace import Verdict, trace
from scoring.vectors import FOLLOWED_COSINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.following_model import Signals
    from scoring.trace import TraceResult
    from scoring.vectors import TextVector

TRACE: Final = "trace"
EMBEDDING: Final = "embedding"
JUDGE: Final = "judge"
COMBINED: Final = "combined"
SIGNALS: Final = (TRACE, EMBEDDING, JUDGE, COMBINED)

UNGRADED: Final = frozenset({JUDGE})
"""Signals whose score is a yes or no, not a degree: they have no calibration error."""

FOLLOWED_FROM: Final = 0.5
"""Probability from which the combined signal says "followed"."""

_JUDGE_SAYS: Final = {"followed": True, "contradicted": False, "not_followed": False}


class Pair(Protocol):
    """A tip and a script."""

    @property
    def tip(self) -> str: ...
    @property
    def script(self) -> str: ...


def traces(pairs: Sequence[Pair]) -> list[TraceResult]:
    """The action trace of each pair."""
    return [trace(tip=pair.tip, script=pair.script) for pair in pairs]


def cosines(pairs: Sequence[Pair]) -> list[float | None]:
    """The embedding cosine of each pair, in [-1, 1]; None where a text is blank.

    Raises EmbeddingError.
    """
    # The model costs seconds and a gigabyte: only whoever asks for the cosine pays.
    from scoring.embedding import load_encoder
    from scoring.vectors import cosine

    texts = dict.fromkeys(text for pair in pairs for text in (pair.tip, pair.script))
    readable = [text for text in texts if text.strip()]
    encoded = load_encoder().encode(readable)
    vectors: dict[str, TextVector] = dict(zip(readable, encoded, strict=True))
    return [
        cosine(vectors[pair.tip], vectors[pair.script])
        if pair.tip in vectors and pair.script in vectors
        else None
        for pair in pairs
    ]


def by_trace(signals: Sequence[Signals]) -> list[Scored]:
    """Answers of the action trace."""
    return [
        Scored(score=None, followed=None)
        if said.trace_score is None
        else Scored(score=said.trace_score, followed=said.trace_verdict == Verdict.FOLLOWED)
        for said in signals
    ]


def by_cosine(signals: Sequence[Signals]) -> list[Scored]:
    """Answers of the cosine at ADR-0019's threshold; below zero it scores zero."""
    return [
        Scored(score=None, followed=None)
        if said.cosine is None
        else Scored(score=min(1.0, max(0.0, said.cosine)), followed=said.cosine >= FOLLOWED_COSINE)
        for said in signals
    ]


def by_judge(signals: Sequence[Signals]) -> list[Scored]:
    """Answers of the judge: a label that is no yes or no abstains, no label at all has failed."""
    answers = [_JUDGE_SAYS.get(said.judge) for said in signals]
    return [
        Scored(
            score=None if answer is None else float(answer),
            followed=answer,
            failed=not said.judge,
        )
        for said, answer in zip(signals, answers, strict=True)
    ]


def by_probability(probabilities: Sequence[float | None]) -> list[Scored]:
    """Answers of the combined signal: probabilities in [0, 1], None where it abstains."""
    return [
        Scored(score=p, followed=None if p is None else p >= FOLLOWED_FROM) for p in probabilities
    ]
