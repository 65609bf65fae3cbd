"""Run log -> rows: one transaction for a document, idempotent on (skill, external id).

Guarantees: a document is read twice; the first pass refuses what cannot be stored and computes each
run's digest without touching the database, the second writes. Either every run of the document is
stored or none. The same run again is a no-op; another run under a known id is refused, unless it is
sent as a revision, which keeps the old one. Memory does not grow with the document.

Does not guarantee that scoring starts: ``announce`` is called after the commit, as a hint; the reaper
finds the run without it.

Shaped by: a pass over a whole run that wrote at its end, and was lost to one bad line; and two workers
that each inserted the same run.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone

from contextgraph.envelope import EnvelopeError, RunFooter, RunHeader
from contextgraph.run_rows import RunWriter, run_row
from contextgraph.run_survey import survey_runs
from contextgraph.runlogs import Hazard, open_run_log
from contextgraph.shown_texts import awaiting
from contextgraph.skills import load_skill
from contextgraph.tip_book import TipBook, without_text
from memory import evidence, locks
from memory.models import Retrieval, Run, Tip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from contextgraph.envelope import Record
    from contextgraph.run_survey import RunSurvey

logger = logging.getLogger(__name__)

WITH_SIDE_FILE: Final = "+side"
"""Ends ``Run.log_format`` when the log alone does not give the run."""

Status = Literal["created", "unchanged", "revised"]


class RunConflict(EnvelopeError):
    """Another run is stored under this id. Nothing was written."""

    def __init__(self, run: Run, digest: str) -> None:
        self.run_id = run.pk
        super().__init__(
            f"run {run.skill}/{run.external_id} is stored with digest {run.digest[:12]}, this one has "
            f"{digest[:12]} (send it with revise to store it as revision {run.revision + 1})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestResult:
    """What became of one run of a document. ``retrievals`` and ``hazards`` are those of the run."""

    run_id: int
    external_id: str
    skill: str
    created: bool
    status: Status
    retrievals: int
    hazards: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFacts:
    """Where a run came from; stored with it. ``sha256`` is that of the document before compression."""

    name: str = ""
    sha256: str = ""
    format: str = ""


def ingest_document(
    stream: BinaryIO,
    *,
    name: str,
    log_sha256: str,
    format: str = "auto",
    skill: str = "",
    revise: bool = False,
    side_file: BinaryIO | None = None,
    run_id: str = "",
    announce: Callable[[int], None] | None = None,
) -> list[IngestResult]:
    """Store every run of a seekable *stream*, in order.

    Args:
        name: file name at the sender.
        run_id: for logs that do not name their run; else the file name up to its first dot.
        log_sha256: sha256 of the bytes of *stream*.
        skill: for logs that do not name it.
        announce: called with each new run's primary key after the commit.

    Raises:
        RunConflict: a stored run has this id and another digest, and *revise* is False.
        RunLogError, EnvelopeError: the document cannot be read or stored; nothing was written.
    """
    options = _Options(format=format, skill=skill, run_id=run_id or id_from_name(name))
    if side_file is None and not revise and (known := _known_document(log_sha256, options)):
        return known
    document = _Document(stream, side_file, options)
    surveys = survey_runs(document.records())
    log = LogFacts(name=name, sha256=log_sha256, format=document.format_read)
    return _store(surveys, document.records, log=log, revise=revise, announce=announce)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Options:
    """What the caller says of a log; ``skill`` and ``run_id`` count where the log is silent."""

    format: str
    skill: str
    run_id: str | None


@dataclass(slots=True)
class _Document:
    """A seekable log that can be read again from its start."""

    stream: BinaryIO
    side_file: BinaryIO | None
    options: _Options
    format_read: str = ""

    def records(self) -> Iterator[Record]:
        self.stream.seek(0)
        if self.side_file is not None:
            self.side_file.seek(0)
        reader = open_run_log(
            self.stream,
            format=self.options.format,
            side_file=self.side_file,
            skill=self.options.skill or None,
            name=self.options.run_id,
        )
        self.format_read = reader.format + (WITH_SIDE_FILE if self.side_file is not None else "")
        yield from reader.records()


def id_from_name(name: str) -> str | None:
    """The run id that a file name suggests: ``run-7.jsonl.gz`` is ``run-7``."""
    return name.split(".", 1)[0] or name or None


def ingest_envelope(
    envelope: Mapping[str, Any],
    *,
    name: str = "",
    revise: bool = False,
    announce: Callable[[int], None] | None = None,
) -> list[IngestResult]:
    """Store one run given as a decoded envelope; raises like :func:`ingest_document`."""
    try:
        body = json.dumps(envelope, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        msg = f"the envelope is not JSON: {error}"
        raise EnvelopeError(msg) from error
    return ingest_document(
        io.BytesIO(body),
        name=name,
        log_sha256=hashlib.sha256(body).hexdigest(),
        format="envelope",
        revise=revise,
        announce=announce,
    )


def ingest_records(
    records: Callable[[], Iterable[Record]],
    *,
    log: LogFacts,
    revise: bool = False,
    announce: Callable[[int], None] | None = None,
) -> list[IngestResult]:
    """Store the runs of a record stream; *records* is called twice and must give the same stream."""
    surveys = survey_runs(records())
    return _store(surveys, records, log=log, revise=revise, announce=announce)


# --- Second pass: one transaction -----------------------------------------------------------------


def _known_document(log_sha256: str, options: _Options) -> list[IngestResult]:
    """Results of a document whose every run is stored and current; empty when it must be read."""
    runs = list(Run.objects.filter(log_sha256=log_sha256).order_by("pk")) if log_sha256 else []
    if not all(_would_be_read_alike(run, options) for run in runs):
        return []
    return [_unchanged(run) for run in runs]


def _would_be_read_alike(run: Run, options: _Options) -> bool:
    """Whether reading the log of *run* again, with these options, must give *run* again."""
    if run.superseded_at is not None or run.log_format.endswith(WITH_SIDE_FILE):
        return False
    if options.format not in ("auto", run.log_format):
        return False
    says_skill = Hazard.SKILL_NOT_LOGGED not in run.hazards
    says_id = Hazard.RUN_ID_MISSING not in run.hazards
    if options.skill != run.skill and (options.skill or not says_skill):
        return False
    return says_id or options.run_id == run.external_id


def _store(
    surveys: list[RunSurvey],
    records: Callable[[], Iterable[Record]],
    *,
    log: LogFacts,
    revise: bool,
    announce: Callable[[int], None] | None,
) -> list[IngestResult]:
    with transaction.atomic():
        # one writer at a time for a skill: tips are shared by its runs
        locks.hold_skills(locks.INGEST, {survey.header.skill for survey in surveys})
        if all(_is_stored(survey) for survey in surveys):
            return [_unchanged(_current(survey.header)) for survey in surveys]
        _hold_what_will_change(surveys, revise=revise)
        results = list(_write_runs(surveys, records(), log=log, revise=revise))
        for result in results:
            logger.info(
                "run.%s",
                result.status,
                extra={"run_id": result.run_id, "retrievals": result.retrievals},
            )
            if announce is not None and result.status != "unchanged":
                _after_commit(announce, result.run_id)
        evidence.refresh(_replaced_by(results))
    return results


def _replaced_by(results: list[IngestResult]) -> list[int]:
    """The runs that stepped back for a revision: they leave the evidence."""
    revised = Q()
    for result in results:
        if result.status == "revised":
            revised |= Q(skill=result.skill, external_id=result.external_id)
    old = Run.objects.filter(revised, superseded_at__isnull=False)
    return list(old.values_list("pk", flat=True)) if revised else []


def _after_commit(announce: Callable[[int], None], run_id: int) -> None:
    """Robust: the run is stored by then, so a broker that is away must not look like a failure."""

    def hint() -> None:  # not a partial: Django asks a failed robust hook for its __qualname__
        announce(run_id)

    transaction.on_commit(hint, robust=True)


def _hold_what_will_change(surveys: list[RunSurvey], *, revise: bool) -> None:
    """Lock what stands there already and is about to change, in the order of ``memory.locks``.

    Runs that step back, and those that wait for a text; then the sums; then the tips that get a text.
    """
    current = [_current(survey.header) for survey in surveys] if revise else []
    replaced = [run.pk for run in current if run is not None]
    told = {survey.header.skill: survey.told for survey in surveys}
    filled = [pk for skill in sorted(told) for pk in without_text(skill, told[skill])]
    waiting = awaiting(Retrieval.objects.filter(tip_id__in=filled)).values("run_id")
    runs = Run.objects.filter(Q(pk__in=replaced) | Q(pk__in=waiting))
    list(locks.held(runs.only("pk")))
    if replaced:
        locks.hold_evidence(replaced)
    list(locks.held(Tip.objects.filter(pk__in=filled).only("pk")))


def _current(header: RunHeader) -> Run | None:
    key = {"skill": header.skill, "external_id": header.external_id}
    return Run.objects.current().filter(**key).first()


def _is_stored(survey: RunSurvey) -> bool:
    run = _current(survey.header)
    return run is not None and run.digest == survey.digest


def _unchanged(run: Run | None) -> IngestResult:
    if run is None:
        msg = "no such run"
        raise LookupError(msg)
    return _result(run, "unchanged", retrievals=run.retrievals.count())


def _result(run: Run, status: Status, *, retrievals: int) -> IngestResult:
    return IngestResult(
        run_id=run.pk,
        external_id=run.external_id,
        skill=run.skill,
        created=status == "created",
        status=status,
        retrievals=retrievals,
        hazards=run.hazards,
    )


def _write_runs(
    surveys: list[RunSurvey], records: Iterable[Record], *, log: LogFacts, revise: bool
) -> Iterator[IngestResult]:
    """Pair each run of the second pass with what the first pass knows of it."""
    waiting = iter(surveys)
    books: dict[str, TipBook] = {}
    writer: RunWriter | None = None
    with ExitStack() as stack:
        for record in records:
            if isinstance(record, RunHeader):
                survey = next(waiting)
                run = _current(survey.header)
                if run is not None and run.digest == survey.digest:
                    yield _unchanged(run)
                    writer = None
                    continue
                status: Status = "created" if run is None else "revised"
                new = _open_run(survey, run, log=log, revise=revise)
                if new.skill not in books:
                    books[new.skill] = stack.enter_context(TipBook(new.skill))
                writer = _writer(new, books[new.skill], survey)
            elif writer is not None and isinstance(record, RunFooter):
                yield _close_run(writer, status)
                writer = None
            elif writer is not None:
                writer.add(record)


def _writer(run: Run, book: TipBook, survey: RunSurvey) -> RunWriter:
    return RunWriter(
        run,
        skill=load_skill(settings.PROMPTS_DIR, run.skill),
        tips=book,
        max_text=settings.MAX_DOCUMENT_BYTES,
        late_tips=survey.late_tips,
    )


def _open_run(survey: RunSurvey, old: Run | None, *, log: LogFacts, revise: bool) -> Run:
    """Insert the run, after the one that it revises has stepped back."""
    header = survey.header
    if old is not None:
        if not revise:
            raise RunConflict(old, survey.digest)
        Run.objects.filter(pk=old.pk).update(superseded_at=timezone.now())
        Retrieval.objects.filter(run=old).update(superseded=True)
    earlier = Run.objects.filter(skill=header.skill, external_id=header.external_id)
    revision = (earlier.aggregate(last=Max("revision"))["last"] or 0) + 1
    run = run_row(header, survey.footer, digest=survey.digest, revision=revision)
    run.log_path, run.log_sha256, run.log_format = log.name, log.sha256, log.format
    run.save(force_insert=True)
    return run


def _close_run(writer: RunWriter, status: Status) -> IngestResult:
    writer.close()
    run = writer.run
    if writer.hazards:
        for code, count in writer.hazards.items():
            run.hazards[code] = run.hazards.get(code, 0) + count
        run.save(update_fields=["hazards"])
    return _result(run, status, retrievals=writer.retrievals)
