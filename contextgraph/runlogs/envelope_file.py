"""Reader of the envelope: one JSON document of a completed run, in ``contextgraph.envelope``'s schema.

Guarantees: streamed, one attempt in memory at a time, whatever the order of the document's keys; the same
record stream, and so the same digest, as ``Envelope.records`` on the decoded document; an unknown version
is refused by name; unknown fields are kept (those of the outer object in the footer).

Does not guarantee: a bound below ``MAX_ENTRY`` for a single tip or attempt. A side file is not read: an
envelope holds its own texts.

Shaped by: a completed run being 30 MB of JSON; senders whose JSON library sorts the keys, so that
``attempts`` comes before ``run`` and ``schema``; and a grader whose hash value of 64 bits, unsigned, was
more than the parser's integers hold.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import ijson
from ijson.common import JSONError, ObjectBuilder

from contextgraph.envelope import (
    AttemptEntry,
    E,
    EnvelopeError,
    RunFooter,
    RunHeader,
    TipEntry,
    UnknownVersion,
    check_version,
    footer_of,
    validate,
)
from contextgraph.runlogs.errors import RunLogError, UnknownRunLogVersion
from contextgraph.runlogs.hazards import HAZARDS, Hazard, HazardTally
from contextgraph.runlogs.lines import MAX_DEPTH, UTF8_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from contextgraph.envelope import Record
    from contextgraph.runlogs.side_file import SideFile

MAX_ENTRY = 64 * 1024 * 1024
"""Most text in one tip or attempt, and in all outer fields together, in characters."""

LISTS = ("tips", "attempts")

_PYTHON = ijson.get_backend("python")

_OPENS = frozenset({"start_map", "start_array"})
_CLOSES = frozenset({"end_map", "end_array"})
_FIRST_KEY = re.compile(rb'\s*\{\s*"(schema|run|tips|attempts)"\s*:')
_VERSION = re.compile(rb'"schema"\s*:\s*"contextgraph\.run/')
_NUMBER_TOO_LARGE = re.compile(r"^parse error: (integer|numeric \(floating point\)) overflow")
_NUMBER = re.compile(r"^Unexpected symbol '(-?\d[\d.eE+-]*)'")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE_BYTES = 3  # one less than the pattern


def recognises(head: bytes) -> bool:
    """True when the document begins with a key of the envelope, or names its version early."""
    text = head.removeprefix(UTF8_MARK)
    return bool(_FIRST_KEY.match(text) or (text.lstrip()[:1] == b"{" and _VERSION.search(text)))


class Member(NamedTuple):
    """One outer field, or one element of a list in it (then *position* counts from 0)."""

    name: str
    position: int
    value: Any


class EnvelopeFileReader:
    """Yields the records of an envelope; see :func:`contextgraph.runlogs.open_run_log`."""

    format = "envelope"

    def __init__(
        self,
        stream: BinaryIO,
        *,
        side_file: SideFile | None = None,
        skill: str | None = None,
        name: str | None = None,
    ) -> None:
        if side_file is not None:
            raise RunLogError(
                "an envelope holds its own texts and scripts", mend="leave the side file out"
            )
        self.tally = HazardTally()
        self._skill = skill
        self._source = _Source(stream)

    def records(self) -> Iterator[Record]:
        """Yield RunHeader, tips, attempts, RunFooter.

        Raises:
            UnknownRunLogVersion: ``schema`` is not one this build reads.
            RunLogError: not JSON, or an entry that breaks the schema; ``place`` is its path.
        """
        try:
            yield from self._records()
        except RunLogError:
            raise
        except UnknownVersion as error:
            raise UnknownRunLogVersion(
                error.cause, place=error.place, mend="upgrade, or post the version named"
            ) from None
        except EnvelopeError as error:
            raise RunLogError(error.cause, place=error.place, mend="see the JSON schema") from None
        except (JSONError, UnicodeDecodeError) as error:
            raise _refusal(error) from None
        except (EOFError, OSError, zlib.error) as error:
            raise RunLogError(f"the file cannot be read: {error}", mend="copy it again") from None

    def _records(self) -> Iterator[Record]:
        outer = self._first_look()
        check_version(outer.pop("schema", None))
        header = _entry(RunHeader, outer.pop("run", None), "run")
        if self._skill and self._skill != header.skill:
            self.tally.add(Hazard.SKILL_DISAGREES)
        yield header
        for member in self._source.members("tips".__eq__):
            yield _entry(TipEntry, member.value, f"tips.{member.position}")
        codes: Counter[str] = Counter()
        seen: set[tuple[str, int]] = set()
        for member in self._source.members("attempts".__eq__):
            place = f"attempts.{member.position}"
            attempt = _entry(AttemptEntry, member.value, place)
            key = (attempt.rule_id, attempt.number)
            if key in seen:
                cause = f"attempt {attempt.rule_id} #{attempt.number} is there twice"
                raise EnvelopeError(cause, place=place)
            seen.add(key)
            codes.update(attempt.hazards)
            yield attempt
        yield self._footer(header, outer, codes)

    def _footer(self, header: RunHeader, outer: dict[str, Any], codes: Counter[str]) -> RunFooter:
        """Hazards that the sender marked are counted by their code, known to us or not."""
        for code in codes.elements():
            if (hazard := HAZARDS.get(code)) is not None:
                self.tally.add(hazard)
        counts = dict(sorted((codes | Counter(self.tally.counts())).items()))
        return footer_of(header, outer).model_copy(update={"hazards": counts})

    def _first_look(self) -> dict[str, Any]:
        """The outline. It reads every number of the document, so it meets the one that is too large."""
        try:
            return self._outline()
        except JSONError as error:
            if not _NUMBER_TOO_LARGE.search(_message(error)):
                raise
        self._source.expect_large_numbers()
        return self._outline()

    def _outline(self) -> dict[str, Any]:
        """Outer fields without the two lists. A field that stands twice is refused."""
        outer: dict[str, Any] = {}
        for member in self._source.members(lambda name: name not in LISTS, budget_per_entry=False):
            if member.name in outer:
                raise EnvelopeError("the field stands twice", place=member.name)
            outer[member.name] = member.value
        return outer


def _message(error: Exception) -> str:
    detail = error.args[0] if error.args else ""
    return detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)


def _refusal(error: Exception) -> RunLogError:
    """What is wrong with the JSON. Not "post it again": the same bytes would be refused again."""
    message = " ".join(_message(error).replace("(right here) ------^", "").split())
    if number := _NUMBER.search(message):
        cause = (
            f"a number of {len(number[1])} characters is beyond what can be read: {number[1][:20]}…"
        )
        return RunLogError(cause, mend="send it as a string")
    return RunLogError(f"not a JSON document: {message[:300]}", mend="write the document again")


def _entry(model: type[E], value: Any, place: str) -> E:
    if not isinstance(value, dict):
        kind = "nothing" if value is None else type(value).__name__
        raise EnvelopeError(f"an object is needed here, this is {kind}", place=place)
    return validate(model, value, place=place)


class _Discard:
    """Stands in for a builder where a value is passed over."""

    value = None

    def event(self, event: str, value: object) -> None:
        """Drop it."""


class _Source:
    """The bytes of an envelope, readable several times, without a byte-order mark.

    The C parser turns a lone surrogate escape into "?", losing what the wire schema wants flagged, and
    knows no integer beyond 64 bits and no float beyond 1e308. A document that holds one of these is
    read by the Python parser, twelve times slower, which keeps them.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._parser: Any = None

    def expect_large_numbers(self) -> None:
        """Read from now on with the parser that has no bounds."""
        self._parser = _PYTHON

    def _chosen_parser(self) -> Any:
        """Look through the whole document once; a chunk's last bytes are looked at again."""
        tail = b""
        self._stream.seek(0)
        while chunk := self._stream.read(1 << 20):
            if _SURROGATE.search(tail + chunk):
                return _PYTHON
            tail = chunk[-_SURROGATE_BYTES:]
        return ijson

    def _events(self) -> Iterator[tuple[str, Any]]:
        if self._parser is not _PYTHON:
            return iter(self._parser.basic_parse(self._stream, use_float=True))
        # its own floats refuse 1e400; a Decimal becomes infinity, which the wire schema stores as text
        events = _PYTHON.basic_parse(self._stream, use_float=False)
        return ((e, float(v) if isinstance(v, Decimal) else v) for e, v in events)

    def members(
        self, wanted: Callable[[str], bool], *, budget_per_entry: bool = True
    ) -> Iterator[Member]:
        """Build the outer fields that are *wanted*, lists element by element; pass over the others."""
        if self._parser is None:
            self._parser = self._chosen_parser()
        self._stream.seek(0)
        if self._stream.read(len(UTF8_MARK)) != UTF8_MARK:
            self._stream.seek(0)
        events = self._events()
        if next(events)[0] != "start_map":
            raise EnvelopeError("an envelope is a JSON object")
        budget = MAX_ENTRY
        seen: set[str] = set()
        for event, name in events:
            if event == "end_map":
                break
            if name in LISTS and name in seen:
                raise EnvelopeError("the field stands twice", place=name)
            seen.add(name)
            for member, size in _values(events, name, keep=wanted(name), budget=budget):
                budget -= 0 if budget_per_entry else size
                if wanted(name):
                    yield member
        for _ in events:  # trailing garbage is found by reading on
            pass


def _values(
    events: Iterator[tuple[str, Any]], name: str, *, keep: bool, budget: int
) -> Iterator[tuple[Member, int]]:
    """The value of one outer field, or each element of a list field, with its size in characters."""
    event, value = next(events)
    if name not in LISTS:
        built, size = _build(events, event, value, name, keep=keep, budget=budget)
        yield Member(name, 0, built), size
        return
    if event != "start_array":
        raise EnvelopeError("a list is needed here", place=name)
    index = 0
    while (first := next(events))[0] != "end_array":
        built, size = _build(events, *first, f"{name}.{index}", keep=keep, budget=budget)
        yield Member(name, index, built), size
        index += 1


def _build(
    events: Iterator[tuple[str, Any]],
    event: str,
    value: Any,
    place: str,
    *,
    keep: bool,
    budget: int,
) -> tuple[Any, int]:
    """Build one JSON value from its first event on; its nesting and its text are bounded."""
    builder, depth, size = ObjectBuilder() if keep else _Discard(), 0, 0
    while True:
        builder.event(event, value)
        depth += (event in _OPENS) - (event in _CLOSES)
        size += len(value) if isinstance(value, str) else 1
        if depth > MAX_DEPTH:
            raise EnvelopeError(f"nested deeper than {MAX_DEPTH}", place=place)
        if keep and size > budget:
            raise EnvelopeError(f"larger than {MAX_ENTRY} characters", place=place)
        if depth == 0:
            return builder.value, size
        event, value = next(events)
