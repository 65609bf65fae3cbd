"""What the page of a stored memo shows: its text with links, its facts, and what is found out about it.

Guarantees: gate, completeness and rubric are computed from the text and the facts that the row holds,
never read from it; a row that holds no facts that can be read, or another text than was stored, is
shown as one, and says so. HTML is made by ``format_html`` alone: text of models, tips and senders is
escaped, and its invisible characters are written out.

Does not say whether the facts are still those of today: it reads this row and no other. Source: issue 5
(item 9).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.utils.html import format_html, format_html_join

from memory.terminal import visible
from scoring.memo_sources import Source, source_of
from scoring.memos.cache import Way, is_as_stored
from scoring.memos.figures_tokens import TokenKind, tokens_of
from scoring.memos.gate import MAX_CHARS, check
from scoring.memos.memo_result import MemoResult, result_of
from scoring.memos.render import rendered
from scoring.memos.stored import snapshot_from_dict, verdict_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

    from django.contrib.admin import AdminSite
    from django.utils.safestring import SafeString

    from scoring.memos.facts import Fact, Snapshot
    from scoring.memos.gate_report import GateReport
    from scoring.memos.memo_judge import MemoVerdict
    from scoring.models import Memo

_REF: Final = re.compile(r"F([0-9]+)")
TITLE_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Line:
    """One fact. ``number`` is that of its citation; ``state``: told, mentioned or left out.

    ``how`` and ``inputs`` (numbers of citations) are of a derived fact; ``sources`` of any.
    """

    number: int
    label: str
    value: str
    material: bool
    state: str
    how: str
    inputs: tuple[int, ...]
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the judge's checklist; ``numbers`` are those of the facts it names."""

    statement: str
    claim: str
    finding: str
    why: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoPage:
    """All that is shown. ``made`` is None where the row's facts cannot be read; ``fault`` says why.

    ``omitted`` holds material facts first; ``rubric``: dimension, share and weight, both 0 to 1.
    """

    text: SafeString
    changed: bool
    fault: str = ""
    made: MemoResult | None = None
    lines: tuple[Line, ...] = ()
    omitted: tuple[Line, ...] = ()
    checklist: tuple[Check, ...] = ()
    rubric: tuple[tuple[str, Decimal, Decimal], ...] = ()
    sides: tuple[tuple[str, str], ...] = ()


def read(row: Memo) -> MemoResult:
    """Return what can be said of the row's text on the row's facts; raises ValueError if it has none."""
    snapshot = snapshot_from_dict(row.facts)
    way = Way(row.mode, row.variant, row.model, row.prompt_sha256)
    return result_of(
        row.text, snapshot, way, check(row.text, snapshot), verdict=_verdict(row), reason=row.reason,
        cached=True, row=row.pk, hits=row.hits, written_at=row.written_at,
    )  # fmt: skip


def page_of(row: Memo, site: AdminSite) -> MemoPage:
    """Return the page of a stored memo. ``site``: where its rows have pages."""
    changed = not is_as_stored(row)
    sides = tuple(_sides(row.sides))
    try:
        made = read(row)
    except ValueError as error:
        shown = format_html("{}", visible(row.text[:MAX_CHARS], lines=True))
        return MemoPage(shown, changed, str(error), sides=sides)
    lines = tuple(_lines(made, site))
    left = [line for line in lines if line.state != "told"]
    return MemoPage(
        text=linked(row.text, made.gate, made.snapshot),
        changed=changed,
        made=made,
        lines=lines,
        omitted=tuple(sorted(left, key=lambda line: not line.material)),
        checklist=tuple(_checklist(made)),
        rubric=tuple(
            (str(name), share, made.rubric.weights[name])
            for name, share in made.rubric.dimensions.items()
        ),
        sides=sides,
    )


def _verdict(row: Memo) -> MemoVerdict | None:
    """The judge's answer; none if the row holds something else, as the service has it."""
    try:
        return None if row.verdict is None else verdict_from_dict(row.verdict)
    except ValueError:
        return None


# --- The text -----------------------------------------------------------------------------------------


def linked(text: str, report: GateReport, snapshot: Snapshot) -> SafeString:
    """Return ``text`` as HTML: sourced figures and citations lead to ``#fact-n``, faults are marked."""
    pieces: list[SafeString | str] = []
    at = 0
    for start, end, number, title in sorted(_spans(text, report, snapshot)):
        if start < at or end <= start:
            continue
        words = visible(text[start:end], lines=True)
        pieces.append(visible(text[at:start], lines=True))
        if number:
            pieces.append(format_html('<a href="#fact-{}" title="{}">{}</a>', number, title, words))
        else:
            pieces.append(format_html('<strong title="{}">{}</strong>', title, words))
        at = end
    pieces.append(visible(text[at : max(at, MAX_CHARS)], lines=True))
    return format_html_join("", "{}", ((piece,) for piece in pieces))


def _spans(
    text: str, report: GateReport, snapshot: Snapshot
) -> Iterator[tuple[int, int, int, str]]:
    """Where something is to be shown: start, end, the fact's number or 0 for a fault, and a title."""
    for one in report.sourced:
        item = snapshot.by_id[one.fact_id]
        yield one.start, one.end, _number(snapshot, item), _title(item)
    for fault in report.findings:
        yield fault.start, min(fault.end, MAX_CHARS), 0, visible(fault.message, limit=TITLE_CHARS)
    for token in tokens_of(text[:MAX_CHARS]):
        if token.kind is not TokenKind.CITE:
            continue
        for ref in _REF.finditer(token.text):
            cited = snapshot.by_citation.get(ref[0])
            if cited is not None:
                start = token.start + ref.start()
                yield start, start + len(ref[0]), int(ref[1]), _title(cited)


def _number(snapshot: Snapshot, item: Fact) -> int:
    return int(snapshot.citations[item.id][1:])


def _title(item: Fact) -> str:
    return visible(f"{item.label} = {rendered(item) or 'not known'}", limit=TITLE_CHARS)


# --- Beside it ----------------------------------------------------------------------------------------


def _lines(made: MemoResult, site: AdminSite) -> Iterator[Line]:
    told = {item.id for item in made.completeness.told}
    mentioned = {item.id for item in made.completeness.mentioned}
    for item in made.snapshot.by_citation.values():
        state = "told" if item.id in told else "mentioned" if item.id in mentioned else "left out"
        inputs = [made.snapshot.by_id[name] for name in item.derived_from]
        yield Line(
            number=_number(made.snapshot, item),
            label=item.label,
            value=rendered(item) or "not known",
            material=item.is_material,
            state=state,
            how=str(item.formula or ""),
            inputs=tuple(_number(made.snapshot, one) for one in inputs),
            sources=tuple(source_of(str(one), site) for one in item.provenance),
        )


def _checklist(made: MemoResult) -> Iterator[Check]:
    """The judge's lines; one that is no line is left out, as the row may hold anything."""
    items: Sequence[Any] = made.verdict.items if made.verdict is not None else ()
    for item in items:
        if not isinstance(item, dict):
            continue
        refs = _REF.findall(str(item.get("citation", "")))
        known = [int(ref) for ref in refs if f"F{ref}" in made.snapshot.by_citation]
        said = {name: str(item.get(name, "")) for name in ("statement", "claim", "finding", "why")}
        yield Check(**said, numbers=tuple(known))


def _sides(stored: Any) -> Iterator[tuple[str, str]]:
    for side in stored if isinstance(stored, list) else ():
        if isinstance(side, dict):
            yield str(side.get("name", "")), str(side.get("text", ""))
