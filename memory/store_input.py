"""What an agent passes in becomes what a posted run would hold: the same limits, the same repairs.

Guarantees: a value that passes can be stored, and could have been posted in an envelope: it went through
the wire schema (``contextgraph.envelope``) and through the survey that a posted run must pass. NUL and
lone surrogates become U+FFFD, and the entry says so. JSON comes out as the database will give it back.

Does not guarantee sense. Raises EnvelopeError (a ValueError) that names the field and the cause.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings

from contextgraph.envelope import (
    AttemptEntry,
    EnvelopeError,
    RunFooter,
    RunHeader,
    TipEntry,
    validate,
)
from contextgraph.run_survey import MAX_KEY_BYTES, survey_runs

if TYPE_CHECKING:
    from contextgraph.envelope import Record
    from memory.store_values import RunHandle

MAX_DEPTH: Final = 64
"""Of JSON, as the reader of posted documents has it."""
MAX_DIGITS: Final = 1200
"""Of a whole number inside JSON: Python refuses to read much longer ones from text."""
EXPONENT_FROM: Final = 1e16
"""Python writes whole floats from here on with an exponent, and jsonb gives them back as integers."""
_TOO_LONG: Final = f"holds a number of more than {MAX_DIGITS} digits"


def header(**fields: Any) -> RunHeader:
    """A checked run header."""
    entry = validate(RunHeader, fields, place="run")
    _survey(entry)
    return entry


def attempt(run: RunHandle, **fields: Any) -> AttemptEntry:
    """A checked attempt of *run*."""
    fields["evaluator_raw"] = plain_object(fields.get("evaluator_raw"), "evaluator_raw")
    entry = validate(AttemptEntry, fields, place="attempt")
    check_size(entry.script, entry.narrative, entry.title, entry.evaluator_raw, place="attempt")
    _survey(_header_of(run), entry)
    return entry


def tip(run: RunHandle, **fields: Any) -> TipEntry:
    """A checked tip that was born in *run*."""
    entry = validate(TipEntry, fields, place="tip")
    check_size(entry.text, entry.mechanism, place="tip")
    _survey(_header_of(run), entry)
    return entry


def check_index(place: str, *keys: str) -> None:
    """Refuse *keys* that would not fit into one entry of an index together."""
    size = sum(len(key.encode()) for key in keys)
    if size > MAX_KEY_BYTES:
        msg = f"{size} bytes together with its rule and skill; an index holds {MAX_KEY_BYTES}"
        raise EnvelopeError(msg, place=place)


def check_size(*values: Any, place: str) -> None:
    """Refuse texts and JSON that are together larger than a posted document may be."""
    size = sum(map(_size, values))
    if size > settings.MAX_DOCUMENT_BYTES:
        msg = f"{size} bytes, more than MAX_DOCUMENT_BYTES ({settings.MAX_DOCUMENT_BYTES})"
        raise EnvelopeError(msg, place=place)


def plain_object(value: Any, place: str) -> dict[str, Any] | None:
    """*value* as a JSON object of plain types; tuples become lists, keys strings."""
    if value is None:
        return None
    found = _plain(value, place, MAX_DEPTH)
    if not isinstance(found, dict):
        msg = f"a mapping is needed here, this is {type(value).__name__}"
        raise EnvelopeError(msg, place=place)
    return found


def _plain(value: Any, place: str, depth: int) -> Any:
    if depth < 0:
        raise EnvelopeError(f"nested deeper than {MAX_DEPTH}", place=place)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Decimal):
        if value.is_finite() and value.adjusted() > MAX_DIGITS:
            raise EnvelopeError(_TOO_LONG, place=place)
        whole = value.is_finite() and value == value.to_integral_value()
        value = int(value) if whole else math.nan if value.is_nan() else float(value)
    if isinstance(value, float):
        # the digits that jsonb will give back, so that the same content compares equal
        whole = value.is_integer() and abs(value) >= EXPONENT_FROM
        return int(Decimal(repr(value))) if whole else value + 0.0
    if isinstance(value, int):
        if value.bit_length() > MAX_DIGITS * 3.3:
            raise EnvelopeError(_TOO_LONG, place=place)
        return int(value)
    if isinstance(value, list | tuple):
        return [_plain(item, place, depth - 1) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, f"{place}.{key}", depth - 1) for key, item in value.items()}
    msg = f"{type(value).__name__} is no JSON: pass text, numbers, lists and dicts"
    raise EnvelopeError(msg, place=place)


def _size(value: Any) -> int:
    """Bytes of text in *value*; other leaves count one."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        return sum(_size(key) + _size(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(map(_size, value))
    return value is not None


def _header_of(run: RunHandle) -> RunHeader:
    return RunHeader(skill=run.skill, external_id=run.external_id, started_at=run.started_at)


def _survey(entry: RunHeader, *records: Record) -> None:
    survey_runs([entry, *records, RunFooter()])
