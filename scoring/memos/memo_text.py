"""A memo as lines for a terminal: the text, where each figure is from, what was found out about it.

Guarantees: text of strangers is made visible (``memory.terminal``); the sources are the cited facts and,
down to those that rows hold, the facts that they are derived from, in the order of their citations. A
high-stakes request that was not met says so. Prints nothing itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory.terminal import visible
from scoring.memos.render import rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scoring.memos.facts import Snapshot
    from scoring.memos.memo_result import MemoResult

LINE_CHARS = 500
OMISSIONS_SHOWN = 10


def memo_lines(made: MemoResult) -> Iterator[str]:
    """Yield the lines."""
    yield from visible(made.text.rstrip("\n"), lines=True).split("\n")
    yield ""
    yield from _sources(made)
    yield ""
    yield from _about(made)


def _sources(made: MemoResult) -> Iterator[str]:
    yield "Sources"
    told = _with_inputs(made.snapshot, made.gate.cited)
    for ref, item in made.snapshot.by_citation.items():
        if item.id not in told:
            continue
        source = "; ".join(item.provenance)
        if item.formula:
            inputs = ", ".join(f"[{made.snapshot.citations[name]}]" for name in item.derived_from)
            source = f"{item.formula.replace('_', ' ')}: {inputs}"
        line = f"  [{ref}] {item.label} = {rendered(item) or 'unknown'}   ({source or 'no source'})"
        yield visible(line, limit=LINE_CHARS)


def _with_inputs(snapshot: Snapshot, ids: Iterable[str]) -> set[str]:
    """The facts with these ids, and all that they are derived from."""
    found: set[str] = set()
    left = list(ids)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += snapshot.by_id[name].derived_from
    return found


def _about(made: MemoResult) -> Iterator[str]:
    report, told = made.gate, made.completeness
    yield (
        f"Gate: {'passed' if report.passed else 'refused'}, {report.figures} figures, "
        f"{len(report.sourced)} sourced."
    )
    left = [item.label for item in told.omitted]
    shown = ", ".join(left[:OMISSIONS_SHOWN])
    more = f" and {len(left) - OMISSIONS_SHOWN} more" if len(left) > OMISSIONS_SHOWN else ""
    yield visible(
        f"Facts: {len(told.told)} of {len(made.snapshot.facts)} told, "
        f"{len(told.material_omissions)} material ones left out."
        + (f" Left out: {shown}{more}." if left else ""),
        limit=LINE_CHARS,
    )
    yield f"Rubric: {made.rubric.composite:.2f}. {_judge(made)}"
    if made.unmet:
        yield visible(f"High stakes: not met, {made.unmet}", limit=LINE_CHARS)
    who = (
        f"model {made.way.model} ({made.way.variant})" if made.by_model else "the writer, no model"
    )
    yield visible(f"Written by {who}. {_origin(made)}", limit=LINE_CHARS)
    if made.reason:
        yield visible(f"The writer took over: {made.reason}", limit=LINE_CHARS)


def _judge(made: MemoResult) -> str:
    verdict = made.verdict
    if verdict is None:
        return "Not judged."
    said = "accepted" if verdict.accepted else f"rejected: {verdict.reason}"
    return visible(f"Judge ({verdict.tier}, {verdict.model}) {said}.", limit=LINE_CHARS)


def _origin(made: MemoResult) -> str:
    calls = f"{made.calls} call{'' if made.calls == 1 else 's'} to a model"
    if not made.cached:
        return f"Written now, {calls}."
    when = f" of {made.written_at:%Y-%m-%d %H:%M} UTC" if made.written_at else ""
    return f"From the cache{when}, {calls}, served {made.hits} time{'' if made.hits == 1 else 's'}."
