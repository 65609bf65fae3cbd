"""The gate: every figure of a memo is what its citation says, or the memo is not shown.

Guarantees: `check` is pure and deterministic. A memo passes only if each figure in it, in digits or in
words, is bound to a citation of its own and is that fact's value in that fact's unit; each citation
and each name in backticks exists; and what words say beside a figure (its fact, its subject, its
direction, its bound) agrees with the facts. What cannot be read one way only is refused. Nothing a
memo says can switch a check off.

It does not judge prose without figures; the structured judge does. It reads English.
Source: ADR-0006 ("the model proposes, deterministic code disposes"), issue 5; the ten holes of the
original's gate are its tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import localcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from scoring.memos.citations import Bound, Citing, Sentence, bind, citings_of, sentences_of
from scoring.memos.figures import find_figures
from scoring.memos.figures_tokens import Token, TokenKind, hidden_in, tokens_of
from scoring.memos.figures_units import Bound as Limit
from scoring.memos.gate_bare import Anchor
from scoring.memos.gate_claims import speaks_of_another
from scoring.memos.gate_direction import says_less, turns
from scoring.memos.gate_labels import Labels, Mention, Window, masked_by, stems_of
from scoring.memos.gate_match import misfit
from scoring.memos.gate_names import Names
from scoring.memos.gate_report import Finding, FindingKind, GateReport, Sourced
from scoring.memos.gate_words import aggregate_unknown_to, denies, rate_unknown_to
from scoring.memos.render import rendered
from scoring.memos.units import EXACT_DIGITS

if TYPE_CHECKING:
    from scoring.memos.facts import Fact, Snapshot
    from scoring.memos.figures_model import Figure, Found

GATE_VERSION: Final = "gate-2"
"""Part of every key under which a passed memo is kept."""
MAX_CHARS: Final = 40_000
MAX_FINDINGS: Final = 200


def check(text: str, snapshot: Snapshot) -> GateReport:
    """Hold ``text`` against ``snapshot`` and return every fault, in the order of the text."""
    if len(text) > MAX_CHARS:
        found = Finding(FindingKind.TOO_LONG, 0, len(text), f"{len(text)} characters")
        return GateReport((found,), (), 0, frozenset())
    gate = _Gate(text, snapshot)
    with localcontext(prec=EXACT_DIGITS):
        gate.run()
    findings = sorted(gate.findings, key=lambda finding: (finding.start, finding.end, finding.kind))
    return GateReport(
        tuple(dict.fromkeys(findings))[:MAX_FINDINGS], tuple(gate.sourced), gate.figures,
        frozenset(gate.cited),
    )  # fmt: skip


@dataclass(slots=True)
class _Read:
    """One sentence, read."""

    tokens: tuple[Token, ...]
    mentions: list[Mention]
    masked: set[int]
    found: Found
    citings: list[Citing]
    bound: list[Bound]
    is_row: bool
    in_order: bool = False


class _Gate:
    def __init__(self, text: str, snapshot: Snapshot) -> None:
        self.text, self.snapshot = text, snapshot
        self.labels = Labels(snapshot)
        self.names = Names(self.labels)
        self.findings: list[Finding] = []
        self.sourced: list[Sourced] = []
        self.cited: set[str] = set()
        self.figures = 0
        self.last: Mention | None = None

    def run(self) -> None:
        tokens = tokens_of(self.text)
        for start, end, cause in hidden_in(self.text, tokens):
            self._add(FindingKind.UNREADABLE, start, end, detail=cause)
        for token in tokens:
            if token.kind is TokenKind.NAME and (cause := self.names.fault(token)):
                self._add(FindingKind.UNKNOWN_NAME, token.start, token.end, detail=cause)
        for sentence in sentences_of(self.text, tokens):
            self._sentence(sentence)
        says = any(token.kind is TokenKind.WORD for token in tokens)
        if not says or (self.snapshot.facts and not self.cited):
            self._add(FindingKind.EMPTY_MEMO, 0, min(len(self.text), 40))

    def _add(self, kind: FindingKind, start: int, end: int, *, ref: str = "",
             nearest: str = "", detail: str = "") -> None:  # fmt: skip
        shown = self.text[start:end]
        shown = shown if shown.isprintable() else ascii(shown)[1:-1]
        self.findings.append(Finding(kind, start, end, shown[:80], ref, nearest, detail))

    def _sentence(self, sentence: Sentence) -> None:
        read = self._read(sentence.tokens, is_row=sentence.is_row)
        self.figures += len(read.found.figures)
        for bad in read.found.unreadable:
            self._add(FindingKind.UNREADABLE, bad.start, bad.end, detail=bad.cause)
        for token in read.found.vague:
            self._add(FindingKind.VAGUE, token.start, token.end)
        self._citations(read)
        self._spare(read)
        read.in_order = self._respectively(read)
        right = [self._figure(read, number) for number in range(len(read.bound))]
        self._directions(read)
        for bound, item in zip(read.bound, right, strict=True):
            if item is not None:
                figure = bound.figure
                self.sourced.append(Sourced(figure.start, figure.end, item.id, bound.ref))
        self.names.pass_over(read.tokens)
        self.last = read.mentions[-1] if read.mentions else self.last

    def _read(self, tokens: tuple[Token, ...], *, is_row: bool) -> _Read:
        mentions = self.labels.mentions(tokens)
        masked = masked_by(tokens, mentions)
        citings = citings_of(tokens)
        items = [self.snapshot.by_citation.get(ref) for citing in citings for ref in citing.refs]
        known = {word for item in items if item is not None for word in self.labels.words(item)}
        found = find_figures(tokens, masked, self.labels.nouns, known)
        if self.snapshot.as_of is not None:
            kept = tuple(one for one in found.figures if not self._is_as_of(one, tokens))
            found = replace(found, figures=kept)
        bound = bind(found.figures, citings)
        return _Read(tokens, mentions, masked, found, citings, bound, is_row)

    def _is_as_of(self, figure: Figure, tokens: tuple[Token, ...]) -> bool:
        """Whether a date is "as of" the snapshot's own day: the one figure that needs no citation."""
        before = [token.norm for token in tokens[max(0, figure.first - 2) : figure.first]]
        return figure.day == self.snapshot.as_of and before == ["as", "of"]

    def _spare(self, read: _Read) -> None:
        """Report references beside a figure that neither it nor its derivation belongs to."""
        for citing in read.citings:
            bound = {one.ref for one in read.bound if one.citing == citing and one.ref}
            items = [self.snapshot.by_citation.get(ref) for ref in bound]
            related = {name for item in items if item is not None for name in item.derived_from}
            for ref in citing.refs:
                item = self.snapshot.by_citation.get(ref)
                if bound and ref not in bound and item is not None and item.id not in related:
                    self._add(FindingKind.SPARE_CITATION, citing.start, citing.end, ref=ref)

    def _citations(self, read: _Read) -> None:
        for citing in read.citings:
            for ref in citing.refs:
                item = self.snapshot.by_citation.get(ref)
                if item is None:
                    self._add(FindingKind.PHANTOM_CITATION, citing.start, citing.end, ref=ref)
                else:
                    self.cited.add(item.id)
            item = self.snapshot.by_citation.get(citing.refs[0])
            before = read.tokens[citing.at - 1] if citing.at else None
            if item is not None and before is not None and self.names.is_other(before, item):
                self._add(
                    FindingKind.WRONG_NAME, before.start, before.end, ref=citing.refs[0],
                    nearest=rendered(item),
                )  # fmt: skip

    def _figure(self, read: _Read, number: int) -> Fact | None:
        """Return the fact that a figure is right about; report what is wrong with it."""
        bound = read.bound[number]
        figure = bound.figure
        if not bound.ref:
            self._uncited(bound)
            return None
        item = self.snapshot.by_citation.get(bound.ref)
        if item is None:
            return None
        window = _window(read, number)
        falling = says_less(item, window, read.tokens, self.labels)
        kind = misfit(figure, item, falling=falling)
        if kind is not None and self._compared(read, number, falling=falling):
            kind = None
        if kind is not None:
            kind = self._swapped(read, number, falling=falling) or kind
            self._add(kind, figure.start, figure.end, ref=bound.ref, nearest=rendered(item))
            return None
        return item if self._words(read, window, bound, item) else None

    def _uncited(self, bound: Bound) -> None:
        figure = bound.figure
        kind = FindingKind.UNBOUND_WORD if figure.spelled else FindingKind.MISSING_CITATION
        if figure.pair and bound.citing is not None:
            kind = FindingKind.RANGE
        match = next((item for item in self.snapshot.facts if misfit(figure, item) is None), None)
        hint = f"[{self.snapshot.citations[match.id]}] has this value" if match is not None else ""
        self._add(kind, figure.start, figure.end, detail=hint)

    def _swapped(self, read: _Read, number: int, *, falling: bool) -> FindingKind | None:
        figure = read.bound[number].figure
        others = {ref for citing in read.citings for ref in citing.refs} - {read.bound[number].ref}
        for ref in others:
            item = self.snapshot.by_citation.get(ref)
            if item is not None and misfit(figure, item, falling=falling) is None:
                return FindingKind.SWAPPED
        return None

    def _compared(self, read: _Read, number: int, *, falling: bool) -> bool:
        """Whether "above 69% [F2]" sets a level of this sentence against the fact's own value."""
        this = read.bound[number]
        if number == 0 or this.figure.bound not in {Limit.ABOVE, Limit.BELOW}:
            return False
        one = self.snapshot.by_citation.get(read.bound[number - 1].ref)
        two = self.snapshot.by_citation.get(this.ref)
        if one is None or two is None or one.unit != two.unit:
            return False
        if one.number is None or two.number is None:
            return False
        plain: Figure = replace(this.figure, bound=Limit.ROUNDED)
        above = this.figure.bound is Limit.ABOVE
        right = one.number > two.number if above else one.number < two.number
        return right and misfit(plain, two, falling=falling) is None

    def _words(self, read: _Read, window: Window, bound: Bound, item: Fact) -> bool:
        """Whether the words of a figure's window agree with its fact; report what does not."""
        figure = bound.figure
        count = len(self.findings)

        def add(kind: FindingKind, detail: str) -> None:
            self._add(kind, figure.start, figure.end, ref=bound.ref, detail=detail)

        tokens = read.tokens
        beside = {
            self.snapshot.by_citation[one.ref].id
            for one in read.bound
            if one.citing == bound.citing and one.ref in self.snapshot.by_citation
        }
        named = [mention for mention in read.mentions if mention.stop <= window.begin]
        last = named[-1] if named else self.last
        other = "" if read.in_order else speaks_of_another(
            item, window, tokens, read.mentions, self.labels, self.snapshot, last, beside
        )  # fmt: skip
        if read.is_row and not self.labels.stems(item) <= stems_of(tokens):
            add(FindingKind.WRONG_LABEL, f"a row of a table has the whole label: {item.label!r}")
        elif other:
            add(FindingKind.WRONG_LABEL, f"the text says {other!r}, the fact is {item.label!r}")
        if word := aggregate_unknown_to(item, window, tokens, self.labels):
            add(FindingKind.WRONG_LABEL, f"the fact is no {word}: {item.label!r}")
        if word := rate_unknown_to(item, window, tokens, self.labels):
            add(FindingKind.WRONG_UNIT, f"the fact is no rate: {item.label!r}")
        if denies(item, window, tokens, self.labels):
            add(FindingKind.NEGATED, f"the fact is {item.label!r}")
        if name := self.names.other_subject(item, window, tokens, self.snapshot):
            add(FindingKind.WRONG_NAME, f"the text speaks of `{name}`, the fact is {item.label!r}")
        return len(self.findings) == count

    def _directions(self, read: _Read) -> None:
        anchors, figured = [], set()
        skipped = set(read.masked)
        for bound in read.bound:
            figure = bound.figure
            skipped.update(range(figure.first, figure.stop))
            item = self.snapshot.by_citation.get(bound.ref)
            if item is not None and bound.citing is not None:
                figured.add(bound.citing.at)
                cited = max(bound.citing.stop, figure.stop)
                anchors.append(Anchor(figure.first, figure.stop, cited, item, figure.shape))
        for citing in read.citings:
            item = self.snapshot.by_citation.get(citing.refs[0])
            if citing.at not in figured and item is not None:
                anchors.append(Anchor(citing.at, citing.stop, citing.stop, item, None))
                self._denied(read, citing, item)
        anchors.sort(key=lambda anchor: anchor.first)
        for turn in turns(read.tokens, anchors, skipped, self.labels):
            token, item = read.tokens[turn.at], turn.anchor.item if turn.anchor else None
            self._add(
                turn.kind, token.start, token.end,
                ref=self.snapshot.citations[item.id] if item else "",
                nearest=rendered(item) if item else "",
            )  # fmt: skip

    def _denied(self, read: _Read, citing: Citing, item: Fact) -> None:
        """Report a denial of what a fact counts, cited without a figure ("was never followed [F3]")."""
        begin = max((one.stop for one in read.citings if one.stop <= citing.at), default=0)
        window = Window(begin, citing.at, citing.at, citing.stop, citing.stop)
        if item.number and denies(item, window, read.tokens, self.labels):
            self._add(
                FindingKind.NEGATED, citing.start, citing.end,
                ref=self.snapshot.citations[item.id], nearest=rendered(item),
            )  # fmt: skip

    def _respectively(self, read: _Read) -> bool:
        """Hold "attempts and failures were 40 [F1] and 3 [F2]" against the order of the labels.

        Return whether the sentence is such a list.
        """
        figures = [bound for bound in read.bound if bound.ref in self.snapshot.by_citation]
        if len(figures) < 2:
            return False
        first = figures[0].figure.first
        before = [mention for mention in read.mentions if mention.stop <= first]
        later = [mention for mention in read.mentions if mention.first >= first]
        gaps = [
            token.norm
            for one, two in pairwise(before)
            for token in read.tokens[one.stop : two.first]
        ]
        if later or len(before) != len(figures) or set(gaps) - {",", "and", "&", "the"}:
            return False
        for mention, bound in zip(before, figures, strict=True):
            item = self.snapshot.by_citation[bound.ref]
            if item.id not in mention.ids:
                figure = bound.figure
                detail = f"the order of the labels gives another fact than {item.label!r}"
                self._add(
                    FindingKind.WRONG_LABEL, figure.start, figure.end, ref=bound.ref, detail=detail
                )  # fmt: skip
        return True


def _window(read: _Read, number: int) -> Window:
    bound = read.bound[number]
    figure = bound.figure
    begin = 0
    if number:
        last = read.bound[number - 1]
        begin = last.figure.stop
        if last.citing is not None and last.citing.stop <= figure.first:
            begin = last.citing.stop
    end = read.bound[number + 1].figure.first if number + 1 < len(read.bound) else len(read.tokens)
    cited = bound.citing.stop if bound.citing is not None else figure.stop
    return Window(begin, figure.first, figure.stop, max(cited, figure.stop), max(end, cited))
