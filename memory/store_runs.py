"""Runs as an agent records them: begun, gone on with, ended. The lower half of ``memory.store``.

Guarantees: a run is RECORDING until it is ended, and then has the digest of its rows; two agents cannot
begin one run, and ending twice ends once. Errors and limits: see ``memory.store``.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from contextgraph.envelope import storable
from memory import store_input, store_rows
from memory.events import announce_recorded
from memory.models import Run
from memory.querysets import UnknownRun
from memory.store_records import CONFIG, SUMMARY, digest
from memory.store_values import RunClosed, RunExists, RunHandle, StoreRefused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from contextgraph.envelope import RunHeader
    from memory.store_values import AttemptState

RECORDED: Final = "recorded"
"""``Run.log_format`` of a run that came through this door."""
LEFT_OPEN: Final = "attempt_left_open"
"""Hazard of a recorded run: attempts that were begun and never saved, counted."""


class RunRecorder:
    """The runs of one skill. *skill*: 1 to 500 characters; part of every key."""

    def __init__(self, skill: str) -> None:
        probe = {"external_id": "-", "started_at": timezone.now()}
        self.skill = store_input.header(skill=skill, **probe).skill

    def start_run(
        self,
        external_id: str,
        *,
        model: str = "",
        environment_tag: str = "",
        source: str = "",
        started_at: datetime | None = None,
        high_stakes: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> RunHandle:
        """Begin a run; it is RECORDING from now on.

        Args:
            external_id: unique within the skill, 1 to 500 characters.
            model: the model that acts; follow rates depend on it.
            environment_tag: what the run works on; tips of the whole environment are found by it.
            source: the system that runs it. started_at: now, unless given.
            high_stakes: have the stronger judge give every verdict that its budget allows.
            config: JSON to keep with the run.

        Raises:
            RunExists: the skill has a run of this id; ``open_run`` goes on with one that is recording.
        """
        entry = store_input.header(
            skill=self.skill,
            external_id=external_id,
            source=source,
            started_at=started_at or timezone.now(),
            model=model,
            environment_tag=environment_tag,
            high_stakes=high_stakes,
            **_said(CONFIG, config),
        )
        run = _begun(entry)
        try:
            with transaction.atomic():
                run.save(force_insert=True)
        except IntegrityError as error:
            raise self._exists(entry.external_id) from error
        return store_rows.handle_of(run)

    def open_run(self, external_id: str) -> RunHandle:
        """Go on with a run that is recording, after a crash of its agent or in another process.

        Attempts that the crash left open stay open: ``attempts`` names them, and ``retrieve`` with such
        an attempt's number gives the tips that were logged for it.

        Raises:
            UnknownRun: the skill has no run of this id.
            RunClosed: it is not recording.
        """
        run = self._current(external_id)
        if run is None:
            msg = f"skill {self.skill!r} has no run {external_id!r}: start_run makes one"
            raise UnknownRun(msg)
        if run.status != Run.Status.RECORDING:
            raise store_rows.closed(run)
        return store_rows.handle_of(run)

    def attempts(self, run: RunHandle) -> list[AttemptState]:
        """What was begun in *run*, in that order, and what of it is saved: where to go on after a crash.

        Only reads: no sign of life, and a run that has ended may be asked too.

        Raises:
            StoreRefused: the run is another skill's.
        """
        self._require_mine(run)
        return store_rows.states(run)

    def end_run(
        self,
        run: RunHandle,
        summary: Mapping[str, Any] | None = None,
        *,
        ended_at: datetime | None = None,
    ) -> bool:
        """RECORDING -> INGESTED, with the digest of its rows; scoring begins after the commit.

        Attempts that are open stay without an outcome, and are counted as a hazard of the run.

        Args:
            summary: JSON to keep with the run.
            ended_at: not before the start; now, unless given.

        Returns False, and changes nothing, when the run was handed over before: by an earlier call, or
        by the reaper because the agent had been silent.

        Raises:
            RunClosed: the run was superseded meanwhile.
        """
        said = _said(SUMMARY, summary)
        with transaction.atomic():
            try:
                row = self._claim(run)
            except RunClosed:
                if Run.objects.current().filter(pk=run.id).exists():
                    return False
                raise
            _note_end(row, ended_at, said)
            seal(row)
            row.status = Run.Status.INGESTED
            row.ingested_at = row.state_changed_at = Now()
            row.save()
            announce_recorded(row)
        return True

    def _current(self, external_id: str) -> Run | None:
        key = storable(external_id)
        return Run.objects.current().filter(skill=self.skill, external_id=key).first()

    def _exists(self, external_id: str) -> RunExists:
        run = self._current(external_id)
        state = f"primary key {run.pk}, {run.status}" if run else "of an older revision"
        return RunExists(
            f"skill {self.skill!r} has a run {external_id!r} ({state}): give this one another id, or go "
            "on with that one by open_run while it is recording"
        )

    def _claim(self, run: RunHandle) -> Run:
        self._require_mine(run)
        return store_rows.claim(run)

    def _require_mine(self, run: RunHandle) -> None:
        if run.skill != self.skill:
            msg = f"run {run.external_id!r} is of skill {run.skill!r}, this store is of {self.skill!r}"
            raise StoreRefused(msg)


def _begun(entry: RunHeader) -> Run:
    """An unsaved run that is recording."""
    return Run(
        skill=entry.skill,
        external_id=entry.external_id,
        source=entry.source,
        started_at=entry.started_at,
        model=entry.model,
        environment_tag=entry.environment_tag,
        log_format=RECORDED,
        extra=entry.extra | entry.asked,
        text_repaired=entry.text_repaired,
        status=Run.Status.RECORDING,
        state_changed_at=timezone.now(),
    )


def _note_end(run: Run, ended_at: datetime | None, said: Mapping[str, Any]) -> None:
    entry = store_input.header(
        skill=run.skill,
        external_id=run.external_id,
        started_at=run.started_at,
        # a clock that was set back must not keep a run from its end
        ended_at=ended_at or max(timezone.now(), run.started_at),
        **said,
    )
    run.ended_at = entry.ended_at.astimezone(UTC) if entry.ended_at else None
    run.extra |= entry.extra
    run.text_repaired |= entry.text_repaired


def seal(run: Run) -> None:
    """Count what *run* left open, and take the digest of its rows; the caller saves both columns."""
    if left := run.attempts.filter(ended_at=None).count():
        run.hazards[LEFT_OPEN] = left
    run.digest = digest(run)


def _said(name: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A field of the run that the wire keeps without knowing it; none for None."""
    found = store_input.plain_object(value, name)
    store_input.check_size(found, place=name)
    return {} if found is None else {name: found}
