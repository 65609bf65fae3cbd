"""A ranking on a terminal: a line per tip, and on demand the sum that gave its score.

Guarantees: the terms printed add up to the score; texts of strangers cannot steer the terminal; nothing
is told by colour alone. Reads no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table

from memory.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from memory.ranking_parts import Parts, RankedTip, Ranking

TEXT_SHOWN: Final = 80


def render_ranking(ranking: Ranking, *, explain: bool) -> Iterator[RenderableType]:
    """Head, tips, and with *explain* the parts and what could not be done."""
    request = ranking.request
    yield plain(
        f"{len(ranking.tips)} tips for {request.rule_id or 'no rule'} of {request.skill}, out of "
        f"{ranking.candidates} candidates; ranker {ranking.ranker[:12]}",
        "bold",
    )
    if ranking.tips:
        yield _tips(ranking)
    else:
        yield plain("No tip scores above 0.")
    if not explain:
        return
    for tip in ranking.tips:
        if tip.parts is not None:
            yield plain("")
            yield plain(f"{tip.rank}. {tip.external_id}: {tip.score:+.4f}", "bold")
            yield from _parts(tip, tip.parts)
    for note in ranking.notes:
        yield plain(f"note: {note}")


def _tips(ranking: Ranking) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rank", justify="right")
    table.add_column("score", justify="right")
    for column in ("tip", "", "text"):
        table.add_column(column, overflow="fold")
    for tip in ranking.tips:
        table.add_row(
            str(tip.rank),
            f"{tip.score:+.4f}",
            plain(tip.external_id),
            plain(_marks(tip)),
            plain(tip.text, limit=TEXT_SHOWN),
        )
    return table


def _marks(tip: RankedTip) -> str:
    marks = []
    if tip.canary:
        marks.append("canary")
    if tip.environment:
        marks.append("environment")
    if tip.duplicates:
        marks.append(f"+{len(tip.duplicates)} alike")
    return ", ".join(marks)


def _parts(tip: RankedTip, parts: Parts) -> Iterator[RenderableType]:
    terms = {
        "prefix": parts.prefix,
        "category": parts.category,
        "helpfulness": parts.helpfulness,
        "source prior": parts.source_prior,
        "similarity": parts.similarity,
    }
    line = " ".join(f"{name} {value:+.4f}" for name, value in terms.items())
    damped = f", x {parts.same_run:g}: born in this run" if parts.same_run != 1.0 else ""
    yield plain(f"   {line}{damped}")
    for level in parts.levels:
        yield plain(
            f"   credit, {level.name}: {level.mean:+.3f} ({level.low:+.2f} to {level.high:+.2f}), "
            f"n {level.n}"
        )
    for other in tip.duplicates:
        how = "equal text" if other.cosine is None else f"cosine {other.cosine:.3f}"
        yield plain(f"   alike: {other.external_id} ({other.score:+.4f}, {how})")
