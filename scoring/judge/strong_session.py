"""Asks the stronger judge: about rows without a verdict, or to supersede one; on the run's budget.

Guarantees: an escalation is paid for before it is asked; what could not be asked (the server is away,
nothing was sent, the row was taken by another) is paid back. A failure leaves the row alone, tries
included: it has its verdict, or is put to the judge of every day at once, whose outcome is the one
that counts. A row that kills its process has been counted, as there.

Shaped by: an outage in which each round cost a try, and whose rows were closed in the fourth with
"the judge answered something that is no verdict".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from django.db.models import F

from memory.models import Retrieval
from scoring.judge import stakes, verdict_store
from scoring.judge.errors import JudgeUnavailable
from scoring.judge.prompt import QuestionRefused
from scoring.judge.session import Session, each_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scoring.judge.cache import Served
    from scoring.judge.errors import JudgeError
    from scoring.judge.session import Pair
    from scoring.judge.verdict_store import Asked
    from scoring.models import JudgeCall, Judgement

_NOT_ASKED: Final = (JudgeUnavailable, QuestionRefused)
"""Nobody was there, or the tip cannot be sent to anybody."""


@dataclass
class StrongSession(Session):
    """``causes``: primary key of a row -> why; ``over``: the verdict that is to be superseded."""

    causes: Mapping[int, tuple[stakes.Stake, ...]] = field(default_factory=dict)
    over: Mapping[int, Judgement] = field(default_factory=dict)

    def _asked(self, row: Retrieval, served: Served) -> Asked:
        return replace(
            super()._asked(row, served),
            stakes=tuple(cause.value for cause in self.causes[row.pk]),
            supersedes=self.over.get(row.pk),
        )

    def _granted(self, indices: Sequence[int], pairs: Sequence[Pair]) -> list[int]:
        """As many as the run's budget has left. One that supersedes a verdict uses up no try."""
        run_id = self.lease.batch.run_id
        paid = list(indices)[: stakes.claim(run_id, len(indices))]
        if self.over:
            return paid
        counted = self._counted(paid, pairs)
        stakes.give_back(run_id, len(paid) - len(counted))
        return counted

    def _fail(self, failed: Sequence[tuple[Pair, JudgeError]], *, call: JudgeCall | None) -> None:
        """Keep the failures; give back the tries, and what was paid for what could not be asked."""
        rows = each_row(failed)
        verdict_store.note_failure(rows, self.source, call=call)
        if not self.over:
            ids = [asked.row.pk for asked, _ in rows]
            unanswered = Retrieval.objects.filter(pk__in=ids, llm_label="", llm_tries__gt=0)
            unanswered.update(llm_tries=F("llm_tries") - 1)
        unasked = [error for _, error in failed if isinstance(error, _NOT_ASKED)]
        stakes.give_back(self.lease.batch.run_id, len(unasked))
