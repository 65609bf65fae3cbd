"""Names in backticks: which are known, and which subject a figure stands with.

Guarantees: what stands in backticks is, character by character, a name of the snapshot, and is no figure
in disguise; a figure whose fact has a subject stands with that subject: between it and its citation,
else before it in the sentence, else after it, else the last one the memo spoke of. A change may stand
with the subjects of its two ends (`scoring.memos.gate_change`). It does not resolve "the former" and
"the other".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scoring.memos.figures import find_figures
from scoring.memos.figures_tokens import Token, TokenKind, tokens_of
from scoring.memos.gate_change import other_end
from scoring.memos.gate_labels import stems_of
from scoring.memos.units import Measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scoring.memos.facts import Fact, Snapshot
    from scoring.memos.gate_labels import Labels, Window

_SHORT: Final = 4
"""A name of fewer tokens that begins with a figure is read as the figure: `17 times`."""


class Names:
    """The names of a snapshot, and the last subject that the memo has spoken of so far."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._last = ""
        self._faults: dict[str, str] = {}

    def fault(self, token: Token) -> str:
        """Return why what stands in backticks may not, or ""."""
        name = token.text[1:-1]
        if name not in self._faults:
            self._faults[name] = self._fault(name)
        return self._faults[name]

    def _fault(self, name: str) -> str:
        if name not in self._labels.names:
            return "backticks hold known names only"
        inner = tokens_of(name)
        figures = find_figures(inner).figures
        if figures and figures[0].first == 0 and len(inner) < _SHORT:
            return "a name that reads as a figure"
        return ""

    def is_other(self, token: Token, item: Fact) -> bool:
        """Whether a name right before a citation is not the text of the name fact that is cited."""
        named = token.kind is TokenKind.NAME and item.measure is Measure.NAME
        return named and token.text[1:-1] not in {item.value, *self._labels.subjects(item)}

    def pass_over(self, tokens: Sequence[Token]) -> None:
        """Remember the last subject of a sentence that has been read."""
        for token in tokens:
            if self._is_subject(token):
                self._last = token.text[1:-1]

    def other_subject(
        self, item: Fact, window: Window, tokens: Sequence[Token], snapshot: Snapshot
    ) -> str:
        """Return the subject that the text speaks of instead of the fact's, or ""."""
        end = other_end(item, window, tokens, self._labels, snapshot)
        if end is not None:
            return end
        wanted = self._labels.subjects(item)
        if not wanted:
            return self._taken_for(item, window, tokens)
        name = self._nearest(window, tokens)
        return name if name and name not in wanted else ""

    def _taken_for(self, item: Fact, window: Window, tokens: Sequence[Token]) -> str:
        """Return the subject that a fact without one is ascribed to: "`tip 1` was shown 40 times"."""
        here = tokens[window.begin : window.cited]
        names = [token.text[1:-1] for token in here if self._is_subject(token)]
        others = [name for name in names if name != self._labels.identifier]
        said = self._labels.stems(item) <= stems_of(here)
        return others[-1] if others and not said else ""

    def _nearest(self, window: Window, tokens: Sequence[Token]) -> str:
        between = tokens[window.figure_stop : window.cited]
        before = tokens[: window.figure_first]
        after = tokens[window.cited :]
        for part in (between, before[::-1], after):
            for token in part:
                if self._is_subject(token):
                    return token.text[1:-1]
        return self._last

    def _is_subject(self, token: Token) -> bool:
        return token.kind is TokenKind.NAME and token.text[1:-1] in self._labels.all_subjects
