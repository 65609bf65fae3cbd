"""The first pass of ingest: is this record stream a set of runs that can be stored?

Guarantees: a stream that passes has a header, a footer and a digest for each run, no attempt twice, no
correction without its attempt, and no value that a column or an index would refuse half way through
the second pass. No database; memory holds a key for each attempt and tip, never a text.

Does not guarantee that the runs are new: ingest.py asks the database.

Shaped by: databases that report an over-long index entry as an operational error, which looks like a
server that went away and would make a consumer wait for ever on one message.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from contextgraph.envelope import (
    AttemptEntry,
    Digest,
    EnvelopeError,
    OutcomeCorrection,
    RetrievalEntry,
    RunFooter,
    RunHeader,
    TipEntry,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from contextgraph.envelope import Record

MAX_INTEGER: Final = 2**31 - 1
MAX_KEY_BYTES: Final = 2_600
"""A unique index of Postgres holds at most 2,704 bytes: skill and id together, encoded as UTF-8."""


@dataclass(slots=True)
class RunSurvey:
    """What the first pass knows of one run.

    ``late_tips``: ids of tips that are described only after an attempt was shown their text.
    ``told``: ids of all that the document's runs of this skill describe with a text; one set for them.
    """

    header: RunHeader
    footer: RunFooter = field(default_factory=RunFooter)
    digest: str = ""
    late_tips: frozenset[str] = frozenset()
    told: set[str] = field(default_factory=set)


def survey_runs(records: Iterable[Record]) -> list[RunSurvey]:
    """Check a whole stream and return identity, footer and digest of each of its runs.

    Raises:
        EnvelopeError: the records do not form runs, or one of them cannot be stored.
    """
    surveys: list[RunSurvey] = []
    told: defaultdict[str, set[str]] = defaultdict(set)
    run: _OpenRun | None = None
    for record in records:
        if isinstance(record, RunHeader):
            if run is not None:
                run.refuse("has no footer")
            run = _OpenRun(record, told[record.skill])
        elif run is None:
            msg = f"a {type(record).__name__} stands before the run's header"
            raise EnvelopeError(msg)
        else:
            run.add(record)
            if isinstance(record, RunFooter):
                surveys.append(run.close(record))
                run = None
    if run is not None:
        run.refuse("has no footer")
    if not surveys:
        msg = "the document holds no run"
        raise EnvelopeError(msg)
    return surveys


class _OpenRun:
    """Checks what no single record can: uniqueness, references, and the limits of the columns."""

    def __init__(self, header: RunHeader, told: set[str]) -> None:
        self.header = header
        self._told = told
        self._digest = Digest()
        self._attempts: set[tuple[str, int]] = set()
        self._corrected: set[tuple[str, int]] = set()
        self._described: set[str] = set()
        self._awaited: set[str] = set()
        self._digest.add(header)
        self._check_keys(header.external_id)
        self._check_times(header.started_at, header.ended_at)

    def refuse(self, cause: str) -> NoReturn:
        msg = f"run {self.header.external_id!r} {cause}"
        raise EnvelopeError(msg)

    def add(self, record: Record) -> None:
        self._digest.add(record)
        if isinstance(record, AttemptEntry):
            self._add_attempt(record)
        elif isinstance(record, OutcomeCorrection):
            self._corrected.add((record.rule_id, record.number))
        elif isinstance(record, TipEntry):
            self._check_keys(record.tip)
            self._check_keys(record.source_rule_id)
            if record.text:
                self._described.add(record.tip)
        elif isinstance(record, RunFooter):
            self._check_times(record.ended_at)

    def close(self, footer: RunFooter) -> RunSurvey:
        for rule_id, number in self._corrected - self._attempts:
            self.refuse(f"corrects attempt {rule_id} #{number}, which is not in it")
        if footer.ended_at is not None and footer.ended_at < self.header.started_at:
            self.refuse(f"ends at {footer.ended_at}, before it starts")
        late = frozenset(self._awaited & self._described)
        self._told |= self._described
        return RunSurvey(self.header, footer, self._digest.hexdigest(), late, self._told)

    def _add_attempt(self, entry: AttemptEntry) -> None:
        key = (entry.rule_id, entry.number)
        if key in self._attempts:
            self.refuse(f"holds attempt {entry.rule_id} #{entry.number} twice")
        self._attempts.add(key)
        self._check_times(entry.started_at, entry.ended_at)
        for number in (entry.number, entry.sender_number or 1):
            self._check_integer(number)
        seen: set[str] = set()
        for retrieval in entry.retrievals:
            if retrieval.tip in seen:
                self.refuse(f"retrieves tip {retrieval.tip!r} twice into {entry.rule_id}")
            seen.add(retrieval.tip)
            if retrieval.tip not in self._described and _shows_own_text(retrieval):
                self._awaited.add(retrieval.tip)
            self._check_keys(retrieval.tip)
            self._check_integer(retrieval.rank)
            self._check_times(retrieval.retrieved_at)

    def _check_keys(self, key: str) -> None:
        if len(self.header.skill.encode()) + len(key.encode()) > MAX_KEY_BYTES:
            self.refuse(f"uses an id of more bytes than an index can hold: {key[:40]!r}…")

    def _check_integer(self, number: int) -> None:
        if number > MAX_INTEGER:
            self.refuse(f"uses the number {number}, which no column can hold")

    def _check_times(self, *moments: datetime | None) -> None:
        for moment in moments:
            if moment is not None and not 1900 <= moment.year <= 9000:
                self.refuse(f"holds the time {moment.isoformat()}, which is no time of a run")


def _shows_own_text(entry: RetrievalEntry) -> bool:
    """True when the agent saw the tip's own text, or its beginning, and the entry does not hold it."""
    return entry.shown and entry.shown_text is None
