"""Records of one run -> rows, in batches, inside the transaction of the caller.

Guarantees: memory is bounded by one batch whatever the run's size; an attempt is graded by the ladder
of its skill, its sender's grade is kept beside it; a retrieval holds the text that was really shown in
this run and copies of everything credit reads; a tip keeps the first text it ever had.

Does not guarantee: atomicity (ingest.py owns the transaction and the lock), nor that records make
sense together (ingest.py surveys the stream before the first row is written).

Shaped by: logs in which a tip is described after the attempt that used it, and verdicts that arrive
after their attempt was closed.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import IntegerField, OuterRef, Subquery, TextField, Value
from django.db.models.functions import Length
from django.utils import timezone

from contextgraph.envelope import (
    AttemptEntry,
    EnvelopeError,
    OutcomeCorrection,
    RetrievalEntry,
    RunFooter,
    RunHeader,
    TipEntry,
)
from contextgraph.shown_texts import LATE, awaiting, fill, give_up, room_needed, shown_by
from contextgraph.tip_book import sha256_of, storable_json
from memory.models import Attempt, Retrieval, Run, Tip
from memory.reasons import Reason
from memory.store_rows import SENT_MODE
from scoring.outcomes import Evaluation, Outcome, grade

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from contextgraph.envelope import Record
    from contextgraph.skills import Skill
    from contextgraph.tip_book import TipBook
    from memory.querysets import RetrievalQuerySet

logger = logging.getLogger(__name__)

BATCH_ROWS = 1_000
"""Records (a retrieval counts as one) that are held before they are written."""

BATCH_CHARS = 4_000_000
"""Characters of text that are held before they are written."""

TIP_TEXT_CHANGED = "tip_text_changed"
"""Hazard: the tip is stored with another text; the first one is kept."""


_NO_ROOM = "the shown texts of this run take more room than a document may"


class _Text(NamedTuple):
    """A text that the database knows, and its length."""

    text: Subquery
    length: Subquery


_TIP = Tip.objects.filter(pk=OuterRef("tip_id"))
_STORED = _Text(
    Subquery(_TIP.values("text")[:1], output_field=TextField()),
    Subquery(_TIP.values(length=Length("text"))[:1], output_field=IntegerField()),
)


class TooMuchText(EnvelopeError):
    """The shown texts, copied into their retrievals, would take more room than a run may."""


class RunWriter:
    """Writes the records of one run below *run*, which is stored already and holds its final facts."""

    def __init__(
        self,
        run: Run,
        *,
        skill: Skill,
        tips: TipBook,
        max_text: int,
        late_tips: frozenset[str] = frozenset(),
    ) -> None:
        self.run = run
        self.retrievals = 0
        self.hazards: Counter[str] = Counter()
        self._skill = skill
        self._book = tips
        self._late_tips = late_tips
        self._text_left = max_text
        self._tips: list[TipEntry] = []
        self._attempts: list[AttemptEntry] = []
        self._corrections: list[OutcomeCorrection] = []
        self._weight = [0, 0]
        self._waits = False
        tips.begin_run()

    def add(self, record: Record) -> None:
        """Take one record; writes when a batch is full."""
        if isinstance(record, TipEntry):
            self._tips.append(record)
            self._weigh(1, len(record.text) + len(record.mechanism))
        elif isinstance(record, AttemptEntry):
            self._attempts.append(record)
            shown = sum(len(entry.shown_text or "") for entry in record.retrievals)
            chars = len(record.script or "") + len(record.narrative) + shown
            self._weigh(1 + len(record.retrievals), chars)
        elif isinstance(record, OutcomeCorrection):
            self._corrections.append(record)
            self._weigh(1, 0)

    def close(self) -> None:
        """Write what is left. Raises EnvelopeError when a correction has no attempt."""
        self._flush()
        if self._corrections:
            lost = self._corrections[0]
            msg = f"a correction names {lost.rule_id} #{lost.number}, which is not in the run"
            raise EnvelopeError(msg, place="corrections")
        if self._waits:
            self._settle_late_texts()
        self._fill_earlier_runs()

    def _settle_late_texts(self) -> None:
        """Give the rows that waited the text of this run, else the stored one, else a reason."""
        late = Retrieval.objects.filter(run=self.run, shown_sha256=LATE)
        keys = self._book.keys_of(self._late_tips)
        for tip in sorted(self._late_tips):
            text = self._book.own.text(tip)
            if text is not None:
                self._fill(late.filter(tip_id=keys[tip]), Value(text), Value(len(text)))
        self._fill(late.exclude(tip__text=""), *_STORED)
        give_up(late)

    def _fill(self, rows: RetrievalQuerySet, text: Any, length: Any) -> None:
        self._text_left -= room_needed(rows, length)
        if self._text_left < 0:
            raise TooMuchText(_NO_ROOM)
        fill(rows, text, length)

    def _fill_earlier_runs(self) -> None:
        """Retrievals of other runs that waited for a text which this run was the first to bring."""
        filled = sorted(self._book.filled)
        for start in range(0, len(filled), BATCH_ROWS):
            some = filled[start : start + BATCH_ROWS]
            rows = awaiting(Retrieval.objects.filter(tip_id__in=some))
            needed = room_needed(rows, _STORED.length)
            if needed > self._text_left:
                # another run's rows are no ground to refuse this one; they keep their reason
                logger.warning("run.earlier_texts_left", extra={"run_id": self.run.pk})
                return
            self._text_left -= needed
            fill(rows, *_STORED)

    def _weigh(self, rows: int, chars: int) -> None:
        self._weight[0] += rows
        self._weight[1] += chars
        if self._weight[0] >= BATCH_ROWS or self._weight[1] >= BATCH_CHARS:
            self._flush()

    def _flush(self) -> None:
        if changed := self._book.describe(self._tips):
            self.hazards[TIP_TEXT_CHANGED] += changed
        self._write_attempts()
        self._corrections = [entry for entry in self._corrections if not self._correct(entry)]
        self._tips.clear()
        self._attempts.clear()
        self._weight = [0, 0]

    def _write_attempts(self) -> None:
        graded = [(entry, self._grade(entry)) for entry in self._attempts]
        rows = Attempt.objects.bulk_create(
            [attempt_row(self.run, entry, outcome) for entry, outcome in graded]
        )
        keys = self._book.keys_of(r.tip for e in self._attempts for r in e.retrievals)
        texts = self._own_texts(keys)
        retrievals = (
            retrieval_row(row, entry, keys[entry.tip], texts)
            for row, attempt in zip(rows, self._attempts, strict=True)
            for entry in attempt.retrievals
        )
        for batch in self._in_slices(retrievals):
            Retrieval.objects.bulk_create(batch)
            self.retrievals += len(batch)

    def _own_texts(self, keys: Mapping[str, int]) -> dict[int, str]:
        """Texts of the tips that were shown as they are, by primary key; none for those to come."""
        entries = (entry for attempt in self._attempts for entry in attempt.retrievals)
        wanted = {e.tip for e in entries if e.shown and e.shown_text is None}
        if not wanted:
            return {}
        own, texts, stored = self._book.own, {}, []
        for tip in wanted:
            if (text := own.text(tip)) is not None:
                texts[keys[tip]] = text
            elif own.describes(tip) or tip not in self._late_tips:
                stored.append(keys[tip])
        found = Tip.objects.filter(pk__in=stored).exclude(text="")
        texts |= dict(found.values_list("pk", "text"))
        self._waits = self._waits or len(texts) < len(wanted)
        return texts

    def _in_slices(self, rows: Iterable[Retrieval]) -> Iterator[list[Retrieval]]:
        """Slices of bounded text: one long tip shown a thousand times must not be held in SQL."""
        batch: list[Retrieval] = []
        chars = 0
        for row in rows:
            batch.append(row)
            chars += len(row.shown_text)
            self._text_left -= len(row.shown_text)
            if self._text_left < 0:
                raise TooMuchText(_NO_ROOM, place=f"attempt {row.rule_id}")
            if chars >= BATCH_CHARS:
                yield batch
                batch, chars = [], 0
        if batch:
            yield batch

    def _grade(self, entry: AttemptEntry) -> Outcome:
        evaluation = Evaluation(
            number=entry.sender_number or entry.number,
            passed=entry.passed,
            failure_mode=entry.failure_mode,
            raw=entry.evaluator_raw,
            error=entry.evaluator_error,
            sender_value=entry.grade_value,
            sender_confidence=entry.grade_confidence,
        )
        return grade(evaluation, self._skill)

    def _correct(self, entry: OutcomeCorrection) -> bool:
        """Put a late verdict on its attempt and its retrievals; False when the attempt is not there."""
        place = {"run": self.run, "rule_id": entry.rule_id, "number": entry.number}
        attempt = Attempt._base_manager.filter(**place).first()
        if attempt is None:
            return False
        apply_correction(attempt, entry, self._skill)
        attempt.save()
        retrievals = Retrieval.objects.filter(run=self.run, attempt=attempt)
        retrievals.update(
            outcome_value=attempt.outcome_value, outcome_confidence=attempt.outcome_confidence
        )
        if attempt.outcome_value is not None:
            retrievals.filter(llm_reason=Reason.NO_OUTCOME).update(llm_reason="")
        return True


def run_row(header: RunHeader, footer: RunFooter, *, digest: str, revision: int) -> Run:
    """An unsaved run; what the footer knows outranks the header."""
    return Run(
        skill=header.skill,
        external_id=header.external_id,
        source=header.source,
        revision=revision,
        digest=digest,
        started_at=header.started_at,
        ended_at=footer.ended_at or header.ended_at,
        model=footer.model or header.model,
        environment_tag=footer.environment_tag or header.environment_tag,
        hazards=dict(footer.hazards),
        extra=storable_json(header.extra | footer.extra | header.asked),
        text_repaired=header.text_repaired or footer.text_repaired,
        state_changed_at=timezone.now(),
    )


def attempt_row(run: Run, entry: AttemptEntry, outcome: Outcome) -> Attempt:
    """An unsaved attempt with its graded outcome."""
    extra = entry.extra
    if entry.script is None and entry.script_truncated:
        extra["script_truncated"] = True  # the sender says so, but there is no script to be cut
    return Attempt(
        run=run,
        skill=run.skill,
        rule_id=entry.rule_id,
        number=entry.number,
        sender_number=entry.sender_number or entry.number,
        category=entry.category,
        title=entry.title,
        started_at=entry.started_at,
        ended_at=entry.ended_at,
        script=entry.script,
        script_sha256=sha256_of(entry.script or ""),
        script_truncated=entry.script_truncated and entry.script is not None,
        narrative=entry.narrative,
        evaluator_raw=storable_json(entry.evaluator_raw),
        evaluator_error=entry.evaluator_error,
        passed=entry.passed,
        failure_mode=graded_mode(entry.failure_mode, outcome, extra),
        apply_failed=entry.apply_failed,
        deferred=entry.deferred,
        sender_grade_value=entry.grade_value,
        sender_grade_confidence=entry.grade_confidence,
        hazards=list(entry.hazards),
        extra=storable_json(extra),
        text_repaired=entry.text_repaired,
        outcome_value=outcome.value,
        outcome_confidence=outcome.confidence,
        outcome_reason=outcome.reason,
        outcome_grader=outcome.grader,
    )


def graded_mode(sent: str, outcome: Outcome, extra: dict[str, Any]) -> str:
    """The graded mode; *extra* keeps what the sender said, also nothing, where that is another one."""
    graded = outcome.failure_mode if outcome.value is not None else sent
    extra.pop(SENT_MODE, None)  # of a grade that this one replaces
    if sent != graded:
        extra[SENT_MODE] = sent
    return graded


def apply_correction(attempt: Attempt, entry: OutcomeCorrection, skill: Skill) -> None:
    """Grade *attempt* again by a verdict that arrived later. The caller saves it."""
    raw = attempt.evaluator_raw if entry.evaluator_raw is None else entry.evaluator_raw
    evaluation = Evaluation(
        number=attempt.sender_number,
        passed=entry.passed,
        failure_mode=entry.failure_mode,
        raw=raw,
        sender_value=entry.grade_value,
        sender_confidence=entry.grade_confidence,
    )
    outcome = grade(evaluation, skill)
    attempt.passed = entry.passed
    attempt.failure_mode = graded_mode(entry.failure_mode, outcome, attempt.extra)
    attempt.evaluator_raw = storable_json(raw)
    attempt.evaluator_error = ""
    attempt.sender_grade_value = entry.grade_value
    attempt.sender_grade_confidence = entry.grade_confidence
    attempt.outcome_value = outcome.value
    attempt.outcome_confidence = outcome.confidence
    attempt.outcome_reason = outcome.reason
    attempt.outcome_grader = outcome.grader


def retrieval_row(
    attempt: Attempt, entry: RetrievalEntry, tip: int, texts: Mapping[int, str]
) -> Retrieval:
    """An unsaved retrieval. *texts* holds the tips' own texts, for those that were shown as they are."""
    run = attempt.run
    reason = structural_reason(attempt, shown=entry.shown)
    no_outcome = "" if attempt.outcome_value is not None else Reason.NO_OUTCOME
    shown = shown_by(entry, texts.get(tip))
    return Retrieval(
        run=run,
        attempt=attempt,
        tip_id=tip,
        rule_id=attempt.rule_id,
        rank=entry.rank,
        similarity_score=entry.similarity,
        outcome_value=attempt.outcome_value,
        outcome_confidence=attempt.outcome_confidence,
        retrieved_at=_retrieved_at(attempt, entry),
        skill=run.skill,
        category=attempt.category,
        model=run.model,
        environment_tag=run.environment_tag,
        extra=storable_json(entry.extra | shown.extra),
        shown=entry.shown,
        shown_text=shown.text,
        shown_sha256=shown.sha256,
        shown_cut=shown.cut,
        withheld=entry.withheld,
        propensity=entry.propensity,
        canary=entry.canary,
        llm_reason=reason or no_outcome,
        emb_reason=reason,
        trace_reason=reason,
    )


def _retrieved_at(attempt: Attempt, entry: RetrievalEntry) -> Any:
    return entry.retrieved_at or attempt.started_at or attempt.ended_at or attempt.run.started_at


def structural_reason(attempt: Attempt, *, shown: bool) -> str:
    """Why no signal can ever be computed for a retrieval into *attempt*; "" when one can."""
    if not shown:
        return Reason.NOT_SHOWN
    if attempt.script is None:
        return Reason.NO_SCRIPT
    return Reason.SCRIPT_TRUNCATED if attempt.script_truncated else ""
