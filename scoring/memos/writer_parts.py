"""The parts of a written memo: a figure with its citation, a sentence with plainer forms, a paragraph.

Guarantees: every figure is the fact's main rendering with the fact's own citation right after it. A
sentence is only made of facts that are there; `Told.say` of one that is missing is an empty sentence, so
that tellers need not ask. Nothing here looks at the gate: the writer does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scoring.memos.naming import clean, reads_as_figure
from scoring.memos.render import rendered

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal

    from scoring.memos.facts import Fact, Snapshot
    from scoring.memos.product_labels import Subject

PLURALS: Final = ("attempts", "retrievals", "rules", "tips", "times", "visits")
"""Nouns of labels, of which one is written without its s."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """``texts``: the forms, best first; behind them come lines for ``labels``, then nothing."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    lines: str = ""

    @property
    def forms(self) -> int:
        """How many forms there are before nothing is left."""
        return len(self.texts) + bool(self.lines)

    def form(self, number: int) -> str:
        """Return the form of this number, from 0; "" behind the last one."""
        if number < len(self.texts):
            return self.texts[number]
        return self.lines if number == len(self.texts) else ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences under a title ("" for none)."""

    title: str
    sentences: tuple[Sentence, ...]


NOTHING: Final = Sentence((), ())


class Told:
    """The facts of one snapshot as parts of sentences."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._by_label = {item.label: item for item in snapshot.facts}

    @property
    def subject(self) -> str:
        """The identifier in backticks, or words for it if the gate would not read it as a name."""
        name = self.snapshot.identifier
        plain = name and clean(name) == name and not reads_as_figure(name)
        return f"`{name}`" if plain else "this subject"

    @property
    def heading(self) -> str:
        """The first line of the memo; with an article, because "Run it" would be an order."""
        product = self.snapshot.product
        return f"# The {'facts about' if product == 'external' else product} {self.subject}"

    def has(self, *labels: str) -> bool:
        """Whether there are facts with these labels, of known values."""
        return all(self.fact(label) is not None for label in labels)

    def fact(self, label: str) -> Fact | None:
        """The fact of this label, None if there is none or its value is not known."""
        item = self._by_label.get(label)
        return item if item is not None and item.value is not None else None

    def number(self, label: str) -> Decimal | None:
        """The value of a fact that is a number."""
        item = self.fact(label)
        return None if item is None else item.number

    def names(self, pattern: Subject) -> list[tuple[str, ...]]:
        """The names that labels of this pattern are about."""
        found = [pattern.names(item.label) for item in self.snapshot.facts]
        return [names for names in found if names]

    def figure(self, label: str) -> str:
        """The value with its citation: ``71.6% [F9]``; "" if it is not there."""
        item = self.fact(label)
        return "" if item is None else f"{rendered(item)} {self._cite(item)}"

    def counted(self, label: str) -> str:
        """A count before its label: ``5 failed attempts [F8]``, ``1 failed attempt [F8]``."""
        item = self.fact(label)
        if item is None:
            return ""
        return (
            f"{rendered(item)} {_singular(label) if item.value == 1 else label} {self._cite(item)}"
        )

    def are(self, label: str) -> str:
        """The verb before a count."""
        return "is" if self.number(label) == 1 else "are"

    def times(self, label: str) -> str:
        """A count of times: ``5 times [F3]``, ``1 time [F3]``; "" if it is not there."""
        item = self.fact(label)
        if item is None:
            return ""
        return f"{rendered(item)} {'time' if item.value == 1 else 'times'} {self._cite(item)}"

    def line(self, label: str) -> str:
        """The fact as a line of a list."""
        item = self._by_label[label]
        name = f"the {label}" if label.startswith("change in") else label  # or it reads as an order
        return f"- {name}: {rendered(item) or 'unknown'} {self._cite(item)}"

    def lines(self, labels: Iterable[str]) -> tuple[Sentence, ...]:
        """A line for each label, each a sentence of its own."""
        return tuple(Sentence((), (label,), self.line(label)) for label in labels)

    def say(self, *texts: str, of: Iterable[str]) -> Sentence:
        """A sentence in several forms about the facts ``of``; nothing if one of them is missing."""
        labels = tuple(of)
        if not self.has(*labels):
            return NOTHING
        return Sentence(texts, labels, "\n".join(self.line(label) for label in labels))

    def _cite(self, item: Fact) -> str:
        return f"[{self.snapshot.citations[item.id]}]"


def _singular(label: str) -> str:
    return " ".join(word[:-1] if word in PLURALS else word for word in label.split(" "))


def listed(parts: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; empty parts are left out."""
    found = [part for part in parts if part]
    if len(found) < 2:
        return "".join(found)
    return f"{', '.join(found[:-1])} and {found[-1]}"
