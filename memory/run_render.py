"""One run on a terminal: a block per attempt, a line per tip, each signal as a word with its reason.

Guarantees: nothing is told by colour alone; texts of strangers cannot steer the terminal; a line says
which signal decided; of the judge the label, which says more than yes or no. Takes the plain data of
``memory.run_view`` and reads no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from memory.credit import EMB_FOLLOWED
from memory.terminal import plain, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

NO_ANSWER: Final = "–"
STYLES: Final = {"followed": "green", "ignored": "yellow", NO_ANSWER: "dim"}
QUADRANT_STYLES: Final = {"misleading": "bold red", "earned": "bold green"}


def render_run(view: dict[str, Any]) -> Iterator[RenderableType]:
    """The head, then one block per attempt."""
    yield from _head(view["run"])
    for attempt in view["attempts"]:
        yield from _block(attempt)


def _head(run: dict[str, Any]) -> Iterator[RenderableType]:
    yield plain(
        f"Run {run['external_id']} (primary key {run['id']}) of skill {run['skill']}", "bold"
    )
    state = f"{run['status']}, scoring round {run['scoring_round']}, revision {run['revision']}"
    if run["superseded_at"]:
        state += f", superseded at {run['superseded_at']}: no audit counts it"
    yield plain(state)
    yield plain(
        f"started {run['started_at']}, ended {run['ended_at'] or 'never'}, "
        f"model {run['model'] or '(not named)'}, environment {run['environment_tag'] or '(not named)'}"
    )
    yield plain(f"{run['attempts']} attempts, {run['retrievals']} retrievals")
    if run["high_stakes"]:
        yield plain("high stakes: the stronger judge gives every verdict that its budget allows")
    if run["hazards"]:
        met = ", ".join(f"{name} {n}" for name, n in sorted(run["hazards"].items()))
        yield plain(f"hazards of the log: {met}")


def _block(attempt: dict[str, Any]) -> Iterator[RenderableType]:
    yield Text("")
    yield plain(f"{attempt['rule_id']} #{attempt['number']}: {_outcome(attempt)}", "bold")
    notes = [
        note
        for note, holds in (
            ("no script", not attempt["has_script"]),
            ("script truncated", attempt["script_truncated"]),
            ("script exited non-zero", attempt["apply_failed"]),
            ("verdict came later", attempt["deferred"]),
            (f"evaluator error: {attempt['evaluator_error']}", attempt["evaluator_error"]),
        )
        if holds
    ]
    if notes:
        yield plain(f"  {'; '.join(notes)}", limit=300)
    if not attempt["retrievals"]:
        yield Text("  no tip was retrieved")
        return
    yield _tips(attempt["retrievals"])
    for row in attempt["retrievals"]:
        yield from _evidence(row)


def _outcome(attempt: dict[str, Any]) -> str:
    value = attempt["outcome_value"]
    if value is None:
        return f"no outcome ({attempt['outcome_reason']})"
    mode = f", {attempt['failure_mode']}" if attempt["failure_mode"] else ""
    return f"outcome {value:+.2f} at confidence {attempt['outcome_confidence']:.2f}{mode}"


def _tips(rows: list[dict[str, Any]]) -> Table:
    columns = (
        "  rank",
        "tip",
        "judge",
        "cosine",
        "trace",
        "review",
        "answer",
        "quadrant",
        "reason",
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        cosine = row["tip_followed_emb"]
        table.add_row(
            plain(f"  {row['rank']}"),
            plain(row["tip"] if row["shown"] else f"{row['tip']} (not shown)"),
            _label(row),
            _answer(
                None if cosine is None else cosine >= EMB_FOLLOWED,
                "" if cosine is None else f" {cosine:.2f}",
            ),
            plain(row["tip_followed_trace_verdict"].replace("_", " ") or NO_ANSWER),
            _answer(row["tip_followed_review"]),
            _answer(
                row["followed"], f" ({row['followed_source']})" if row["followed_source"] else ""
            ),
            plain(row["quadrant"].replace("_", " "), QUADRANT_STYLES.get(row["quadrant"], "")),
            plain(row["reason"] or ""),
        )
    return table


def _label(row: dict[str, Any]) -> Text:
    """What the judge said, in the colour of the yes or no that is derived of it."""
    said = _answer(row["tip_followed_llm"])
    if not row["llm_label"]:  # judged before labels were stored
        return said
    return plain(row["llm_label"].replace("_", " "), str(said.style))


def _answer(followed: bool | None, detail: str = "") -> Text:  # noqa: FBT001 - the answer is the subject
    word = {True: "followed", False: "ignored", None: NO_ANSWER}[followed]
    return Text(visible(word + detail), style=STYLES[word])


def _evidence(row: dict[str, Any]) -> Iterator[RenderableType]:
    for seen in row["tip_followed_trace_evidence"]:
        text = seen.get("text") if isinstance(seen, dict) else seen
        line = seen.get("line") if isinstance(seen, dict) else None
        where = f" (line {line})" if line else ""
        yield plain(f"    trace of {row['tip']}: {text}{where}", limit=300)
