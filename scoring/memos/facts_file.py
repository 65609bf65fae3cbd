"""Reads a file of facts that a user gives: JSON or CSV, into a snapshot of product ``external``.

Guarantees: every row is read or the file is refused; an error names the row, the column, the cause and
the mend; numbers are read as decimals and never pass through a float. A row that no memo could state is
refused with what the gate says to it. It guesses nothing: no thousands separators, no percent signs in
values, no column by position.
Source: issue 5, so that the case of ADR-0006 itself (a company's figures) works too.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from scoring.memos.facts import Fact, FactError, Materiality, Snapshot, Value, fact_id, hides
from scoring.memos.facts_formula import Formula
from scoring.memos.facts_stated import unstatable
from scoring.memos.units import ALIASES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PRODUCT: Final = "external"
MAX_BYTES: Final = 5_000_000
COLUMNS: Final = (
    "label", "unit", "value", "materiality", "provenance", "derived_from", "formula",
)  # fmt: skip
NEEDED: Final = ("label", "unit", "value")


class FactsFileError(FactError):
    """The file cannot be read as facts. ``row`` counts from 1 (in CSV the header is row 1), 0 is none."""

    def __init__(self, cause: str, mend: str, *, row: int = 0, column: str = "") -> None:
        where = ", ".join(
            part for part in (f"row {row}" if row else "", column and f"column {column}") if part
        )
        super().__init__(f"{where}: {cause}; {mend}" if where else f"{cause}; {mend}")
        self.row, self.column = row, column


def load_facts(path: Path) -> Snapshot:
    """Read ``path``; its suffix says whether it is ``.json`` or ``.csv``.

    JSON is an object with ``facts`` (a list of objects with the columns as fields) and, if wanted,
    ``identifier`` and ``as_of`` (a day, YYYY-MM-DD). In CSV the name of the file is the identifier.
    ``derived_from`` names the labels of other facts, in CSV with ``;`` between. Raises FactsFileError.
    """
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_BYTES:
            raise FactsFileError(f"the file has {len(raw)} bytes", f"give at most {MAX_BYTES}")
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise FactsFileError(
            f"cannot read {path.name}: {error.strerror}", "check the path"
        ) from None
    except UnicodeDecodeError as error:
        raise FactsFileError(f"byte {error.start} is not UTF-8", "save the file as UTF-8") from None
    match path.suffix.lower():
        case ".json":
            return _from_json(text, path.stem)
        case ".csv":
            return _snapshot(path.stem, None, _csv_rows(text))
        case suffix:
            raise FactsFileError(
                f"{suffix or 'no suffix'} is no format", "give a .json or .csv file"
            )


def _from_json(text: str, stem: str) -> Snapshot:
    try:
        body = json.loads(
            text, parse_float=Decimal, parse_int=Decimal, parse_constant=_no_constant,
            object_pairs_hook=_no_duplicates,
        )  # fmt: skip
    except json.JSONDecodeError as error:
        mend = f"mend line {error.lineno}, character {error.colno}"
        raise FactsFileError(f"not JSON ({error.msg})", mend) from None
    except RecursionError:
        raise FactsFileError("nested too deep", "give one object with a list of facts") from None
    if not isinstance(body, dict) or not isinstance(body.get("facts"), list):
        raise FactsFileError("no list of facts", 'give {"identifier": …, "facts": [{…}, …]}')
    if extra := body.keys() - {"identifier", "as_of", "facts"}:
        raise FactsFileError(f"unknown field {min(extra)!r}", "use identifier, as_of and facts")
    identifier = body.get("identifier", stem)
    if not isinstance(identifier, str) or not identifier.strip():
        raise FactsFileError("the identifier is no text", "name what the facts are about")
    as_of = body.get("as_of")
    day = None if as_of is None else _day(as_of, 0, "as_of")
    rows: list[tuple[int, Mapping[str, object]]] = []
    for number, row in enumerate(body["facts"], start=1):
        if not isinstance(row, dict):
            raise FactsFileError("a fact that is no object", "give fields in braces", row=number)
        rows.append((number, row))
    return _snapshot(identifier, day, rows)


def _no_constant(name: str) -> object:
    raise FactsFileError(f"{name} is no quantity", "use null for a value that is not known")


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FactsFileError(f"the field {twice!r} stands twice in one object", "keep one of them")
    return found


def _csv_rows(text: str) -> list[tuple[int, Mapping[str, object]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, Mapping[str, object]]] = []
    header: list[str] = []
    try:
        for number, cells in enumerate(reader, start=1):
            if not header:
                header = _header(cells)
            elif any(cell.strip() for cell in cells):
                if len(cells) != len(header):
                    cause = f"{len(cells)} cells under {len(header)} columns"
                    raise FactsFileError(cause, "quote a cell that holds a comma", row=number)
                given = {
                    name: cell.strip() or None for name, cell in zip(header, cells, strict=True)
                }
                rows.append((number, given))
    except csv.Error as error:
        raise FactsFileError(f"not CSV ({error})", "mend the quotes", row=reader.line_num) from None
    if not header:
        raise FactsFileError("the file is empty", f"begin with the columns {', '.join(NEEDED)}")
    return rows


def _header(cells: list[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    if len(names) == 1 and ";" in names[0]:
        raise FactsFileError("columns are divided by semicolons", "use commas", row=1)
    if len(set(names)) != len(names):
        raise FactsFileError("a column stands twice", "keep one of them", row=1)
    return names


def _snapshot(
    identifier: str, as_of: date | None, rows: list[tuple[int, Mapping[str, object]]]
) -> Snapshot:
    ids: dict[str, str] = {}
    for number, row in rows:
        _check_fields(number, row)
        label, unit = _label(number, row), _unit(number, row)
        ids.setdefault(label, fact_id(label, unit))
    facts = tuple(_fact(number, row, ids) for number, row in rows)
    if not facts:
        raise FactsFileError("no facts", "give at least one row")
    if hides(identifier):
        raise FactsFileError("hidden characters in the identifier", "name it in plain text")
    try:
        snapshot = Snapshot(PRODUCT, identifier, as_of, facts)
    except FactError as error:
        raise FactsFileError(str(error), "mend the rows it names") from None
    _check_stated(snapshot, [number for number, _ in rows])
    return snapshot


def _check_stated(snapshot: Snapshot, numbers: Sequence[int]) -> None:
    """Raise FactsFileError on the first fact whose plainest statement the gate refuses."""
    for item, number in zip(snapshot.facts, numbers, strict=True):
        if found := unstatable(item, snapshot):
            cause, mend = f"no memo could state this: {found}", "write the label in plain words"
            raise FactsFileError(cause, mend, row=number, column="label")


def _check_fields(number: int, row: Mapping[str, object]) -> None:
    for name in NEEDED:
        if name not in row:
            raise FactsFileError(
                "missing", "add it (an empty value is unknown)", row=number, column=name
            )
    for name in row:
        if name not in COLUMNS:
            mend = f"use {', '.join(COLUMNS)}"
            raise FactsFileError("unknown column", mend, row=number, column=name)


def _text(number: int, row: Mapping[str, object], column: str) -> str:
    value = row.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FactsFileError("no text", "give it in quotes", row=number, column=column)
    return value.strip()


def _label(number: int, row: Mapping[str, object]) -> str:
    label = _text(number, row, "label")
    if not label:
        raise FactsFileError("empty", "name the fact", row=number, column="label")
    return label


def _unit(number: int, row: Mapping[str, object]) -> str:
    unit = _text(number, row, "unit")
    return ALIASES.get(unit.lower(), unit)


def _fact(number: int, row: Mapping[str, object], ids: Mapping[str, str]) -> Fact:
    unit = _unit(number, row)
    level = _text(number, row, "materiality") or Materiality.MINOR
    if level not in set(Materiality):
        mend = f"use {' or '.join(Materiality)}"
        raise FactsFileError(f"{level!r} is no level", mend, row=number, column="materiality")
    formula = _text(number, row, "formula")
    if formula and formula not in set(Formula):
        mend = f"use {', '.join(Formula)}"
        raise FactsFileError(f"{formula!r} is no formula", mend, row=number, column="formula")
    value = _value(number, row.get("value"), unit)
    sources = tuple(_several(number, row, "provenance"))
    if any(map(hides, sources)):
        cause, mend = "hidden characters or a line break", "give a source in plain text"
        raise FactsFileError(cause, mend, row=number, column="provenance")
    try:
        return Fact(
            _label(number, row), unit, value, Materiality(level),
            sources,
            tuple(_inputs(number, row, ids)), Formula(formula) if formula else None,
        )  # fmt: skip
    except FactsFileError:
        raise
    except FactError as error:
        raise FactsFileError(str(error), "mend this row", row=number) from None


def _several(number: int, row: Mapping[str, object], column: str) -> list[str]:
    value = row.get(column)
    if isinstance(value, list):
        if not all(isinstance(part, str) for part in value):
            raise FactsFileError(
                "a list of more than texts", "give texts", row=number, column=column
            )
        return [str(part) for part in value]
    return [part.strip() for part in _text(number, row, column).split(";") if part.strip()]


def _inputs(number: int, row: Mapping[str, object], ids: Mapping[str, str]) -> list[str]:
    found = []
    for label in _several(number, row, "derived_from"):
        if label not in ids:
            cause, mend = f"no fact is called {label!r}", "use the labels of other rows"
            raise FactsFileError(cause, mend, row=number, column="derived_from")
        found.append(ids[label])
    return found


def _value(number: int, value: object, unit: str) -> Value:
    def wrong(cause: str, mend: str) -> FactsFileError:
        return FactsFileError(cause, mend, row=number, column="value")

    if value is None or isinstance(value, Decimal):
        return value
    if not isinstance(value, str):
        raise wrong(f"a {type(value).__name__} is no value", "give a number, a text or null")
    if unit == "name":
        return value.strip() or None
    if not value.strip():
        return None
    if unit == "date":
        return _day(value, number, "value")
    shown = value.strip()
    if "," in shown or "_" in shown or " " in shown:
        raise wrong(
            f"{shown!r} has separators", "write the digits alone, with a point for decimals"
        )
    if not shown.isascii() or shown[-1] in "%kKmMbBxX" or shown[0] in "$(":
        raise wrong(
            f"{shown!r} has a unit in it", "write the number alone; the unit has its column"
        )
    try:
        return Decimal(shown)
    except InvalidOperation:
        raise wrong(f"{shown!r} is no number", "write digits, or leave it empty") from None


def _day(value: object, number: int, column: str) -> date:
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        cause = f"{value!r} is no day"
        raise FactsFileError(cause, "write YYYY-MM-DD", row=number, column=column) from None
