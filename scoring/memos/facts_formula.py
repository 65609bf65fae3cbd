"""How one fact follows from others: five named operations on an ordered list of facts.

Guarantees: nothing is evaluated from text; an operation takes decimals and returns a decimal, or None
when an input is unknown or a divisor is zero (no figure is made up from missing data). It says which
unit a result must have, so that the difference of two percents is never called a percent.
Source: ADR-0006, "computed facts".
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from scoring.memos.units import Measure, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

PRECISION: Final = 50
"""Significant digits of a computed value; far more than any figure shows."""
SHORTENED: Final = Decimal("0.001")
"""Share by which a stored result may miss the exact one, if it is a right rounding of it."""


class Formula(StrEnum):
    """An operation on the facts of ``derived_from``, in their order."""

    SUM = "sum"
    DIFFERENCE = "difference"
    RATIO = "ratio"
    PERCENT_OF = "percent_of"
    PERCENT_CHANGE = "percent_change"

    @property
    def is_change(self) -> bool:
        """Whether the sign of the result says that something rose or fell."""
        return self in {Formula.DIFFERENCE, Formula.PERCENT_CHANGE}


class FormulaError(ValueError):
    """The formula cannot give this fact: operands, unit or value do not fit."""


def compute(formula: Formula, values: Sequence[Decimal | None]) -> Decimal | None:
    """Return the result of ``formula`` on ``values``, or None where it cannot be known.

    ``difference`` is first less second, ``percent_change`` is the change from the second to the first
    in percent of the second's magnitude. Raises FormulaError on a wrong number of operands.
    """
    if len(values) != 2 and not (formula is Formula.SUM and len(values) >= 2):
        raise FormulaError(f"{formula} takes two facts, not {len(values)}")
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return None
    with localcontext() as context:
        context.prec = PRECISION
        if formula is Formula.SUM:
            return sum(known, Decimal(0))
        first, second = known
        if formula is Formula.DIFFERENCE:
            return first - second
        if second == 0:
            return None
        match formula:
            case Formula.RATIO:
                return first / second
            case Formula.PERCENT_OF:
                return first / second * 100
            case _:
                return (first - second) / abs(second) * 100


def check_unit(formula: Formula, result: Unit, inputs: Sequence[Unit]) -> None:
    """Raise FormulaError unless ``formula`` on facts of units ``inputs`` gives a fact of ``result``."""
    no_numbers = {Measure.DATE, Measure.NAME, Measure.YEAR}
    if any(unit.measure in no_numbers for unit in (result, *inputs)):
        raise FormulaError(f"{formula} works on quantities, not on dates, years or names")
    if (
        formula in {Formula.SUM, Formula.DIFFERENCE, Formula.PERCENT_CHANGE}
        and len(set(inputs)) > 1
    ):
        raise FormulaError(f"{formula} needs facts of one unit")
    wanted = _wanted(formula, inputs)
    if wanted and result.measure not in wanted:
        names = " or ".join(sorted(wanted))
        raise FormulaError(f"{formula} of these facts is in {names}, not in {result.code}")
    same_unit = formula in {Formula.SUM, Formula.DIFFERENCE} and result.measure is Measure.MONEY
    if same_unit and result != inputs[0]:
        raise FormulaError(f"{formula} of {inputs[0].code} is not in {result.code}")


def _wanted(formula: Formula, inputs: Sequence[Unit]) -> set[Measure]:
    measure = inputs[0].measure
    match formula:
        case Formula.PERCENT_OF | Formula.PERCENT_CHANGE:
            return {Measure.PERCENT}
        case Formula.DIFFERENCE if measure is Measure.PERCENT:
            return {Measure.POINTS}
        case Formula.DIFFERENCE if measure is Measure.RANK:
            return {Measure.COUNT}
        case Formula.SUM | Formula.DIFFERENCE:
            return {measure}
        case _ if len(set(inputs)) == 1:
            return {Measure.RATIO}
        case _:
            return set()  # a rate: dollars per share, seconds per run


def agrees(stated: Decimal | None, computed: Decimal | None) -> bool:
    """Whether ``stated`` is ``computed``, or a right rounding of it that is close enough."""
    if stated is None or computed is None:
        return stated is computed
    error = abs(stated - computed)
    exponent = stated.as_tuple().exponent
    place = Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)
    return error * 2 <= place and error <= SHORTENED * abs(computed)
