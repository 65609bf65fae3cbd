"""Generates snapshots and true memos about them.

The renderings here are written by hand from the definition of rounding, and the product's own are added
to them, so that the gate is held against a second opinion.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING

from scoring.memos.facts import Fact, Snapshot, derived, fact
from scoring.memos.facts_formula import Formula
from scoring.memos.render import renderings
from scoring.memos.render_words import spelled
from scoring.memos.units import Measure

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

NOUNS = (
    "tips",
    "retrievals",
    "attempts",
    "failures",
    "scripts",
    "rules",
    "reviews",
    "sweeps",
    "judgements",
)
KINDS = (
    "failed",
    "followed",
    "ignored",
    "retired",
    "disputed",
    "early",
    "late",
    "repeated",
    "truncated",
)
NAMES = ("tip 1", "tip 17", "RHEL-09-411010", "run-7", "accounts_umask", "v2.4", "FY2024")
TAILS = ("", " in the run", " per category", " since the last sweep", " among the top five")
UNITS = (
    "count", "count", "percent", "percent", "points", "score", "ratio", "seconds", "tokens", "USD", "EUR",
    "USD/share", "rank",
)  # fmt: skip
MEANS = {"percent": "share of ", "score": "credit of ", "ratio": "ratio for ", "seconds": "time on ",
         "tokens": "size of ", "USD": "cost of ", "EUR": "price of ", "USD/share": "earnings on ",
         "points": "shift in ", "rank": "rank of "}  # fmt: skip


@dataclass(frozen=True)
class Clause:
    """One statement of a memo: ``before``, the figure, ``between``, its citation, ``after``."""

    item: Fact
    label: str
    figure: str
    ref: str
    form: Callable[[str, str, str], str]

    @property
    def text(self) -> str:
        return self.form(self.label, self.figure, self.ref)


def _decimal(rng: Random, low: int, high: int, places: int) -> Decimal:
    return Decimal(rng.randint(low * 10**places, high * 10**places)).scaleb(-places)


def value_for(rng: Random, unit: str) -> Decimal:
    places = rng.choice((0, 1, 2, 3, 5))
    match unit:
        case "count" | "tokens":
            return Decimal(
                rng.choice((rng.randint(0, 30), rng.randint(0, 5000), rng.randint(0, 10**9)))
            )
        case "rank":
            return Decimal(rng.randint(1, 130))
        case "percent":
            return _decimal(rng, 0, 100, places)
        case "points":
            return _decimal(rng, -60, 60, places)
        case "score":
            return _decimal(rng, -1, 1, 4)
        case "ratio":
            return _decimal(rng, 0, 40, max(2, places))
        case "seconds":
            return _decimal(rng, 0, rng.choice((90, 90_000, 900_000)), rng.choice((0, 0, 1, 3)))
        case _:
            size = rng.choice((10, 10**4, 10**7, 10**10, 10**12))
            return _decimal(rng, -size, size, rng.choice((0, 2)))


def snapshot(rng: Random) -> Snapshot:
    """Two to seven facts, some derived, some with a subject; labels that share words."""
    found: dict[str, Fact] = {}
    wanted = rng.randint(2, 6)
    while len(found) < wanted:
        unit = rng.choice(UNITS)
        label = MEANS.get(unit, "") + " ".join(
            [rng.choice(KINDS), rng.choice(NOUNS)][rng.randint(0, 1) :]
        )
        label += rng.choice((*TAILS, f" of `{rng.choice(NAMES)}`"))
        item = fact(label, unit, value_for(rng, unit), material=rng.random() < 0.3)
        found.setdefault(item.id, item)
    items = list(found.values())
    for one in items[:]:
        for two in items[:]:
            if one.unit == two.unit == "percent" and one is not two and rng.random() < 0.5:
                label = f"step between {one.label} and {two.label}"
                made = derived(label, "points", Formula.DIFFERENCE, [one, two])
                items.append(made)
                return Snapshot("run", "run-7", None, tuple(items))
    if rng.random() < 0.4:
        items += twice(rng).facts
    return Snapshot("run", "run-7", None, tuple(items))


@dataclass(frozen=True)
class Twice:
    """Things of one kind in the run (`run-7`) and in the one before (`run-6`), and what changed."""

    noun: str
    kind: str
    wholes: tuple[Fact, Fact]
    parts: tuple[Fact, Fact]
    shares: tuple[Fact, Fact]
    steps: tuple[Fact, Fact]
    """Of the share, in points, and of the count."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        return (*self.wholes, *self.parts, *self.shares, *self.steps)


def twice(rng: Random) -> Twice:
    noun = rng.choice(NOUNS)
    kind = rng.choice([kind for kind in KINDS if noun != "failures" or kind != "failed"])
    wholes, parts, shares = [], [], []
    for name in ("run-7", "run-6"):
        whole = rng.randint(2, 60)
        part = rng.choice((0, whole, rng.randint(0, whole), rng.randint(0, whole)))
        wholes.append(fact(f"{noun} in `{name}`", "count", whole))
        parts.append(fact(f"{kind} {noun} in `{name}`", "count", part))
        label = f"share of {noun} {kind} in `{name}`"
        shares.append(derived(label, "percent", Formula.PERCENT_OF, [parts[-1], wholes[-1]]))
    moved = f"change in the share of {noun} {kind}"
    return Twice(
        noun, kind, (wholes[0], wholes[1]), (parts[0], parts[1]), (shares[0], shares[1]),
        (derived(moved, "points", Formula.DIFFERENCE, shares),
         derived(f"change in {kind} {noun}", "count", Formula.DIFFERENCE, parts)),
    )  # fmt: skip


# -- true renderings, from the definition of rounding ------------------------------------------------


def true_figures(item: Fact) -> list[str]:
    number = item.number
    assert number is not None
    size, minus = abs(number), "-" if number < 0 else ""
    match item.measure:
        case Measure.COUNT:
            found = [f"{number:,f}", f"{number:f}", *_large(size, minus)]
            found += [spelled(int(number))] if 0 <= number < 100_000 else []
        case Measure.TOKENS:
            found = [
                f"{number:,f} tokens",
                f"{number:f}",
                *[f"{t} tokens" for t in _large(size, minus)],
            ]
        case Measure.RANK:
            found = [f"{number:f}"]
        case Measure.PERCENT:
            found = [
                f"{text}{end}"
                for text in _rounded(number, Measure.PERCENT)
                for end in ("%", " percent")
            ]
        case Measure.POINTS:
            texts = _rounded(number, Measure.POINTS)
            found = [
                f"{text}{end}"
                for text in texts
                for end in (" percentage points", " pp", "-point shift")
            ]
            found += [text.replace("-", "\u2212") + " percentage points" for text in texts]
        case Measure.SCORE:
            found = _rounded(number, Measure.SCORE)
        case Measure.RATIO:
            found = [text + end for text in _rounded(number, Measure.RATIO) for end in ("", "x")]
        case Measure.SECONDS:
            found = [f"{number:f} seconds", f"{number:f} s", f"{number:f}s"]
            found += (
                [f"{number / 60:f} minutes"] if number % 6 == 0 and number == int(number) else []
            )
        case _:
            sign = {"USD": "$", "EUR": "\u20ac"}[item.unit_.currency]
            texts = [f"{size:,f}", f"{size:f}", *_large(size, "")]
            found = [f"{minus}{sign}{text}" for text in texts]
            found += [f"{minus}{text} {item.unit_.currency}" for text in texts]
            found += [f"({sign}{text})" for text in texts if minus]
    return list(dict.fromkeys([*found, *renderings(item)]))


def _rounded(number: Decimal, measure: Measure) -> list[str]:
    """Roundings to 1 to 3 places that keep two digits at least, and the exact value."""
    found = [f"{number:f}"]
    whole = {Measure.PERCENT: 100, Measure.RATIO: 1, Measure.SCORE: 1}.get(measure)
    for places in (0, 1, 2, 3):
        near = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
        clear = near != 0 and abs(near) != whole and near.adjusted() + places >= 1
        if near == number or (
            clear and (near.adjusted() + places >= 2 or measure is Measure.PERCENT)
        ):
            found.append(f"{near:f}")
    return found


def _large(size: Decimal, minus: str) -> list[str]:
    found = []
    for power, words in (
        (3, (" thousand", "k")),
        (6, (" million", "M")),
        (9, (" billion", "B", "bn")),
    ):
        if size >= 10**power:
            near = (size / 10**power).quantize(Decimal("0.1"), ROUND_HALF_EVEN)
            found += [f"{minus}{near:f}{word}" for word in words if near >= 2]
    return found


# -- true memos ---------------------------------------------------------------------------------------

FORMS: tuple[Callable[[str, str, str], str], ...] = (
    lambda label, figure, ref: f"The {label} came to {figure} {ref}.",
    lambda label, figure, ref: f"- {label}: {figure} {ref}",
    lambda label, figure, ref: f"Acme Inc. put the {label} at {figure} {ref}, vs. what was planned.",
    lambda label, figure, ref: f"The {label} was {figure}. {ref}",
    lambda label, figure, ref: f"The {label} was {figure}\n{ref}.",
    lambda label, figure, ref: f"| {label} | {figure} {ref} |",
    lambda label, figure, ref: f"As {ref} has it, the {label} was {figure}.",
    lambda label, figure, ref: f"At {figure} {ref}, the {label} stands out.",
    lambda label, figure, ref: f"Seen by itself, the {label} (**{figure}** {ref}) is plain.",
    lambda label, figure, ref: (
        f"The {label}, as measured, was {figure} {ref}."
        if "`" in label
        else f"## {label}\n\nIt was {figure} {ref}, e.g. in `run-7`."
    ),
)  # fmt: skip


def memo(rng: Random, given: Snapshot) -> list[Clause]:
    """One clause for each of one to five facts."""
    items = rng.sample(list(given.facts), rng.randint(1, min(5, len(given.facts))))
    return [clause(rng, given, item) for item in items]


def clause(rng: Random, given: Snapshot, item: Fact) -> Clause:
    ref = f"[{given.citations[item.id]}]"
    return Clause(item, item.label, rng.choice(true_figures(item)), ref, rng.choice(FORMS))


def text_of(clauses: list[Clause]) -> str:
    return "\n\n".join(one.text for one in clauses)


def true_direction(rng: Random, given: Snapshot) -> str | None:
    """A sentence about a change or about two levels that says the right direction."""
    changes = [item for item in given.facts if item.measure is Measure.POINTS and item.number]
    if changes and rng.random() < 0.6:
        item = rng.choice(changes)
        assert item.number is not None
        verb = rng.choice(
            ("rose", "grew", "increased") if item.number > 0 else ("fell", "dropped", "declined")
        )
        size = f"{abs(item.number):f} percentage points"
        return f"The {item.label} {verb} by {size} [{given.citations[item.id]}]."
    levels = [
        item
        for item in given.facts
        if item.unit in {"percent", "count"} and "`" not in item.label and item.formula is None
    ]
    for one in levels:
        for two in levels:
            if (
                one.unit == two.unit
                and one.number is not None
                and two.number is not None
                and one.number < two.number
            ):
                first, second = renderings(one)[0], renderings(two)[0]
                return (
                    f"The {two.label}, {second} [{given.citations[two.id]}], was higher than"
                    f" the {one.label}, {first} [{given.citations[one.id]}]."
                )
    return None


def true_of_twice(rng: Random, both: Twice, given: Snapshot) -> str:
    """A sentence about two runs in words that are nobody's label: the forms that people write."""
    noun, kind = both.noun, both.kind

    def ref(item: Fact) -> str:
        return f"[{given.citations[item.id]}]"

    step, count = both.steps
    whole, part, share = both.wholes[0], both.parts[0], both.shares[0]
    forms = [
        f"Of {whole.value} {noun} in `run-7` {ref(whole)}, {part.value} {ref(part)} were {kind}."
    ]
    if step.number:
        rose = step.number > 0
        verb = rng.choice(("rose", "grew", "climbed") if rose else ("fell", "shrank", "dropped"))
        size = renderings(step)[0].removeprefix("-")
        forms += [
            f"Since `run-6`, the share of {noun} {kind} {verb} by {size} {ref(step)}.",
            f"The share of {noun} {kind} in `run-7` {verb} by {size} {ref(step)}.",
            f"The share of {noun} {kind} {verb} by {size} {ref(step)} since `run-6`.",
            f"The share of {noun} {kind} went {'up' if rose else 'down'} {ref(step)}.",
            f"The share of {noun} {kind} is {'higher' if rose else 'lower'} {ref(step)}.",
        ]
    else:
        forms.append(f"The share of {noun} {kind} is unchanged {ref(step)}.")
    if count.number:
        rose, size = count.number > 0, abs(count.number)
        verb = "rose" if rose else "fell"
        forms += [
            f"From `run-6` to `run-7`, {kind} {noun} {verb} by {size} {ref(count)}.",
            f"There were {size} {'more' if rose else 'fewer'} {kind} {noun} in `run-7` {ref(count)}"
            " than in `run-6`.",
        ]
    if part.number == 0:
        forms += [
            f"Nothing was {kind} in `run-7` {ref(part)}.",
            f"None were {kind} {noun} in `run-7` {ref(part)}.",
        ]
    elif part.number == whole.number:
        forms += [
            f"Everything was {kind} in `run-7` {ref(share)}.",
            f"All of the {noun} in `run-7` were {kind} {ref(share)}.",
        ]
    else:
        forms += [
            f"{renderings(share)[0]} of {noun} in `run-7` {ref(share)} were {kind}.",
            f"{renderings(share)[0]} of the {noun} were {kind} in `run-7` {ref(share)}.",
        ]
    return rng.choice(forms)
