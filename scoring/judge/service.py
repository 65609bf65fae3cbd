"""Judge step of a batch: look up, ask, verify, store, and ask a stronger judge where much depends.

Guarantees: every row that was open ends with a label, or with a reason and, where it may help, the
time of the next try; never with a default. A row that kills its process is left alone after
JUDGE_MAX_TRIES. What a call brought is committed before the next one is made, so a killed worker loses
no more than the calls it was waiting for. A server that is away costs no try for some hours, and no
escalation of the run. A batch that is to be asked anew uses no cache.

Not guaranteed: at most one call per row; a worker killed between a call and its commit pays twice.
Shaped by: judgements marked as computed when the server was away, and never asked for again.
"""

from __future__ import annotations

import contextlib
import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django.db.models import DateTimeField, Value
from django.db.models.functions import Greatest, Now

from memory.reasons import Reason
from scoring import batches
from scoring.judge import cache, pause, stakes
from scoring.judge.bench import DEFAULT, HIGH_STAKES, bench, config, configured
from scoring.judge.pair_asking import ask_pairs
from scoring.judge.retries import retry_delay
from scoring.judge.session import Session
from scoring.judge.strong_session import StrongSession
from scoring.judge.works import works_of
from scoring.model_size import source_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.models import Retrieval
    from scoring.batches import Lease
    from scoring.judge.bench import Bench
    from scoring.judge.session import Labelled
    from scoring.judge.works import Work
    from scoring.models import ScoreBatch

__all__ = ["ask_pairs", "config", "configured", "is_away", "retry_delay", "score"]

PROBE_TIMEOUT_S: Final = 2.0
AWAY_STATUS: Final = frozenset({502, 503, 504, 529})
"""A gateway that has nobody behind it. Other statuses may concern ``/models`` alone."""


def is_away() -> bool:
    """Whether one cheap probe (PROBE_TIMEOUT_S at most) finds nobody to ask."""
    if (judge := bench(DEFAULT)) is None:
        return True
    probe = judge.client.probe(timeout_s=PROBE_TIMEOUT_S)
    return not probe.reachable or probe.status in AWAY_STATUS


def score(lease: Lease) -> int:
    """Judge the open rows of a batch, least tried first; returns how many it came to."""
    anew = cache.switched_off() if lease.batch.without_cache else contextlib.nullcontext()
    with anew:
        return _score(lease)


def _score(lease: Lease) -> int:
    batch = lease.batch
    every_day, strong = bench(DEFAULT), bench(HIGH_STAKES)
    if every_day is None:
        raise ValueError("no judge is configured: set JUDGE_BASE_URL and JUDGE_MODEL")
    seen = 0
    for work in works_of(batch):
        rows = work.rows
        seen += len(rows)
        if strong is not None and stakes.asked_for(batch.run):
            rows = _judged_as_asked_for(lease, strong, work)
        session = Session(lease, every_day, work)
        session.judge(rows)
        if strong is not None:
            _escalate(lease, strong, work, session.labelled)
        if session.paused:
            _leave_for_later(batch)
            break
    return seen


def _judged_as_asked_for(lease: Lease, strong: Bench, work: Work) -> list[Retrieval]:
    """Ask the stronger judge at once, as the run wants it; returns the rows that it did not label."""
    causes = dict.fromkeys((row.pk for row in work.rows), (stakes.Stake.ASKED_FOR,))
    session = StrongSession(lease, strong, work, causes=causes)
    session.judge(work.rows)
    labelled = {one.row.pk for one in session.labelled}
    return [row for row in work.rows if row.pk not in labelled]


def _escalate(lease: Lease, strong: Bench, work: Work, labelled: Sequence[Labelled]) -> None:
    """Put the verdicts on which much depends to the stronger judge; its word supersedes theirs."""
    before = {one.row.pk: one.row for one in labelled}
    causes = stakes.stakes_of(
        [_with_verdict(one) for one in labelled], before=before, script=work.script
    )
    if not causes:
        return
    over = {one.row.pk: one.judgement for one in labelled}
    StrongSession(lease, strong, work, causes=causes, over=over).judge(
        [before[pk] for pk in causes]
    )


def _with_verdict(one: Labelled) -> Retrieval:
    row = copy.copy(one.row)
    row.llm_label, row.llm_reason = one.ruling.label.value, one.ruling.reason
    row.tip_followed_llm = one.ruling.followed
    row.llm_source = source_name(one.judgement.requested_model, one.judgement.prompt_sha256)
    return row


def _leave_for_later(batch: ScoreBatch) -> None:
    """The judge is away: no call, no try counted; asked again later, and later each round."""
    # GREATEST leaves out a NULL: there may be no pause any more
    due = Greatest(
        Now() + timedelta(seconds=retry_delay(batch.round, of=batch)),
        Value(pause.until(DEFAULT), output_field=DateTimeField()),
    )
    batches.rows_of(batch).update(llm_reason=Reason.JUDGE_UNAVAILABLE, llm_retry_at=due)
