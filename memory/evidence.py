"""What retrievals add up to: kept beside them, always derived, so that no reader scans history.

Guarantees: RunEvidence of a run is the recount of its counted rows, for every policy of
``memory.credit``; TipEvidence is the sum of the RunEvidence of its key, at four levels; ``refresh``
brings both in line in one statement that reads the rows of the runs given and no others, and sums are
exact decimals, so that adding and taking away leaves no residue. ``check`` proves it, ``recount`` makes
all of it anew. Readers get sums by index.

Which runs: a run enters when its dream pass gives credit, and leaves when it is superseded. While it is
being scored again it keeps what it had, and so do the sums: ``check`` and ``recount`` look at final
runs. A policy that is added later enters at ``recount``, one that is removed leaves there (of a run that
is open, when it becomes final again).

Locks: one writer at a time for a skill, by an advisory lock that ends with the transaction; its place
among the others is told in ``memory.locks``. Change the rows, call ``refresh`` once with all the runs,
commit. Read committed (Postgres's default) is required: the rows must be read after the lock was got.

Shaped by: a hit rate that scanned the whole history at each retrieval, and credit that was added at
every pass, so that a pass that ran twice counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db import IntegrityError, connection, transaction

from memory import locks
from memory.evidence_sql import (
    RUN_KEY,
    SUMS,
    TIP_KEY,
    figures_statement,
    rebuild_statement,
    refresh_statement,
    run_check_statement,
    skill_statement,
    tip_check_statement,
)
from memory.models import Run, RunEvidence
from memory.snapshot import one_moment
from memory.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from memory.evidence_sql import Statement, Unit

    Progress = Callable[[int, int], None]

RUNS_AT_ONCE: Final = 10
"""Runs that a recount locks and counts in one transaction."""

SHOWN_AT_MOST: Final = 20
"""Differences that a check names for each table of a skill."""


class EvidenceDrifted(IntegrityError):
    """Sums are not what their rows add up to; says which runs' tips they are of, and what mends it."""


# --- Writing --------------------------------------------------------------------------------------


def refresh(run_ids: Collection[int]) -> int:
    """Recount the evidence of these runs from their rows and shift the sums of the tips by the change.

    Call it inside the transaction that changed the rows, after the change and once for all its runs.
    A superseded run ends with no evidence. Safe to repeat: the second time nothing changes.

    Returns the number of RunEvidence rows that were added, changed or deleted.

    Raises:
        TransactionManagementError: the caller has no transaction open.
        EvidenceDrifted: sums would fall below zero.
    """
    if not run_ids:
        return 0
    locks.hold_evidence(run_ids)
    try:
        return _count(refresh_statement(run_ids))
    except IntegrityError as error:
        runs = ", ".join(map(str, sorted(run_ids)))
        msg = (
            f"the sums of tips that runs with primary key {runs} used are not those of their rows, and "
            f"would fall below zero (manage.py recount makes them anew): {error}"
        )
        raise EvidenceDrifted(msg) from error


def is_in_evidence(run_id: int) -> bool:
    """Whether the run was given credit: it has evidence, or it is final and has nothing to count.

    In a transaction it waits for a writer of the skill first: asked after a row was changed, "no" means
    that the credit to come will read the change.
    """
    if connection.in_atomic_block:
        locks.hold_evidence([run_id])
    if RunEvidence.objects.filter(run_id=run_id).exists():
        return True
    final = Run.objects.current().filter(pk=run_id, status=Run.Status.DONE).first()
    return final is not None and not final.retrievals.counted().exists()


def _count(statement: Statement) -> int:
    with connection.cursor() as cursor:
        cursor.execute(*statement)
        return int(cursor.fetchone()[0])


# --- Reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sums:
    """*n* observations in [-1, 1], their total and the total of their squares."""

    n: int
    total: float
    squares: float

    def without(self, part: Sums) -> Sums:
        """What is left when *part* is taken out; nothing when *part* is not smaller."""
        n = self.n - part.n
        if n <= 0:
            return NOTHING
        total = min(max(self.total - part.total, -float(n)), float(n))
        return Sums(n, total, min(max(self.squares - part.squares, 0.0), float(n)))


NOTHING: Final = Sums(0, 0.0, 0.0)
"""The sums of no observation."""


@dataclass(frozen=True, slots=True)
class TipFigures:
    """The sums of one tip: on a rule, in that rule's category, anywhere."""

    rule: Sums = NOTHING
    category: Sums = NOTHING
    tip: Sums = NOTHING


UNSEEN: Final = TipFigures()
"""The figures of a tip that nothing is known of."""


def figures_for(
    skill: str,
    policy: str,
    *,
    rule_id: str,
    category: str,
    tip_ids: Collection[int],
    unit: Unit = "visit",
) -> dict[int, TipFigures]:
    """The evidence under *policy* on each of these tips, by one query over an index.

    Every tip asked for is in the answer; one that was never retrieved has ``UNSEEN``. An empty
    category names none, so that its level is empty.

    Args:
        unit: what counts once. "visit": a run's attempts at one rule, by their mean credit.
            "retrieval": each row, as upstream counts. No squares are kept of those: theirs are the
            largest that credits can have, so that an interval is never too narrow.
    """
    parts: defaultdict[int, dict[str, Sums]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(*figures_statement(skill, policy, rule_id, category, tip_ids, unit))
        for tip_id, level, *sums in cursor.fetchall():
            parts[tip_id][level] = Sums(*sums)
    return {
        tip_id: TipFigures(**parts[tip_id]) if tip_id in parts else UNSEEN for tip_id in tip_ids
    }


def skill_sums(skill: str, policy: str, *, unit: Unit = "visit") -> Sums:
    """The evidence on all tips of *skill* together; ``NOTHING`` of a skill without any."""
    with connection.cursor() as cursor:
        cursor.execute(*skill_statement(skill, policy, unit))
        row = cursor.fetchone()
    return Sums(*row) if row else NOTHING


# --- All of it anew -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Recounted:
    """What a recount looked at and what it had to change."""

    runs: int
    run_rows: int
    tip_rows: int


def recount(*, skill: str | None = None, progress: Progress | None = None) -> Recounted:
    """Make the sums of tips anew from those of runs, then final and superseded runs from their rows.

    Tips first: a run's change is a shift of its tips' sums, and drifted ones may not bear it.
    Safe while the pipeline works: a few runs at a time are kept from being opened, and an open run is
    left as it is. Stopped in the middle it leaves nothing wrong; what it had not reached stays as it was.

    Args:
        skill: this one only.
        progress: called with the runs looked at so far and all there are.

    Raises:
        RuntimeError: the caller has a transaction open, in which each lock would be held for the next.
    """
    runs = run_rows = tip_rows = 0
    total = _countable(skill).count()
    for one in _skills(skill):
        with transaction.atomic(durable=True):
            locks.hold_skills(locks.EVIDENCE, [one])
            tip_rows += _count(rebuild_statement(one))
        for ids in _batches(one):
            run_rows += _recount_runs(ids)
            runs += len(ids)
            if progress is not None:
                progress(runs, max(runs, total))
    return Recounted(runs=runs, run_rows=run_rows, tip_rows=tip_rows)


def _recount_runs(run_ids: list[int]) -> int:
    """Those of *run_ids* that are still final; they are kept so until the commit."""
    runs = Run.objects.filter(pk__in=run_ids).only("pk", "status", "superseded_at")
    with transaction.atomic():
        return refresh([run.pk for run in locks.held(runs) if _ends(run)])


def _ends(run: Run) -> bool:
    return run.superseded_at is not None or run.status == Run.Status.DONE


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A row that is not what it should be: the sums that differ; None where there is no row."""

    table: str
    key: dict[str, Any]
    wanted: dict[str, str] | None
    stored: dict[str, str] | None

    def __str__(self) -> str:
        key = ", ".join(f"{name}={visible(value)}" for name, value in self.key.items())
        return f"{self.table} ({key}): stored {_said(self.stored)}, counted {_said(self.wanted)}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON; sums as decimal strings."""
        return {
            "table": self.table, "key": self.key, "wanted": self.wanted, "stored": self.stored,
        }  # fmt: skip


def _said(sums: dict[str, str] | None) -> str:
    if sums is None:
        return "no row"
    return " ".join(f"{name}={value}" for name, value in sums.items()) or "a row"


def check(*, skill: str | None = None, progress: Progress | None = None) -> list[Difference]:
    """Compare the evidence with a recount, in one snapshot; changes nothing. Empty: all is right.

    Names at most ``SHOWN_AT_MOST`` differences for each table of a skill, in the order of their keys.
    Arguments as for :func:`recount`.
    """
    found: list[Difference] = []
    with one_moment():
        runs, total = 0, _countable(skill).count()
        for one in _skills(skill):
            room = SHOWN_AT_MOST
            for ids in _batches(one):
                differences = _differences(run_check_statement(ids, room), "run_evidence", RUN_KEY)
                found += differences
                room -= len(differences)
                runs += len(ids)
                if progress is not None:
                    progress(runs, total)
                if not room:
                    break
            found += _differences(tip_check_statement(one, SHOWN_AT_MOST), "tip_evidence", TIP_KEY)
    return found


def _differences(statement: Statement, table: str, key: tuple[str, ...]) -> list[Difference]:
    found = []
    with connection.cursor() as cursor:
        cursor.execute(*statement)
        for row in cursor.fetchall():
            names = (*key, "wanted", "there", *SUMS, *(f"d_{name}" for name in SUMS))
            values = dict(zip(names, row, strict=True))
            off = [name for name in SUMS if values[f"d_{name}"]]
            wanted = {name: values[name] or 0 for name in off}
            stored = {name: str(wanted[name] - values[f"d_{name}"]) for name in off}
            found.append(
                Difference(
                    table=table,
                    key={name: values[name] for name in key},
                    wanted={n: str(v) for n, v in wanted.items()} if values["wanted"] else None,
                    stored=stored if values["there"] else None,
                )
            )
    return found


def _skills(skill: str | None) -> list[str]:
    if skill is not None:
        return [skill]
    return list(Run.objects.order_by("skill").values_list("skill", flat=True).distinct())


def _countable(skill: str | None) -> Any:
    """Runs that have a final say: DONE ones, and superseded ones, which have none."""
    runs = Run.objects.filter(status=Run.Status.DONE) | Run.objects.exclude(superseded_at=None)
    return runs if skill is None else runs.filter(skill=skill)


def _batches(skill: str) -> Iterator[list[int]]:
    ids = list(_countable(skill).order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), RUNS_AT_ONCE):
        yield ids[start : start + RUNS_AT_ONCE]
