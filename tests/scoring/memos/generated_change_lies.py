"""Lies in the words that people write: about a change, a share, nothing and everything.

Each has the form of a true sentence of `generated.true_of_twice`, with one thing turned false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scoring.memos.render import renderings
from tests.scoring.memos.generated import KINDS, Twice

if TYPE_CHECKING:
    from random import Random

    from scoring.memos.facts import Fact, Snapshot

NOTHING = ("Nothing was", "Nobody was", "None of it was", "No one was", "Neither was", "It was never",
           "Almost nothing was", "On no occasion was it")  # fmt: skip
EVERYTHING = ("Everything was", "All of it was", "It was always", "Everyone was", "All were",
              "It was fully", "Every time it was", "It was invariably")  # fmt: skip
PARTLY = ("Most were", "Few were", "Many were", "Most of it was", "Hardly any were", "It was mostly",
          "It was rarely", "Several were")  # fmt: skip
UP = ("is up", "went up", "is higher", "rose", "grew", "moved upward", "is better", "soars")
DOWN = ("is down", "went down", "is lower", "fell", "shrank", "moved downward", "is worse", "wanes")
STILL = ("is unchanged", "is flat", "held steady", "stayed the same", "remained stable")


def _ref(given: Snapshot, item: Fact) -> str:
    return f"[{given.citations[item.id]}]"


def wrong_way(rng: Random, given: Snapshot, both: Twice) -> str | None:
    """A change the other way, with its size or without, or none where there is one."""
    step = both.steps[0]
    if not step.number:
        said = rng.choice(UP + DOWN)
    else:
        size = renderings(step)[0].removeprefix("-")
        away = ("fell", "shrank", "declined") if step.number > 0 else ("rose", "grew", "climbed")
        sized = tuple(f"{verb} by {size}" for verb in away)
        said = rng.choice((DOWN if step.number > 0 else UP) + STILL + sized)
    lead = rng.choice(("The", "Since `run-6`, the"))
    return f"{lead} share of {both.noun} {both.kind} {said} {_ref(given, step)}."


def wrong_end(rng: Random, given: Snapshot, both: Twice) -> str | None:
    """A change that is said of the run it starts from, or since the one it ends at."""
    step, count = both.steps
    if not step.number or not count.number:
        return None
    rose, more = step.number > 0, count.number > 0
    verb, size = ("rose" if rose else "fell"), renderings(step)[0].removeprefix("-")
    share, things = f"share of {both.noun} {both.kind}", f"{both.kind} {both.noun}"
    moved = f"{'rose' if more else 'fell'} by {abs(count.number)} {_ref(given, count)}"
    return rng.choice(
        (
            f"Since `run-7`, the {share} {verb} by {size} {_ref(given, step)}.",
            f"The {share} in `run-6` {verb} by {size} {_ref(given, step)}.",
            f"The {share} {verb} by {size} {_ref(given, step)} since `run-7`.",
            f"From `run-7` to `run-6`, {things} {moved}.",
            f"There were {abs(count.number)} {'more' if more else 'fewer'} {things} in `run-6`"
            f" {_ref(given, count)} than in `run-7`.",
        )
    )


def as_level(rng: Random, given: Snapshot, both: Twice) -> str | None:
    """A change that is stated as if it were the count itself."""
    count = both.steps[1]
    if not count.number or count.number == both.parts[0].number:
        return None
    size, ref = count.number, _ref(given, count)
    return rng.choice(
        (
            f"There were {size} {both.kind} {both.noun} in `run-7` {ref}.",
            f"There were {size} {both.kind} {both.noun} {ref}.",
            f"The {both.kind} {both.noun} in `run-7` came to {size} {ref}.",
            f"The {both.kind} {both.noun} {'rose' if size > 0 else 'fell'} to {abs(size)} {ref}.",
        )
    )


def other_kind(rng: Random, given: Snapshot, both: Twice) -> str | None:
    """A part, or a share, of another kind than the fact's."""
    other = rng.choice([kind for kind in KINDS if kind != both.kind])
    whole, part, share = both.wholes[0], both.parts[0], both.shares[0]
    return rng.choice(
        (
            f"Of {whole.value} {both.noun} in `run-7` {_ref(given, whole)}, {part.value}"
            f" {_ref(given, part)} were {other}.",
            f"{renderings(share)[0]} of {both.noun} in `run-7` {_ref(given, share)} were {other}.",
        )
    )


def in_words(rng: Random, given: Snapshot, both: Twice) -> str | None:
    """Nothing, everything or most, beside a fact that says otherwise."""
    part, share = both.parts[0], both.shares[0]
    wanted = rng.choice(
        [(PARTLY, share), (PARTLY, part), (EVERYTHING, part)]
        + [(NOTHING, part)] * bool(part.number)
        + [(EVERYTHING, share)] * (share.number != 100)
    )
    words, item = wanted
    where = rng.choice(("", " in `run-7`"))
    return f"{rng.choice(words)} {both.kind}{where} {_ref(given, item)}."


CHANGE_LIES = {
    "the other way": wrong_way, "the other end": wrong_end, "a change as a level": as_level,
    "another kind": other_kind, "nothing or everything": in_words,
}  # fmt: skip
