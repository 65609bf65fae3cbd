"""Lies, made of true memos: each is false by construction.

A written digit is moved by two of its last place, a unit is another one, a citation is another fact's,
a sentence states what nothing sources. Where a change can come out true it is not made (None).
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from scoring.memos.render import renderings
from scoring.memos.render_words import spelled
from scoring.memos.units import Measure
from tests.scoring.memos.generated import Clause, true_figures

if TYPE_CHECKING:
    from random import Random

    from scoring.memos.facts import Fact, Snapshot


def _moved_digits(rng: Random, figure: str) -> str:
    """Move the last written digit by two, with the carry."""
    at = [index for index, char in enumerate(figure) if char.isdigit()]
    digits = "".join(figure[index] for index in at)
    moved = int(digits) + rng.choice((2, 3, 11, 50))
    shown = str(moved).rjust(len(digits), "0")
    if len(shown) > len(digits):
        return ""
    chars = list(figure)
    for index, char in zip(at, shown, strict=True):
        chars[index] = char
    return "".join(chars)


def lie(rng: Random, given: Snapshot, clauses: list[Clause]) -> tuple[str, str] | None:
    """Return the name of a lie and a memo that tells it, or None if this memo cannot tell that one."""
    name = rng.choice(sorted(LIES))
    at = rng.randrange(len(clauses))
    made = LIES[name](rng, given, clauses, at)
    if made is None:
        return None
    if isinstance(made, str):
        others = [one.text for index, one in enumerate(clauses) if index != at]
        others.insert(rng.randint(0, len(others)), made)
        return name, "\n\n".join(others)
    return name, "\n\n".join(one.text for one in made)


def _with(clauses: list[Clause], at: int, **changes: object) -> list[Clause]:
    return [replace(one, **changes) if index == at else one for index, one in enumerate(clauses)]


def _value(rng, given, clauses, at):
    figure = clauses[at].figure
    if not any(char.isdigit() for char in figure):
        return None
    moved = _moved_digits(rng, figure)
    return _with(clauses, at, figure=moved) if moved else None


def _far_value(rng, given, clauses, at):
    item = clauses[at].item
    number = item.number * Decimal(rng.choice(("0.5", "0.8", "1.3", "2", "7"))) + rng.choice(
        (3, 11)
    )
    number = (
        number.to_integral_value()
        if item.measure in {Measure.COUNT, Measure.TOKENS, Measure.RANK}
        else number
    )
    if (
        abs(number - item.number) <= abs(item.number) * Decimal("0.12")
        or abs(number - item.number) < 1
    ):
        return None
    try:
        other = replace(item, value=number, derived_from=(), formula=None)
    except ValueError:
        return None
    return _with(clauses, at, figure=rng.choice(true_figures(other)))


def _swap_refs(rng, given, clauses, at):
    if len(clauses) < 2:
        return None
    to = (at + 1) % len(clauses)
    one, two = clauses[at].ref, clauses[to].ref
    return _with(_with(clauses, at, ref=two), to, ref=one)


def _swap_figures(rng, given, clauses, at):
    if len(clauses) < 2:
        return None
    to = (at + 1) % len(clauses)
    one, two = clauses[at], clauses[to]
    if one.item.unit == two.item.unit and _near(one.item, two.item):
        return None
    return _with(_with(clauses, at, figure=two.figure), to, figure=one.figure)


def _near(one: Fact, two: Fact) -> bool:
    assert one.number is not None and two.number is not None
    return abs(one.number - two.number) <= max(abs(one.number), abs(two.number)) * Decimal("0.25")


def _swap_in_one_sentence(rng, given, clauses, at):
    if len(clauses) < 2:
        return None
    one, two = clauses[at], clauses[(at + 1) % len(clauses)]
    if one.item.unit == two.item.unit and _near(one.item, two.item):
        return None
    return (
        f"The {one.label} came to {two.figure} {one.ref} and"
        f" the {two.label} to {one.figure} {two.ref}."
    )


def _swap_labels(rng, given, clauses, at):
    if len(clauses) < 2:
        return None
    one, two = clauses[at], clauses[(at + 1) % len(clauses)]
    return f"The {two.label} came to {one.figure} {one.ref}."


def _sign(rng, given, clauses, at):
    one = clauses[at]
    if not one.item.number or one.figure.startswith("("):
        return None
    figure = one.figure[1:] if one.figure[0] in "-\u2212" else rng.choice("-\u2212") + one.figure
    if figure[0].isalpha() or figure[1:2].isalpha():
        figure = f"minus {one.figure}"
    return _with(clauses, at, figure=figure)


def _scale(rng, given, clauses, at):
    one = clauses[at]
    if not one.item.number or one.item.measure in {Measure.RANK}:
        return None
    head = "".join(char for char in one.figure if char.isdigit() or char in ".,-")
    tail = one.figure[len(head) :]
    if (
        not one.figure.startswith(head)
        or not head
        or tail.startswith((" thou", " mill", " bill", "k", "M", "B", "b"))
    ):
        return None
    return _with(
        clauses, at, figure=f"{head} {rng.choice(('thousand', 'million', 'hundred'))}{tail}"
    )


def _unit(rng, given, clauses, at):
    one = clauses[at]
    bare = "".join(char for char in one.figure if char.isdigit() or char in ".,")
    if not bare:
        return None
    units = {
        Measure.COUNT: (f"{bare}%", f"${bare}", f"{bare} seconds", f"{bare} pp", f"{bare} hours"),
        Measure.PERCENT: (f"{bare} percentage points", f"{bare} pp", bare, f"{bare} basis points"),
        Measure.POINTS: (f"{bare}%", f"{bare} percent", bare), Measure.SCORE: (f"{bare}%", f"{bare} pp"),
        Measure.RATIO: (f"{bare}%", f"{bare} seconds"), Measure.TOKENS: (f"{bare} seconds", f"{bare}%"),
        Measure.SECONDS: (bare, f"{bare} days", f"{bare} ms"),
        Measure.RANK: (f"{bare}%", f"{bare} tokens"),
        Measure.MONEY: (f"\u00a3{bare}", f"{bare} GBP", bare, f"{bare}%"),
    }  # fmt: skip
    if one.item.measure is Measure.SECONDS and not one.item.number:
        return None
    figure = rng.choice(units[one.item.measure])
    return None if figure in true_figures(one.item) else _with(clauses, at, figure=figure)


def _no_citation(rng, given, clauses, at):
    return [replace(one, ref="") if index == at else one for index, one in enumerate(clauses)]


def _phantom(rng, given, clauses, at):
    return _with(
        clauses, at, ref=rng.choice(("[F99]", "[F0]", "[C1]", "[F1 ]", "(F1)", "[\u0424" + "1]"))
    )


EXTRA = (
    "Another 7 came on top.", "All of that within nine days.", "Some 40% of it is noise.", "It tripled.",
    "A dozen more wait.", "Half of it is noise.", "Hundreds more wait.", "That is $5 well spent.",
    "In 2024 it was different.", "A third of it is noise.", "It took 3-5 days.", "It was twice as bad.",
    "One in five is noise.", "The 3rd is the worst.", "Of that, \uff15 are noise.",
    "About fifty-fifty, then.",
    "It halved.", "Two\u200bthirds is noise.", "Some 9\u00bd remain.", "Twenty one remain.",
    "XIV remain.",
    "Zero remain.", "A couple of them remain.", "It was a hundred percent sure.", "It cost 10k.",
    "&#57; remain.", "Its value is `9000`.", "A tenfold rise is near.", "Seventy-odd remain.",
)  # fmt: skip


def _extra(rng, given, clauses, at):
    return clauses[at].text + rng.choice((" ", "\n\n")) + rng.choice(EXTRA)


def _extra_inside(rng, given, clauses, at):
    one = clauses[at]
    other = rng.choice(("7", "12%", "nine", "$3", "half", "48,212", "3.5", "1e6"))
    return f"The {one.label}, beside {other} before, came to {one.figure} {one.ref}."


def _spelled(rng, given, clauses, at):
    one = clauses[at]
    number = one.item.number
    wrong = rng.randint(0, 99)
    if one.item.measure is not Measure.COUNT or wrong == number:
        return None
    return _with(clauses, at, figure=spelled(wrong))


def _range(rng, given, clauses, at):
    one = clauses[at]
    joint = rng.choice(("-", "\u2013", " to ", " \u2013 "))
    other = rng.choice(("1", "99", "250"))
    sides = [one.figure, other]
    rng.shuffle(sides)
    between = f"between {sides[0]} and {sides[1]}"
    return _with(clauses, at, figure=rng.choice((joint.join(sides), between)))


def _hidden(rng, given, clauses, at):
    one = clauses[at]
    at_digit = [index for index, char in enumerate(one.figure) if char.isdigit()]
    if not at_digit:
        return None
    index = rng.choice(at_digit)
    char = one.figure[index]
    wide = chr(ord("\uff10") + int(char))
    trick = rng.choice(
        (
            wide,
            char + "\u200b",
            char + "\u0336",
            f"&#{ord(char)};",
            f"<b>{char}</b>",
            char + "\u2060",
        )
    )
    return _with(clauses, at, figure=one.figure[:index] + trick + one.figure[index + 1 :])


def _direction(rng, given, clauses, at):
    changes = [item for item in given.facts if item.measure is Measure.POINTS and item.number]
    if not changes:
        item = clauses[at].item
        if item.label.startswith("change in"):
            return None  # of a count: "the change in tips grew by one" says nothing that is not so
        verb = rng.choice(
            ("rose to", "fell to", "is down to", "climbed to", "was cut to", "grew by")
        )
        return f"The {item.label} {verb} {clauses[at].figure} {clauses[at].ref}."
    item = rng.choice(changes)
    ref, size = f"[{given.citations[item.id]}]", f"{abs(item.number):f} percentage points"
    if item.number < 0:
        words = (
            "rose by {}",
            "was {} higher",
            "is up {}",
            "moved by {}",
            "grew {}",
            "gained {}",
            "was up by {}",
        )
    else:
        words = (
            "fell by {}",
            "was {} lower",
            "is down {}",
            "dropped {}",
            "declined by {}",
            "was down by {}",
        )
    return f"It {rng.choice(words).format(f'{size} {ref}')}."


def _comparison(rng, given, clauses, at):
    levels = [
        one for one in given.facts if one.unit in {"percent", "count", "ratio"} and one.number
    ]
    for one in levels:
        for two in levels:
            if (
                one.unit == two.unit
                and one.number < two.number
                and "`" not in one.label + two.label
            ):
                more = rng.choice(
                    ("higher than", "more than", "above", "larger than", "up from", "greater than")
                )
                return (
                    f"The {one.label}, {renderings(one)[0]} [{given.citations[one.id]}], was {more} the"
                    f" {two.label}, {renderings(two)[0]} [{given.citations[two.id]}]."
                )
    return None


def _subject(rng, given, clauses, at):
    named = [item for item in given.facts if "`" in item.label]
    subjects = {item.label.split("`")[1] for item in named}
    for item in named:
        mine = item.label.split("`")[1]
        for other in sorted(subjects - {mine}):
            label = item.label.replace(f"`{mine}`", f"`{other}`")
            return f"The {label} came to {renderings(item)[0]} [{given.citations[item.id]}]."
    return None


def _denied(rng, given, clauses, at):
    one = clauses[at]
    words = rng.choice(("was not", "was never", "wasn't", "was anything but", "was far from"))
    return f"The {one.label} {words} {one.figure} {one.ref}."


def _bounded(rng, given, clauses, at):
    one = clauses[at]
    exact = f"{one.item.number:f}"
    endings = {Measure.COUNT: "", Measure.PERCENT: "%", Measure.SCORE: "", Measure.RATIO: "x"}
    if one.item.measure not in endings or one.item.number < 0:
        return None
    words = rng.choice(
        ("more than", "over", "less than", "under", "nearly", "almost", "fewer than", ">", "<")
    )
    return f"The {one.label} came to {words} {exact}{endings[one.item.measure]} {one.ref}."


def _rate(rng, given, clauses, at):
    one = clauses[at]
    if " per " in one.label:
        return None
    return f"The {one.label} came to {one.figure} per hour {one.ref}."


def _vague(rng, given, clauses, at):
    words = (
        "dozens of them",
        "hundreds of them",
        "the majority of them",
        "thousands",
        "in the seventies",
    )
    return f"{clauses[at].text} It was {rng.choice(words)}."


LIES = {
    "another value by a digit": _value, "another value": _far_value, "citations swapped": _swap_refs,
    "figures swapped": _swap_figures, "swapped in one sentence": _swap_in_one_sentence,
    "another label": _swap_labels, "sign": _sign, "scale": _scale, "unit": _unit,
    "no citation": _no_citation, "phantom citation": _phantom, "an extra sentence": _extra,
    "an extra figure inside": _extra_inside, "spelled": _spelled, "range": _range, "hidden": _hidden,
    "direction": _direction, "comparison": _comparison, "subject": _subject, "denied": _denied,
    "bound": _bounded, "rate": _rate, "vague": _vague,
}  # fmt: skip
