"""A dream pass as plain data, on a terminal, and as the section of ``show_run``.

Guarantees: reads only; the data is that of the stored rows, complete and in a fixed order; texts of
strangers cannot steer the terminal; a stage that failed says why. Long lists are cut for people and say
so, never in the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from memory.dream import State, stages_of
from memory.dream_report import mean_text, number_text, rate_text
from memory.flags import TOLD_APART, Flag
from memory.models import DreamPass
from memory.run_sections import Section
from memory.summary import digest
from memory.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from memory.models import DreamStage, Run

LISTED: Final = 20
"""Rows per table on a terminal."""

FLAG_STYLES: Final = {Flag.MISLEADING: "bold red", Flag.EARNED: "bold green"}


def last_pass(run: Run) -> DreamPass | None:
    """The latest recount that was kept of *run*."""
    return DreamPass.objects.filter(run=run).order_by("-number").first()


def dream_view(run: Run) -> dict[str, Any]:
    """``{"run": …, "stages": [...], "pass": … or None}``, as the rows stand now."""
    kept = last_pass(run)
    return {
        "run": {
            "id": run.pk,
            "external_id": run.external_id,
            "skill": run.skill,
            "revision": run.revision,
            "superseded": run.superseded_at is not None,
            "status": run.status,
            "passes_begun": run.dream_number,
        },
        "stages": [_stage(row) for row in stages_of(run)],
        "pass": kept and _pass(kept),
    }


def _stage(row: DreamStage) -> dict[str, Any]:
    return {
        "stage": row.stage,
        "pass": row.number,
        "state": row.state,
        "seconds": row.seconds,
        "finished_at": row.finished_at and row.finished_at.isoformat(),
        "detail": row.detail,
        "error": row.error,
    }


def _pass(kept: DreamPass) -> dict[str, Any]:
    return {
        "number": kept.number,
        "policy": kept.policy,
        "created_at": kept.created_at.isoformat(),
        "sha256": digest(kept.summary),
        "retrievals": kept.retrievals,
        "summary": kept.summary,
        "report": kept.report,
    }


# --- For people -----------------------------------------------------------------------------------


def section(run: Run) -> Section:
    """For ``show_run``: how far the pass has come, and what it kept."""
    rows, kept = stages_of(run), last_pass(run)
    lines = [_stage_line(row) for row in rows] or ["dream pass: none was begun"]
    if kept is not None:
        lines.append(f"last recount kept: pass {kept.number} under {kept.policy}")
    stages = [{k: v for k, v in _stage(row).items() if k != "detail"} for row in rows]
    data = {"stages": stages, "kept_pass": kept and kept.number}
    return Section(data=data, lines=tuple(lines))


def _stage_line(row: DreamStage) -> str:
    if row.state == State.NEW:
        return f"dream pass {row.number}: {row.stage} is still to be done"
    if row.state == State.FAILED:
        return f"dream pass {row.number}: {row.stage} failed: {row.error}"
    return f"dream pass {row.number}: {row.stage} done in {row.seconds or 0.0:.2f} s"


def render_dream(view: dict[str, Any]) -> Iterator[RenderableType]:
    """The pass as tables, one below the other."""
    run, kept = view["run"], view["pass"]
    name = f"{run['skill']}/{run['external_id']}"
    yield plain(f"Run {name} (primary key {run['id']}), {run['status']}", "bold")
    yield _stages(view["stages"])
    if kept is None:
        return
    yield from _title(
        f"Pass {kept['number']}, policy {kept['policy']}, sha256 {kept['sha256'][:12]}"
    )
    yield from _totals(kept["summary"]["totals"])
    yield from _tips(kept["summary"]["tips"])
    yield from _categories(kept["summary"]["categories"])
    yield from _changes(kept["report"])


def _stages(stages: list[dict[str, Any]]) -> Table:
    table = _table("stage", "state", "seconds", "what it did")
    for stage in stages:
        seconds = "" if stage["seconds"] is None else f"{stage['seconds']:.2f}"
        said = stage["error"] or ", ".join(
            f"{key.replace('_', ' ')} {value}"
            for key, value in stage["detail"].items()
            if not isinstance(value, dict | list) and value not in ("", None) and key != "sha256"
        )
        failed = "bold red" if stage["state"] == State.FAILED else ""
        table.add_row(
            plain(stage["stage"]), plain(stage["state"], failed), seconds, plain(said, limit=300)
        )
    return table


def _totals(totals: dict[str, Any]) -> Iterator[RenderableType]:
    yield plain(
        f"{totals['retrievals']} retrievals, {totals['present']} shown: {totals['followed']} followed, "
        f"{totals['ignored']} ignored, {totals['unknown']} unknown; "
        f"follow rate {rate_text(totals['follow_rate'])}"
    )
    yield plain(
        ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in totals["quadrants"].items())
    )


def _tips(tips: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """All counted, and those listed that ask for something, the misleading ones first."""
    counts = [f"{sum(tip.get('flag') == flag for tip in tips)} {_word(flag)}" for flag in Flag]
    yield from _title(f"Tips: {', '.join(counts)}")
    order = {str(flag): place for place, flag in enumerate(TOLD_APART)}
    named = sorted(
        (tip for tip in tips if tip.get("flag") in order),
        key=lambda tip: (order[tip["flag"]], -tip["quadrants"][tip["flag"]], tip["tip_id"]),
    )
    if not named:
        return
    table = _table("flag", "tip", "helped when followed", "helped when present", "credit (shrunk)")
    for tip in named[:LISTED]:
        table.add_row(
            plain(_word(tip["flag"]), FLAG_STYLES.get(Flag(tip["flag"]), "")),
            plain(tip["tip"], limit=60),
            rate_text(tip["helpful_when_followed"]),
            rate_text(tip["helpful_when_present"]),
            mean_text(tip["visits"]["credit"]),
        )
    yield table
    yield from _more(named)


def _categories(categories: list[dict[str, Any]]) -> Iterator[RenderableType]:
    yield from _title("Categories")
    table = _table("category", "rules remediated", "legacy", "follow-aware", "counts")
    for each in categories[:LISTED]:
        table.add_row(
            plain(each["category"] or "(none)", limit=60),
            rate_text(each["rules_remediated"]),
            number_text(each["legacy_signal"]),
            f"{number_text(each['follow_aware_signal'])} (n {each['follow_aware_n']})",
            _word(each["basis"]),
        )
    yield table
    yield from _more(categories)


def _changes(report: dict[str, Any]) -> Iterator[RenderableType]:
    for key, title in (
        ("since_last_pass", "Since the last pass"),
        ("since_last_run", "Since the run before"),
    ):
        since = report.get(key)
        if not since:
            continue
        yield from _title(
            f"{title} (pass {since['pass']} of {since['run']['external_id']}): "
            f"{len(since['flags'])} flags, {len(since['credit'])} credits and "
            f"{len(since['categories'])} categories changed"
        )
        for tip in since["flags"][:LISTED]:
            yield plain(
                f"  {tip['tip']}: was {_word(tip['before'])}, now {_word(tip['after'])}", limit=200
            )
        yield from _more(since["flags"])


def _title(text: str) -> Iterator[RenderableType]:
    yield Text("")
    yield plain(text, "bold", limit=300)


def _more(listed: Sequence[object]) -> Iterator[RenderableType]:
    if len(listed) > LISTED:
        yield Text(f"  and {len(listed) - LISTED} more (--json has them all)", style="dim")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _word(name: str) -> str:
    return name.replace("_", " ")
