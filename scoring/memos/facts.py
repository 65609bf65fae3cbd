"""Facts and snapshots: all that a memo may say in figures.

Guarantees: a fact's id is derived from its label and unit, never from its place or value, so that the
same fact has the same id in every snapshot; a snapshot holds no fact twice, no cycle, no value that
its own formula contradicts, no NaN and no infinity. Citation labels (``F1``…) follow the order of the
ids' content, not the order given, and the fingerprint covers all that decides them: two snapshots of
one fingerprint read any memo alike. It does not say that a fact is true; it says where it is from.

Values are decimals. A fact of unit ``date`` holds a date, one of unit ``name`` holds a text (an id, a
quoted tip) that a memo may repeat in backticks. None is "not known", which no figure can match.
Not fingerprinted: provenance and ``as_of`` (the gate checks a cached text that states the date).
Source: ADR-0006; its original hashed floats, 64 bits of them, joined by a character labels could hold.
"""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from scoring.memos.facts_formula import Formula, FormulaError, agrees, check_unit, compute
from scoring.memos.units import WHOLE, Measure, Unit, unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FINGERPRINT_VERSION: Final = "memo-facts-1"
MAX_DIGITS: Final = 30
"""Digits on either side of the decimal point."""
MAX_LABEL_CHARS: Final = 200
MAX_NAME_CHARS: Final = 500
MAX_FACTS: Final = 500

Value = Decimal | date | str | None


class Materiality(StrEnum):
    """Whether a memo that leaves the fact out is incomplete."""

    MATERIAL = "material"
    MINOR = "minor"


class FactError(ValueError):
    """A fact or a snapshot that cannot be; the message names the fact, the cause and the mend."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing a memo may state. ``id`` is derived: "f" and 16 hex digits over label and unit.

    ``label`` is plain text of one line; what the fact is about may stand in it in backticks (the
    subject), and the gate then refuses the figure beside another subject. ``provenance`` holds
    references (rows, addresses). ``formula`` works on the facts of ``derived_from``, in order.
    Raises FactError.
    """

    label: str
    unit: str
    value: Value
    materiality: Materiality = Materiality.MINOR
    provenance: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    formula: Formula | None = None
    id: str = field(init=False)

    def __post_init__(self) -> None:
        _check_label(self.label)
        _check_value(self.label, self.measure, self.value)
        if bool(self.derived_from) != (self.formula is not None):
            raise FactError(f"{self.label!r}: derived_from and formula come together or not at all")
        object.__setattr__(self, "id", fact_id(self.label, self.unit))

    @property
    def measure(self) -> Measure:
        """The kind of quantity."""
        return self.unit_.measure

    @property
    def unit_(self) -> Unit:
        """The unit with its tolerance; raises FactError on an unknown one."""
        try:
            return unit_of(self.unit)
        except ValueError as error:
            raise FactError(f"{self.label!r}: {error}") from None

    @property
    def number(self) -> Decimal | None:
        """The value, if it is a decimal."""
        return self.value if isinstance(self.value, Decimal) else None

    @property
    def is_material(self) -> bool:
        return self.materiality is Materiality.MATERIAL


def fact(label: str, unit: str, value: Value | int | float, *, material: bool = False,
         provenance: Sequence[str] = ()) -> Fact:  # fmt: skip
    """Return a primary fact; an int or a float becomes the decimal that its shortest text names."""
    if isinstance(value, bool):
        raise FactError(f"{label!r}: a truth value is no quantity; use 0 and 1, or a name")
    if isinstance(value, int | float):
        value = Decimal(repr(value))
    if isinstance(value, datetime):
        value = value.date()
    level = Materiality.MATERIAL if material else Materiality.MINOR
    return Fact(label, unit, value, level, tuple(provenance))


def derived(label: str, unit: str, formula: Formula, inputs: Sequence[Fact], *,
            material: bool = False) -> Fact:  # fmt: skip
    """Return the fact that ``formula`` gives on ``inputs``, with its value computed."""
    value = compute(formula, [item.number for item in inputs])
    level = Materiality.MATERIAL if material else Materiality.MINOR
    return Fact(label, unit, value, level, (), tuple(item.id for item in inputs), formula)


def fact_id(label: str, unit: str) -> str:
    """Return the id of a fact: the same for labels that differ in case, spacing or composition."""
    shown = " ".join(unicodedata.normalize("NFC", label).casefold().split())
    return "f" + hashlib.sha256(_packed(["fact", shown, unit])).hexdigest()[:16]


def canonical(value: Value) -> str:
    """Return one text per value: 100, 100.0 and 1E+2 are "100", and -0 is "0"."""
    match value:
        case None:
            return "unknown"
        case Decimal():
            shown = f"{value:f}"
            shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
            return "decimal:" + ("0" if value == 0 else shown)
        case date():
            return "date:" + value.isoformat()
        case _:
            return "text:" + unicodedata.normalize("NFC", value)


@dataclass(frozen=True)
class Snapshot:
    """The facts of one memo. ``product`` is run, tip, category or external.

    ``as_of`` is the day the facts are from, if it is known. Raises FactError.
    """

    product: str
    identifier: str
    as_of: date | None
    facts: tuple[Fact, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", tuple(self.facts))
        if len(self.facts) > MAX_FACTS:
            raise FactError(f"{len(self.facts)} facts, over {MAX_FACTS}: split the snapshot")
        seen: dict[str, Fact] = {}
        for item in self.facts:
            if item.id in seen:
                raise FactError(
                    f"{item.label!r}: two facts have this label and unit; name what tells them apart"
                )
            seen[item.id] = item
        for item in self.facts:
            _check_inputs(item, seen)
        _check_no_cycle(seen)

    @cached_property
    def by_id(self) -> Mapping[str, Fact]:
        """The facts by their ids."""
        return {item.id: item for item in self.facts}

    @cached_property
    def by_citation(self) -> Mapping[str, Fact]:
        """The facts by the labels a memo cites them with: F1, F2… in an order that content decides."""
        ordered = sorted(self.facts, key=lambda item: (item.label.casefold(), item.unit, item.id))
        return {f"F{number}": item for number, item in enumerate(ordered, start=1)}

    @cached_property
    def citations(self) -> Mapping[str, str]:
        """The citation label of each fact id."""
        return {item.id: label for label, item in self.by_citation.items()}

    def fingerprint(self) -> str:
        """Return 64 hex digits that change when anything a memo may say changes, and only then."""
        parts = [FINGERPRINT_VERSION, self.product, self.identifier]
        for item in self.by_citation.values():
            parts += [item.id, item.label, item.unit, canonical(item.value), item.materiality]
            parts += [item.formula or "", str(len(item.derived_from)), *item.derived_from]
        return hashlib.sha256(_packed(parts)).hexdigest()


def _packed(parts: Sequence[str]) -> bytes:
    """Each part behind its length: no label can pass for two."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join(b"%d:%s" % (len(part), part) for part in encoded)


def hides(text: str) -> bool:
    """Whether a text holds a character that is not seen, or a line break."""
    return any(unicodedata.category(char)[0] == "C" for char in text)


def _check_label(label: str) -> None:
    if not label.strip() or len(label) > MAX_LABEL_CHARS:
        raise FactError(f"{label[:40]!r}: a label has 1 to {MAX_LABEL_CHARS} characters")
    if label != label.strip() or hides(label):
        raise FactError(
            f"{label!r}: a label is one line, with no hidden characters or outer spaces"
        )
    if not any(char.isalpha() for char in label) or label.count("`") % 2:
        raise FactError(f"{label!r}: a label holds letters, and backticks in pairs")
    if "[" in label or "]" in label:
        raise FactError(f"{label!r}: square brackets are for citations; take them out")


def _check_value(label: str, measure: Measure, value: Value) -> None:
    """Raise FactError unless ``value`` is one that a fact of ``measure`` can have."""
    match value:
        case None:
            return
        case Decimal():
            _check_number(label, measure, value)
        case datetime():
            raise FactError(f"{label!r}: a date has no clock time here; use its day")
        case date():
            if measure is not Measure.DATE:
                raise FactError(f"{label!r}: a date in a fact of unit {measure}; the unit is date")
        case str():
            _check_name(label, measure, value)
        case _:
            raise FactError(f"{label!r}: {type(value).__name__} is no value; use a Decimal")


def _check_number(label: str, measure: Measure, value: Decimal) -> None:
    if not value.is_finite():
        raise FactError(f"{label!r}: {value} is no quantity; leave the value out if it is unknown")
    if measure in {Measure.DATE, Measure.NAME}:
        raise FactError(f"{label!r}: a number in a fact of unit {measure}")
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    if value != 0 and (value.adjusted() >= MAX_DIGITS or len(digits) > 2 * MAX_DIGITS):
        raise FactError(f"{label!r}: the value has more digits than a memo can state")
    if isinstance(exponent, int) and exponent < -2 * MAX_DIGITS:
        raise FactError(f"{label!r}: the value has more decimals than a memo can state")
    if isinstance(exponent, int) and exponent > MAX_DIGITS:  # a zero of a million digits is one too
        raise FactError(f"{label!r}: the value has more digits than a memo can state")
    if measure in WHOLE and value != value.to_integral_value():
        raise FactError(f"{label!r}: {value} in whole {measure}; use score or ratio for fractions")
    if measure is Measure.RANK and value < 1:
        raise FactError(f"{label!r}: a rank counts from 1, not {value}")
    if measure is Measure.YEAR and not 1000 <= value <= 9999:
        raise FactError(f"{label!r}: a year has four digits, not {value}")


def _check_name(label: str, measure: Measure, value: str) -> None:
    if measure is not Measure.NAME:
        raise FactError(
            f"{label!r}: a text in a fact of unit {measure}; the unit of a text is name"
        )
    if (
        hides(value)
        or "`" in value
        or value != value.strip()
        or not 0 < len(value) <= MAX_NAME_CHARS
    ):
        raise FactError(
            f"{label!r}: a name is one line of 1 to {MAX_NAME_CHARS} characters, with no backticks,"
            " hidden characters or outer spaces"
        )


def _check_inputs(item: Fact, seen: Mapping[str, Fact]) -> None:
    if item.formula is None:
        return
    unknown = [name for name in item.derived_from if name not in seen]
    if unknown:
        raise FactError(f"{item.label!r}: derived from facts that are not there: {unknown}")
    inputs = [seen[name] for name in item.derived_from]
    try:
        check_unit(item.formula, item.unit_, [other.unit_ for other in inputs])
        computed = compute(item.formula, [other.number for other in inputs])
    except FormulaError as error:
        raise FactError(f"{item.label!r}: {error}") from None
    if not agrees(item.number, computed):
        raise FactError(
            f"{item.label!r}: the value {item.value} is not its {item.formula}, which is {computed}"
        )


def _check_no_cycle(facts: Mapping[str, Fact]) -> None:
    done: set[str] = set()
    for start in facts:
        path: set[str] = set()
        stack = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                path.discard(name)
                done.add(name)
            elif name in path:
                raise FactError(f"{facts[name].label!r}: derived from itself")
            elif name not in done:
                path.add(name)
                stack.append((name, True))
                stack.extend((other, False) for other in facts[name].derived_from)
