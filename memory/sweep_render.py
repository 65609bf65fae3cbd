"""Sweeps and flips on a terminal: the gate in words, then a line per tip with its figures.

Guarantees: a table is cut at *limit* and says by how much; texts of strangers cannot steer the terminal;
nothing is told by colour alone. Takes the plain data of ``memory.sweep_view`` and reads no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from memory.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

TEXT_SHOWN: Final = 60
FLIPS: Final = {
    "newly_caught": "Caught by the new gate only",
    "set_free": "Caught by the old gate only",
    "caught_by_both": "Caught by both",
    "over_the_cap": "Of these, over the cap of the new gate only",
    "within_the_cap": "Of these, over the cap of the old gate only",
}


def render_sweep(view: dict[str, Any], *, limit: int) -> Iterator[RenderableType]:
    """Head, gate and tips of one sweep."""
    entries = view["entries"]
    yield plain(_title(view), "bold")
    yield plain(f"gate: {gate_line(view['gate'])}")
    yield plain(
        f"{view['active']} active tips, {view['with_evidence']} with enough evidence, "
        f"{len(entries)} caught"
    )
    yield from _tips(entries, limit, fate=_fate)


def render_cleared(tips: Sequence[dict[str, Any]], *, limit: int) -> Iterator[RenderableType]:
    """Retired tips that the gate would let go (``memory.cleared_tips``); nothing when there is none."""
    if not tips:
        return
    yield Text("")
    yield plain(f"Retired, and no longer below the gate (visits since): {len(tips)}", "bold")
    table = _table("tip", "key", "mean", "visits", "since", "retired", "sweep", "text")
    for tip in tips[:limit]:
        table.add_row(
            plain(tip["tip"]),
            plain(tip["tip_id"]),
            plain(f"{tip['mean']:+.3f}"),
            plain(tip["visits"]),
            plain(tip["visits_since"]),
            plain((tip["retired_at"] or "")[:10]),
            plain(tip["sweep"]),
            plain(tip["text"], limit=TEXT_SHOWN),
        )
    yield table
    yield plain(f"to bring one back: {tips[0]['command']}")
    yield from _more(tips, limit)


def render_flips(view: dict[str, Any], *, limit: int) -> Iterator[RenderableType]:
    """Both gates, then the tips of each list; figures are those of the gate that caught the tip."""
    for name in ("old", "new"):
        gate = view[name]
        yield plain(
            f"{name} gate: {gate_line(gate['gate'])}. Of {gate['active']} active tips "
            f"{gate['with_evidence']} have enough evidence, {gate['caught']} are caught."
        )
    for name, title in FLIPS.items():
        yield Text("")
        yield plain(f"{title}: {len(view[name])}", "bold")
        tips = [flip | (flip["new"] or flip["old"]) for flip in view[name]]
        yield from _tips(tips, limit, fate=_cap)


def render_list(heads: Sequence[dict[str, Any]]) -> Table:
    """One line per sweep."""
    table = _table(
        "sweep", "skill", "state", "made", "by", "run", "policy", "threshold", "caught", "retired",
        "given back",
    )  # fmt: skip
    for head in heads:
        made = head["created_at"][:16].replace("T", " ")
        threshold = f"{head['gate']['threshold']:+.3f}"
        cells = (
            head["id"], head["skill"], head["state"], made, head["created_by"], head["run"] or "",
            head["policy"], threshold, head["caught"], head["retired"], head["given_back"],
        )  # fmt: skip
        table.add_row(*(plain(cell) for cell in cells))
    return table


def gate_line(gate: dict[str, Any]) -> str:
    """The conditions of a gate in words."""
    what = "95 % interval" if gate["interval_below"] else "mean"
    line = (
        f"{what} of the credit under {gate['policy']} below {gate['threshold']:+.3f}, from "
        f"{gate['min_retrievals']} visits and {gate['min_age_days']} days on"
    )
    if gate["protected_types"]:
        line += f", not of type {', '.join(gate['protected_types'])}"
    return f"{line}, at most {gate['cap']} tips and {gate['cap_share']:.0%} of the active ones"


def _title(head: dict[str, Any]) -> str:
    if head["id"] is None:
        return f"Sweep of {head['skill']}: tried, not stored"
    title = f"Sweep {head['id']} of {head['skill']}: {head['state']}"
    for step in ("created", "applied", "undone"):
        if head[f"{step}_at"]:
            at = head[f"{step}_at"][:16].replace("T", " ")
            title += f"; {step} by {head[f'{step}_by']} at {at}"
    return title


def _tips(
    tips: Sequence[dict[str, Any]], limit: int, *, fate: Callable[[dict[str, Any]], str]
) -> Iterator[RenderableType]:
    if not tips:
        return
    table = _table("tip", "cause", "mean", "95 %", "visits", "e/m/l/b", "", "text")
    for tip in tips[:limit]:
        counts = (
            tip["figures"][name]
            for name in ("earned", "misleading", "lucky_neighbour", "bystander")
        )
        table.add_row(
            plain(tip["tip"]),
            plain(tip["cause"].replace("_", " ")),
            plain(f"{tip['mean']:+.3f}"),
            plain(f"{tip['low']:+.2f} to {tip['high']:+.2f}"),
            plain(tip["visits"]),
            plain("/".join(map(str, counts))),
            plain(fate(tip)),
            plain(tip["text"], limit=TEXT_SHOWN),
        )
    yield table
    yield plain("e/m/l/b: retrievals earned / misleading / lucky neighbour / bystander", "dim")
    yield from _more(tips, limit)


def _more(listed: Sequence[object], limit: int) -> Iterator[RenderableType]:
    if len(listed) > limit:
        yield plain(f"and {len(listed) - limit} more: --limit, or --json for all")


def _fate(tip: dict[str, Any]) -> str:
    if tip["left"]:
        return f"left: {tip['left']}"
    if tip["given_back"]:
        return "given back"
    return "retired" if tip["retired"] else _cap(tip)


def _cap(tip: dict[str, Any]) -> str:
    return "over the cap" if tip["over_cap"] else ""


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
