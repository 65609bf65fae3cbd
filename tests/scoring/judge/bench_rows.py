"""Runs, batches and settings for the tests of the judge's service: small, and every row's fate known.

The texts are our own; the stand-in answers by a marker in the tip or by the words that tip and script
share. Holds no assertions. Shaped by tests that each built a run of their own.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from scoring.batches import Lease
from scoring.judge import service
from scoring.models import ScoreBatch
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from memory.models import Attempt, Retrieval, Run
    from tests.scoring.judge.raw_server import RawServer
    from tests.stand_ins.judge_server import JudgeServer

FOLLOWED = "Write `Banner /etc/issue.net` to /etc/ssh/sshd_config.d/10-banner.conf"
IGNORED = "Mask the `kdump` service"
SCRIPT = "echo 'Banner /etc/issue.net' > /etc/ssh/sshd_config.d/10-banner.conf\n"


def use_judge(settings: Any, server: JudgeServer | RawServer, **overrides: Any) -> None:
    """Point the product at the stand-in, with short times."""
    wanted = {
        "JUDGE_BASE_URL": server.base_url,
        "JUDGE_MODEL": "stand-in-judge",
        "JUDGE_HTTP_TRIES": 1,
        "JUDGE_READ_TIMEOUT_S": 2.0,
        "JUDGE_DEADLINE_S": 3.0,
        "JUDGE_RETRY_AFTER_S": 60.0,
    }
    for name, value in (wanted | overrides).items():
        setattr(settings, name, value)


def attempt_with(
    *tips: str, run: Run | None = None, script: str = SCRIPT, **fields: Any
) -> Attempt:
    """An attempt that was shown these tips."""
    attempt = make_attempt(run=run or make_run(), script=script, **fields)
    for rank, text in enumerate(tips, start=1):
        make_retrieval(attempt=attempt, tip=make_tip(text=text), rank=rank)
    return attempt


def batch_of(run: Run, **fields: Any) -> ScoreBatch:
    """A leased judge batch over all rows of *run*."""
    ids = list(run.retrievals.order_by("pk").values_list("pk", flat=True))
    number = ScoreBatch.objects.filter(run=run).count() + 1
    values: dict[str, Any] = {
        "round": 1,
        "signal": "judge",
        "number": number,
        "first_id": ids[0],
        "last_id": ids[-1],
        "state": "leased",
        "leased_until": timezone.now() + timedelta(hours=1),
        "lease_token": f"token-{number}",
        "changed_at": timezone.now(),
    }
    return ScoreBatch.objects.create(run=run, **(values | fields))


def held(batch: ScoreBatch) -> Lease:
    """The right to work on *batch*, as a worker has it that claimed it just now."""
    return Lease(batch=batch, token=batch.lease_token, renewed_at=time.monotonic())


def judged(run: Run, **fields: Any) -> list[Retrieval]:
    """Judge the run's open rows in one batch; its rows, in order."""
    service.score(held(batch_of(run, **fields)))
    return list(run.retrievals.order_by("pk"))


def due(run: Run) -> None:
    """What the pipeline does when a retry is due."""
    run.retrievals.filter(llm_retry_at__isnull=False).update(llm_reason="", llm_retry_at=None)
