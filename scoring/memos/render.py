"""The true ways to write a fact's value.

Guarantees: every rendering is one that the gate accepts for this fact, with the fact's citation after
it; `rendered` is the main one. Rounded renderings are left out where they would mislead (0.4% is never
"0%"). A fact whose value is not known has none. Every value that a fact may have is rendered, whatever
the number of its digits. Pure; no locale: a point for decimals, commas between
thousands.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_units import Bound
from scoring.memos.gate_match import is_rendering
from scoring.memos.render_words import LIMIT, SCALES, spelled
from scoring.memos.units import EXACT_DIGITS, Measure, Unit

if TYPE_CHECKING:
    from scoring.memos.facts import Fact

SIGNS: Final = {"USD": "$", "EUR": "\u20ac", "GBP": "\u00a3"}
TIMES: Final = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
MAX_PLACES: Final = 12
SPELL_TO: Final = 1000


def rendered(item: Fact) -> str:
    """Return the value of ``item`` as a memo should write it, "" if it is not known."""
    return next(iter(renderings(item)), "")


def renderings(item: Fact) -> tuple[str, ...]:
    """Return the ways to write the value of ``item``, the main one first, each once."""
    with localcontext(prec=EXACT_DIGITS):
        return _renderings(item)


def _renderings(item: Fact) -> tuple[str, ...]:
    number = item.number
    if item.value is None:
        return ()
    if number is None:
        return _dates(item) if item.measure is Measure.DATE else (f"`{item.value}`",)
    match item.measure:
        case Measure.COUNT | Measure.TOKENS:
            found = _counts(number, item.unit_)
        case Measure.RANK:
            found = [f"{number:f}", _ordinal(int(number))]
        case Measure.YEAR:
            found = [f"{number:f}"]
        case Measure.PERCENT:
            found = _with_unit(number, item.unit_, ("%", " percent"))
        case Measure.POINTS:
            found = _with_unit(number, item.unit_, (" percentage points", " pp"))
            found += [f"{_plain(number * 100)} basis points"]
        case Measure.SCORE | Measure.RATIO:
            found = _decimals(number, item.unit_)
            found += [text + "x" for text in found] if item.measure is Measure.RATIO else []
        case Measure.SECONDS:
            found = _times(number, item.unit_)
        case _:
            found = _money(number, item.unit_)
    return tuple(dict.fromkeys(text for text in found if text))


def _plain(number: Decimal, *, commas: bool = False) -> str:
    shown = f"{number:,f}" if commas else f"{number:f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _dates(item: Fact) -> tuple[str, ...]:
    from datetime import date

    day = item.value
    if not isinstance(day, date):
        return ()
    return (
        day.isoformat(),
        f"{day.day} {day:%B} {day.year:04}",
        f"{day:%B} {day.day}, {day.year:04}",
    )


def _ordinal(number: int) -> str:
    ending = (
        "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number}{ending}"


def _exponent(number: Decimal) -> int:
    exponent = number.normalize().as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _decimals(number: Decimal, unit: Unit) -> list[str]:
    """Right roundings from coarse to exact, two decimals first."""
    digits = -_exponent(number)
    found = [_plain(number)] if digits < 2 else []
    for places in (2, 1, 3, 0, *range(4, MAX_PLACES)):
        place = Decimal(1).scaleb(-places)
        near = number.quantize(place, ROUND_HALF_UP)
        if is_rendering(near, place, place, Bound.ROUNDED, number, unit):
            found.append(f"{near:,f}" if near >= 1000 else f"{near:f}")
            if near == number and places > 1:
                break
    return found or [_plain(number)]


def _with_unit(number: Decimal, unit: Unit, endings: tuple[str, ...]) -> list[str]:
    shown = _decimals(number, unit)
    first = [text for text in shown if len(text.partition(".")[2]) == 1] or shown
    found = [text + ending for text in dict.fromkeys(first + shown) for ending in endings]
    if number == number.to_integral_value() and 0 <= number < SPELL_TO:
        found += [
            f"{spelled(int(number))} {endings[-1].strip().replace('pp', 'percentage points')}"
        ]
    return found


def _scaled(number: Decimal, unit: Unit) -> list[str]:
    """Figures of three digits in thousands and more: 48.2 thousand, 1.23 billion."""
    found = []
    for word, size in SCALES.items():
        if size <= abs(number) < size * 1000:
            for places in (1, 2):
                place = Decimal(1).scaleb(-places)
                near = (number / size).quantize(place, ROUND_HALF_UP)
                if is_rendering(
                    near * size, place * size, place * size, Bound.ROUNDED, number, unit
                ):
                    found.append(f"{near:f} {word}")
    return found


def _counts(number: Decimal, unit: Unit) -> list[str]:
    ending = " tokens" if unit.measure is Measure.TOKENS else ""
    whole = number.to_integral_value()
    found = [f"{whole:,f}", f"{whole:f}", *_scaled(number, unit)]
    if 0 <= number < min(LIMIT, SPELL_TO):
        found.append(spelled(int(number)))
    return [text + ending for text in found]


def _times(number: Decimal, unit: Unit) -> list[str]:
    seconds = [f"{text} seconds" for text in _decimals(number, unit)]
    if number == number.to_integral_value():
        seconds.insert(0, f"{_plain(number, commas=True)} seconds")
    for word, size in TIMES:
        if abs(number) >= size > 1:
            for places in (0, 1):
                place = Decimal(1).scaleb(-places)
                near = (number / size).quantize(place, ROUND_HALF_UP)
                if is_rendering(
                    near * size, place * size, place * size, Bound.ROUNDED, number, unit
                ):
                    seconds.append(f"{near:f} {word}")
    return seconds


def _money(number: Decimal, unit: Unit) -> list[str]:
    minus, size = ("-" if number < 0 else ""), abs(number)
    texts = _scaled(size, unit)
    if size < 1_000_000 or not texts:
        cents = size.quantize(Decimal("0.01"), ROUND_HALF_UP) if size >= 1 else size
        exact = size == size.to_integral_value()
        right = is_rendering(cents, Decimal("0.01"), Decimal("0.01"), Bound.ROUNDED, size, unit)
        main = (
            f"{size.to_integral_value():,f}" if exact else f"{cents:,f}" if right else _plain(size)
        )
        texts = [main, _plain(size, commas=True), *texts]
    else:
        texts.append(_plain(size, commas=True))
    found = []
    for text in texts:
        sign = SIGNS.get(unit.currency)
        found += [f"{minus}{sign}{text}"] if sign else []
        found.append(f"{minus}{text} {unit.currency}")
    if minus and unit.currency in SIGNS:
        found.append(f"({SIGNS[unit.currency]}{texts[0]})")
    return found
