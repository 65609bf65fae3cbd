"""Watch posted documents become final runs, by reading rows.

Guarantees: a run counts as final only when the very records that were posted are stored as the current
revision and are scored; a refusal of one of the documents is reported as soon as its row is there.

Does not talk to the broker: a message counts as taken once there is a row that came of it, and a
document that never arrives is noticed by the time limit alone.

Shaped by: progress bars over messages, which end when the queue is empty and not when the work is done.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.db.models import F, Max, Q, Sum
from django.utils import timezone

from contextgraph.envelope import EnvelopeError
from contextgraph.ingest import id_from_name
from contextgraph.models import IncomingDocument, RejectedMessage
from contextgraph.run_survey import survey_runs
from contextgraph.runlogs import open_run_log
from memory.models import Run
from scoring.models import ScoreBatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from contextgraph.client import Receipt
    from contextgraph.run_survey import RunSurvey
    from contextgraph.runlogs import RunLogReader

POLL_S: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Posted:
    """A file that was posted, with the options that decide how it is read."""

    path: Path
    receipt: Receipt
    format: str = "auto"
    skill: str = ""
    side_file: Path | None = None


@dataclass(slots=True)
class Followed:
    """One run of a posted file. ``rows`` and ``scored`` count signals of its current scoring round.

    ``taken``: a consumer has stored something of the document since it was posted.
    """

    path: Path
    document: str
    external_id: str = ""
    skill: str = ""
    digest: str = field(default="", repr=False)
    run_id: int | None = None
    status: str = "posted"
    rows: int = 0
    scored: int = 0
    refusal: str = ""
    taken: bool = False

    @property
    def final(self) -> bool:
        """Scored, and its dream pass counted."""
        return self.status == Run.Status.DONE

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "file": str(self.path),
            "external_id": self.external_id,
            "skill": self.skill,
            "id": self.run_id,
            "status": self.status,
            "rows": self.rows,
            "scored": self.scored,
            "refusal": self.refusal,
        }


class Follower:
    """Made before posting, so that only refusals from then on count."""

    def __init__(self) -> None:
        self._after = RejectedMessage.objects.aggregate(last=Max("pk"))["last"] or 0
        self._since = timezone.now()
        self._items: list[Followed] = []

    def add(self, posted: Posted) -> None:
        """Follow every run of a file. One that cannot be read here is left to the consumer's refusal."""
        document = posted.receipt.document_sha256
        try:
            surveys = _survey(posted)
        except (EnvelopeError, OSError):
            self._items.append(Followed(path=posted.path, document=document))
            return
        self._items.extend(
            Followed(
                path=posted.path,
                document=document,
                external_id=survey.header.external_id,
                skill=survey.header.skill,
                digest=survey.digest,
            )
            for survey in surveys
        )

    def items(self) -> list[Followed]:
        """As last seen."""
        return self._items

    def watch(self, *, timeout: float) -> Iterator[list[Followed]]:
        """Yield after each look, until all are final, one is refused, or *timeout* seconds passed."""
        end = time.monotonic() + timeout
        while True:
            self.look()
            yield self._items
            settled = all(item.final for item in self._items)
            if settled or any(item.refusal for item in self._items) or time.monotonic() > end:
                return
            time.sleep(POLL_S)

    def look(self) -> None:
        """Read the rows once."""
        refused = self._refusals()
        for item in self._items:
            document = IncomingDocument.objects.filter(sha256=item.document).first()
            assembled = document is not None and document.assembled_at is not None
            arrived = document is not None and document.last_part_at >= self._since
            run = _stored(item)
            if run is not None:
                item.run_id, item.status = run.pk, run.status
                item.rows, item.scored = _progress(run)
            elif item.document in refused:
                item.refusal = refused[item.document]
            elif assembled and item.digest:
                item.refusal = "its document was stored before, and another revision is current now"
            item.taken = item.taken or arrived or run is not None or bool(item.refusal)

    def _refusals(self) -> dict[str, str]:
        rows = RejectedMessage.objects.filter(pk__gt=self._after, resolved_at__isnull=True)
        documents = {item.document for item in self._items}
        ours = rows.filter(headers__document__in=sorted(documents)).order_by("pk")
        return {
            str(row.headers["document"]): f"{row.reason}: {row.detail} (message {row.pk})"
            for row in ours.only("headers", "reason", "detail")
        }


def _survey(posted: Posted) -> list[RunSurvey]:
    """Identity and digest of each run, by the reading that the consumer does."""
    with ExitStack() as stack:
        return survey_runs(_reader(posted, stack).records())


def _reader(posted: Posted, stack: ExitStack) -> RunLogReader:
    side = posted.side_file
    return open_run_log(
        stack.enter_context(posted.path.open("rb")),
        format=posted.format,
        side_file=stack.enter_context(side.open("rb")) if side else None,
        skill=posted.skill or None,
        name=id_from_name(posted.path.name),
    )


def _stored(item: Followed) -> Run | None:
    if not item.digest:
        return None
    key = {"skill": item.skill, "external_id": item.external_id, "digest": item.digest}
    return Run.objects.current().filter(**key).first()


def _progress(run: Run) -> tuple[int, int]:
    """Signals of the current round: all, and those whose batch is closed."""
    size = F("last_id") - F("first_id") + 1
    closed = Q(state__in=[ScoreBatch.State.DONE, ScoreBatch.State.FAILED])
    found = ScoreBatch.objects.filter(run=run, round=run.scoring_round).aggregate(
        rows=Sum(size), scored=Sum(size, filter=closed)
    )
    return found["rows"] or 0, found["scored"] or 0
