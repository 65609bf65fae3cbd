"""Typed access to the data of one event, where any field may be missing, wrong or hostile.

Guarantees: each getter returns a value that the wire schema accepts, or None / "" / a default, and
reports a wrong value to the caller as a hazard. Absent and null are the same and are no hazard.
``rest`` returns the fields that nobody asked for, so that they are kept.

Does not guarantee: that strings are harmless. They are data from agents.

Shaped by: one odd label (a category of 4 kB, an attempt number as text) costing a whole run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from contextgraph.envelope import storable
from contextgraph.runlogs.hazards import Hazard

if TYPE_CHECKING:
    from collections.abc import Callable

    from contextgraph.envelope import Entry

MAX_WORD = 500
"""Longest label or identifier of the wire schema, in characters."""

MAX_COUNT = 1_000_000
"""Largest attempt number or rank believed; the loop's own ceiling is 100."""


class Fields:
    """The ``data`` of one event; *note* is called with each hazard met."""

    def __init__(self, data: dict[str, Any], note: Callable[[Hazard], None]) -> None:
        self.data = data
        self._note = note
        self._asked: set[str] = set()

    def _get(self, names: tuple[str, ...]) -> Any:
        self._asked.update(names)
        for name in names:
            if (value := self.data.get(name)) is not None:
                return value
        return None

    def _bad(self, value: object) -> None:
        if value is not None:
            self._note(Hazard.BAD_FIELD)

    def key(self, *names: str) -> str:
        """An identifier: text of 1 to 500 characters, or a whole number. "" when unusable."""
        value = self._get(names)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
            return str(value)
        if isinstance(value, str) and 0 < len(value) <= MAX_WORD:
            return storable(value)
        self._bad(value)
        return ""

    def word(self, *names: str) -> str:
        """A label of at most 500 characters; longer ones are cut and noted."""
        text = self.text(*names)
        if len(text) > MAX_WORD:
            self._note(Hazard.BAD_FIELD)
        return text[:MAX_WORD]

    def text(self, *names: str) -> str:
        """Text of any length; "" when absent or not text."""
        value = self._get(names)
        if isinstance(value, str):
            return value
        self._bad(value)
        return ""

    def flag(self, *names: str) -> bool | None:
        """True, False, or None when absent or anything else."""
        value = self._get(names)
        if isinstance(value, bool):
            return value
        self._bad(value)
        return None

    def count(self, *names: str) -> int | None:
        """A whole number from 1 to 1,000,000."""
        value = self._get(names)
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT:
            return value
        self._bad(value)
        return None

    def real(
        self, *names: str, low: float = -math.inf, high: float = math.inf, open_low: bool = False
    ) -> float | None:
        """A finite number in [low, high], or (low, high] with *open_low*.

        A number outside of its range is a grade_out_of_range, not a bad_field: the sender graded.
        """
        value = self._get(names)
        if value is None:
            return None
        number = as_number(value)
        if number is None or not low <= number <= high or (open_low and number == low):
            bounded = low > -math.inf or high < math.inf
            self._note(Hazard.GRADE_OUT_OF_RANGE if bounded else Hazard.BAD_FIELD)
            return None
        return number

    def inner(self, *names: str) -> dict[str, Any]:
        """An object; {} when absent or anything else."""
        value = self._get(names)
        if isinstance(value, dict):
            return value
        self._bad(value)
        return {}

    def items(self, *names: str) -> list[Any] | None:
        """A list, or None when absent or anything else."""
        value = self._get(names)
        if isinstance(value, list):
            return value
        self._bad(value)
        return None

    def rest(self, model: type[Entry]) -> dict[str, Any]:
        """Fields nobody asked for, without names that *model* gives a meaning of its own."""
        known = self._asked | model.model_fields.keys()
        return {name: value for name, value in self.data.items() if name not in known}


def as_number(value: object) -> float | None:
    """A finite float, or None. Booleans are no numbers; an integer too large for a float is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
