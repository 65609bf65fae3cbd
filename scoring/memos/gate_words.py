"""Words beside a figure that change what it says: denials, averages, rates.

Guarantees: the vocabularies are closed; a word counts only if the label of the cited fact does not
have it itself ("attempts not followed", "mean score", "cost per run"). It reads the words near one
figure, not the sense of the sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scoring.memos.figures_quantifiers import stem
from scoring.memos.figures_units import word_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.memos.facts import Fact
    from scoring.memos.figures_tokens import Token
    from scoring.memos.gate_labels import Labels, Window

NEGATORS: Final = frozenset(
    {"not", "never", "nor", "cannot", "without", "hardly", "barely", "scarcely", "non", "instead"}
    | {"excluding", "except", "neither", "false", "wrongly"}
)
_PHRASES: Final = frozenset(
    {("rather", "than"), ("other", "than"), ("far", "from"), ("anything", "but")}
)
AGGREGATES: Final = {
    "average": "mean", "averaged": "mean", "averaging": "mean", "averages": "mean", "avg": "mean",
    "mean": "mean", "median": "median", "typical": "median", "maximum": "max", "max": "max",
    "highest": "max", "peak": "max", "largest": "max", "biggest": "max",
    "minimum": "min", "min": "min", "lowest": "min", "smallest": "min", "fewest": "min",
    "cumulative": "sum", "record": "max",
}  # fmt: skip
_RATES: Final = frozenset(
    {"per", "each", "apiece", "daily", "weekly", "monthly", "yearly", "annually", "hourly", "every"}
)
_SPANS: Final = frozenset(
    {"day", "week", "month", "year", "hour", "minute", "second", "run", "attempt", "piece", "head"}
    | {"night", "quarter", "rule", "tip", "category", "retrieval", "sweep"}
)
NEAR: Final = 3


def denies(item: Fact, window: Window, tokens: Sequence[Token], labels: Labels) -> bool:
    """Whether the text denies what the label says, or says what the label denies."""
    words, stems = labels.words(item), labels.stems(item)
    label_denies = any(_negates(word) for word in words)
    first = max(window.begin, window.figure_first - NEAR)
    figure = range(window.figure_first, window.figure_stop)  # "never" may be the figure itself
    negators = [
        at for at in range(window.begin, window.end) if at not in figure and _negator(tokens, at)
    ]
    if label_denies:
        return not negators and not _has_label(stems, tokens, window) and bool(
            {stem(token.norm) for token in tokens[window.begin : window.end]} & stems
        )  # fmt: skip
    close = any(first <= at < window.figure_first for at in negators)
    said = any(
        stem(token.norm) in stems
        for at in negators
        for token in tokens[at + 1 : min(at + 1 + NEAR, window.end)]
    )
    return close or said


def _has_label(stems: frozenset[str], tokens: Sequence[Token], window: Window) -> bool:
    prefixed = any(token.norm.startswith(("un", "dis", "ignor")) for token in tokens)
    return prefixed or not stems


def _negates(word: str) -> bool:
    return word in NEGATORS or word.endswith("n't")


def _negator(tokens: Sequence[Token], at: int) -> bool:
    word = word_at(tokens, at)
    return _negates(word) or (word, word_at(tokens, at + 1)) in _PHRASES


def aggregate_unknown_to(
    item: Fact, window: Window, tokens: Sequence[Token], labels: Labels
) -> str:
    """Return the word (average, highest…) just before a figure that the fact's label does not know."""
    known = {AGGREGATES[word] for word in labels.words(item) if word in AGGREGATES}
    for at in range(max(window.begin, window.figure_first - NEAR - 1), window.figure_first):
        word = word_at(tokens, at)
        verb = word == "mean" and word_at(tokens, at - 1) not in {"a", "the", "an"}
        if word in AGGREGATES and AGGREGATES[word] not in known and not verb:
            return word
    return ""


def rate_unknown_to(item: Fact, window: Window, tokens: Sequence[Token], labels: Labels) -> str:
    """Return the word (per, daily…) behind a figure that makes a rate of it, if the label knows none."""
    if labels.words(item) & _RATES:
        return ""
    for at in range(window.figure_stop, min(window.figure_stop + NEAR + 2, window.end)):
        word = word_at(tokens, at)
        span = word_at(tokens, at + 1)
        timed = word in {"a", "an"} and span in _SPANS and stem(span) not in labels.stems(item)
        if timed:
            return f"{word} {span}"
        if word in _RATES and (word != "per" or tokens[at + 1 : at + 2]):
            return word
        if word == "/" and tokens[at].glued:
            return word
    return ""
