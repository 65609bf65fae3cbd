"""The example job as written by hand: rules, tips, attempts and two runs, read from TOML.

Guarantees: every id that the files mention exists, attempts are numbered in the order in which they
stand, and ``follows`` / ``unclear`` is the author's own label for what a script did with its tips.

Does not guarantee: that a label is a consensus. It is one author's reading of his own script.

Shaped by: hand-kept event logs, in which one renumbered attempt left forty lines wrong.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contextgraph.examples import HERE

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

RESULTS = frozenset({"pass", "fail", "health", "deferred_pass", "evaluator_error"})
EVENTS = frozenset({"", "apply_failed", "capped", "no_script", "script_cut", "tips_dropped"})


class StoryError(ValueError):
    """A source file that contradicts itself; names the file, the row and the mend."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule of the job. ``revert`` is the script that undoes an attempt at it."""

    id: str
    title: str
    category: str
    revert: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tip:
    """One tip. ``value`` is the outcome at its source, known only for tips older than run 1."""

    id: int
    rule: str
    category: str
    type: str
    text: str
    mechanism: str
    value: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt: what the agent said and ran, how it went, and which tips it followed."""

    run: int
    rule: str
    number: int
    says: str
    result: str
    script: str | None
    lesson: str
    event: str
    output: str
    follows: frozenset[int]
    violates: frozenset[int]
    unclear: frozenset[int]
    learns: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run. ``order`` lists rule ids as they are taken up."""

    number: int
    id: str
    started: datetime
    environment_tag: str
    order: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """The whole job. ``attempts`` is keyed by (run number, rule id), in order of attempt."""

    job: dict[str, Any]
    runs: tuple[Run, ...]
    rules: dict[str, Rule]
    tips: dict[int, Tip]
    attempts: dict[tuple[int, str], tuple[Attempt, ...]]

    @property
    def seeds(self) -> tuple[Tip, ...]:
        """Tips that are older than the first run, by id."""
        learnt = {tip for rows in self.attempts.values() for row in rows for tip in row.learns}
        return tuple(self.tips[key] for key in sorted(self.tips) if key not in learnt)


def load_story(folder: Path = HERE) -> Story:
    """Read ``harbor_*.toml`` from *folder*.

    Raises:
        StoryError: a row names an unknown rule, tip, result or event, or an id stands twice.
    """
    job = _read(folder / "harbor_runs.toml")
    rules: dict[str, Rule] = {}
    tips: dict[int, Tip] = {}
    attempts: dict[tuple[int, str], tuple[Attempt, ...]] = {}
    for path in sorted(folder.glob("harbor_*.toml")):
        chapter = _read(path)
        category = chapter.get("category", "")
        for row in chapter.get("rules", ()):
            _once(path, rules, row["id"])
            rules[row["id"]] = Rule(category=category, **row)
        for row in chapter.get("tips", ()):
            _once(path, tips, row["id"])
            tips[row["id"]] = Tip(category=category, **row)
        for row in chapter.get("attempts", ()):
            key = (row["run"], row["rule"])
            before = attempts.get(key, ())
            attempts[key] = (*before, _attempt(path, row, number=len(before) + 1))
    runs = tuple(Run(**{**row, "order": tuple(row["order"])}) for row in job.pop("runs"))
    story = Story(job=job, runs=runs, rules=rules, tips=tips, attempts=attempts)
    _check_ids(story)
    return story


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        return tomllib.load(stream)


def _once(path: Path, known: dict[Any, Any], key: object) -> None:
    if key in known:
        raise StoryError(f"{path.name}: {key!r} stands twice; give the second one its own id")


def _attempt(path: Path, row: dict[str, Any], *, number: int) -> Attempt:
    where = f"{path.name}: {row['rule']} run {row['run']} #{number}"
    result, event = row["result"], row.get("event", "")
    if result not in RESULTS or event not in EVENTS:
        raise StoryError(f"{where}: unknown result {result!r} or event {event!r}; see story.py")
    script = row.get("script")
    if (script is None) != (event == "no_script"):
        raise StoryError(f"{where}: an attempt has a script unless its event is no_script")
    return Attempt(
        run=row["run"],
        rule=row["rule"],
        number=number,
        says=row["says"],
        result=result,
        script=script,
        lesson=row.get("lesson", ""),
        event=event,
        output=row.get("output", ""),
        follows=frozenset(row.get("follows", ())),
        violates=frozenset(row.get("violates", ())),
        unclear=frozenset(row.get("unclear", ())),
        learns=tuple(row.get("learns", ())),
    )


def _check_ids(story: Story) -> None:
    for tip in story.tips.values():
        if tip.rule not in story.rules:
            raise StoryError(f"tip {tip.id}: unknown rule {tip.rule!r}")
    for (number, rule), rows in story.attempts.items():
        named = {tip for row in rows for tip in (*row.follows, *row.violates, *row.unclear)}
        named |= {tip for row in rows for tip in row.learns}
        if rule not in story.rules:
            raise StoryError(f"run {number}: attempts at the unknown rule {rule!r}")
        if unknown := named - story.tips.keys():
            raise StoryError(f"run {number}, {rule}: unknown tips {sorted(unknown)}")
    for run in story.runs:
        attempted = {rule for number, rule in story.attempts if number == run.number}
        if attempted != {*run.order}:
            odd = sorted(attempted ^ {*run.order})
            raise StoryError(f"{run.id}: rules {odd} are ordered or attempted, but not both")
