"""Whether one figure is one fact's value.

Guarantees: a figure fits a fact only if its unit is the fact's, and its number is the value itself or
a right rounding of it at the place it is written to, within the tolerance of the unit. Nothing that is
not zero may be called zero, and nothing but all of it "100%" or "every". A bound ("more than 70%")
must be true and near. No word loosens more than that. It looks at one figure and one fact only;
direction and names are read by `scoring.memos.gate_direction` and `scoring.memos.gate_claims`.

Source: issue 5; the original allowed two percent or 0.05 of anything (hole 4).
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from scoring.memos.figures_quantifiers import stem
from scoring.memos.figures_units import Bound, Shape
from scoring.memos.gate_report import FindingKind
from scoring.memos.units import Measure, Unit

if TYPE_CHECKING:
    from scoring.memos.facts import Fact
    from scoring.memos.figures_model import Figure

ACCEPTED: Final = {
    Measure.COUNT: {Shape.PLAIN, Shape.NONE},
    Measure.RANK: {Shape.PLAIN, Shape.ORDINAL},
    Measure.PERCENT: {Shape.PERCENT, Shape.SHARE, Shape.NONE, Shape.ALL},
    Measure.POINTS: {Shape.POINTS, Shape.NONE},
    Measure.SCORE: {Shape.PLAIN, Shape.NONE},
    Measure.RATIO: {Shape.PLAIN, Shape.MULTIPLE, Shape.SHARE, Shape.NONE, Shape.ALL},
    Measure.SECONDS: {Shape.TIME, Shape.NONE},
    Measure.TOKENS: {Shape.TOKENS, Shape.PLAIN, Shape.NONE},
    Measure.MONEY: {Shape.MONEY, Shape.NONE},
    Measure.DATE: {Shape.DATE},
    Measure.YEAR: {Shape.PLAIN},
    Measure.NAME: set(),
}
_BOUNDED_BY_ONE: Final = {Measure.PERCENT: 100, Measure.RATIO: 1, Measure.SCORE: 1}
_FLIPPED: Final = {
    Bound.ABOVE: Bound.BELOW, Bound.BELOW: Bound.ABOVE,
    Bound.AT_LEAST: Bound.AT_MOST, Bound.AT_MOST: Bound.AT_LEAST,
}  # fmt: skip
SCALES: Final = tuple(power for power in range(-12, 13) if power)


def misfit(figure: Figure, item: Fact, *, falling: bool = False) -> FindingKind | None:
    """Return what is wrong with ``figure`` as the value of ``item``, or None.

    ``falling``: the text says a loss or a fall, so that a magnitude may stand for a negative value.
    """
    shape, value = figure.shape, figure.value
    if _is_counted(figure, item):
        shape, value = Shape.PLAIN, figure.written
    unit_fault = _unit_fault(figure, item, shape)
    if unit_fault is not None:
        return unit_fault
    if item.value is None:
        return FindingKind.UNKNOWN_VALUE
    if shape is Shape.DATE:
        return None if figure.day == item.value else FindingKind.WRONG_VALUE
    number = item.number
    if number is None:
        return FindingKind.WRONG_UNIT
    return _number_fault(figure, shape, value, number, item.unit_, falling=falling)


def _is_counted(figure: Figure, item: Fact) -> bool:
    """Whether the unit after the figure is what the fact counts: 35 days of a count of days."""
    if item.measure not in {Measure.COUNT, Measure.SCORE, Measure.RANK} or not figure.unit_word:
        return False
    words = {stem(word) for word in item.label.casefold().split()}
    loose = figure.shape in {Shape.TIME, Shape.TOKENS, Shape.OTHER}
    points = figure.shape is Shape.POINTS and figure.unit_word == "point"
    points = points and figure.stop - figure.first == 2
    return (loose and figure.unit_word in words) or (
        points and (item.measure is Measure.SCORE or "point" in words)
    )


def _unit_fault(figure: Figure, item: Fact, shape: Shape) -> FindingKind | None:
    measure = item.measure
    if shape not in ACCEPTED[measure]:
        pair = {Measure.PERCENT: Shape.POINTS, Measure.POINTS: Shape.PERCENT}
        wrong_kind = pair.get(measure) is shape
        return FindingKind.PERCENT_FOR_POINTS if wrong_kind else FindingKind.WRONG_UNIT
    unit = item.unit_
    other_money = figure.currency != unit.currency or (figure.per_share and not unit.per_share)
    loose_time = shape is Shape.TIME and not figure.value and bool(figure.written)
    no_year = measure is Measure.YEAR and (figure.grouped or figure.scaled or figure.spelled)
    other_money = other_money and shape is not Shape.NONE
    if (measure is Measure.MONEY and other_money) or loose_time or no_year:
        return FindingKind.WRONG_UNIT
    return None


def _number_fault(
    figure: Figure, shape: Shape, written: Decimal, value: Decimal, unit: Unit, *, falling: bool
) -> FindingKind | None:
    factor = Decimal(1)
    if shape in {Shape.SHARE, Shape.ALL} and unit.measure is Measure.PERCENT:
        factor = Decimal(100)
    unscaled = (
        figure.written / figure.value if written != figure.value and figure.value else Decimal(1)
    )
    step, rough = figure.step * factor * unscaled, figure.rough * factor * unscaled
    if figure.sign == "-" and shape is Shape.ORDINAL:
        return FindingKind.WRONG_SIGN
    if shape in {Shape.NONE, Shape.ALL, Shape.ORDINAL}:
        if written * factor != value:
            return FindingKind.WRONG_VALUE
        plain = shape is Shape.ORDINAL or figure.bound in {Bound.ROUNDED, Bound.EXACT}
        return None if plain else FindingKind.WRONG_BOUND  # "almost nothing" is not nothing
    number = written * factor
    if figure.sign == "-" or (falling and not figure.sign and value < 0):
        number = -number

    def fits(candidate: Decimal, place: Decimal, bound: Bound) -> bool:
        minus = figure.sign == "-"
        return is_rendering(candidate, place, max(place, rough), bound, value, unit, minus=minus)

    if fits(number, step, figure.bound):
        return None
    if fits(-number, step, figure.bound):
        return FindingKind.WRONG_SIGN
    if figure.bound is not Bound.ROUNDED and fits(number, step, Bound.ROUNDED):
        return FindingKind.WRONG_BOUND
    for power in SCALES:
        moved = number.scaleb(power)
        if moved and fits(moved, step.scaleb(power), Bound.ROUNDED):
            return FindingKind.WRONG_SCALE
    return FindingKind.WRONG_VALUE


def is_rendering(
    number: Decimal, step: Decimal, rough: Decimal, bound: Bound, value: Decimal, unit: Unit,
    *, minus: bool = False,
) -> bool:  # fmt: skip
    """Whether ``number``, written to the place ``step``, may be said of ``value``.

    ``rough`` is the place without trailing zeros, which hedges and bounds go by. ``minus``: the minus
    sign is written, so that "more than" means nearer to zero.
    """
    if number == value:
        return bound not in {Bound.ABOVE, Bound.BELOW}
    whole = _BOUNDED_BY_ONE.get(unit.measure)
    if bound is Bound.EXACT or number == 0 or value == 0 or (number < 0) != (value < 0):
        return False
    if whole is not None and abs(number) == whole:
        return False
    size, real = abs(number), abs(value)
    if abs(size - real) > unit.tolerance * real:
        return False
    if minus:
        bound = _FLIPPED.get(bound, bound)
    match bound:
        case Bound.ABOVE | Bound.AT_LEAST:
            return 0 < real - size < rough
        case Bound.BELOW | Bound.AT_MOST:
            return 0 < size - real < rough
        case Bound.ABOUT:
            return abs(size - real) * 2 <= rough
        case _:
            return abs(size - real) * 2 <= step
