"""Writes what a judge said: onto the retrieval, as a judgement, as a call, into the cache.

Guarantees: a verdict is written only onto a row that has none, or, when it supersedes one, only onto
the very verdict that it was asked to supersede; so a late duplicate changes nothing and leaves no
judgement. Row, judgement and call are written in one transaction. A failure leaves the label empty
with a reason code and the time of the next try. What a call cost is kept even when no row took what
it said.

Decides nothing: whether to ask, whom and when, is the business of ``scoring.judge.service``. Shaped
by verdicts that were written over a newer one by a worker that woke up late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import connection, transaction

from memory.insertion import insert_rows
from memory.reasons import Reason
from scoring.judge import cache
from scoring.judge.decoding import storable
from scoring.judge.verdict import Label, followed_of
from scoring.model_size import source_name
from scoring.models import JudgeCall, Judgement, VerdictCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.models import Retrieval
    from scoring.judge.asking import Answer, Call
    from scoring.judge.cache import Kept
    from scoring.judge.errors import JudgeError
    from scoring.judge.prompt import JudgePrompt
    from scoring.judge.reply import JudgeReply

RAW_CHARS: Final = 8_000
ABSTENTION: Final = {Label.NOT_APPLICABLE: Reason.NOT_APPLICABLE, Label.UNCLEAR: Reason.UNCLEAR}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """A verdict as it is stored. ``reason`` is empty for a yes or a no."""

    label: Label
    said: Label
    reason: str
    reasoning: str
    evidence: list[dict[str, Any]]

    @property
    def followed(self) -> bool | None:
        """``tip_followed_llm``."""
        return followed_of(self.label)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Who ruled: the same for all tips of a script."""

    run_id: int
    tier: str
    model: str
    prompt: JudgePrompt

    @property
    def name(self) -> str:
        """``llm_source``: the model as configured, and the prompt."""
        return source_name(self.model, self.prompt.sha256)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One row and what it was asked with."""

    row: Retrieval
    request_key: str = ""
    redactions: dict[str, dict[str, int]] = field(default_factory=dict)
    cross_skill: bool = False
    stakes: tuple[str, ...] = ()
    supersedes: Judgement | None = None


def ruling_of(answer: Answer) -> Ruling:
    """The verdict of an answer after its quotes were looked up."""
    verdict, verified = answer.verdict, answer.verified
    spans = {span.claim: span for span in verified.spans}
    evidence = [
        {
            "claim": claim.claim,
            "finding": claim.finding.value,
            "quote": spans[number].quote if number in spans else claim.quote,
            "why": claim.why,
            "start": spans[number].start if number in spans else None,
            "end": spans[number].end if number in spans else None,
            "match": spans[number].match.value if number in spans else "",
        }
        for number, claim in enumerate(verdict.claims)
    ]
    return Ruling(
        label=verified.label,
        said=verdict.label,
        reason=verified.reason or str(ABSTENTION.get(verified.label, "")),
        reasoning=verdict.reasoning,
        evidence=evidence,
    )


def ruling_from(kept: Kept) -> Ruling:
    """The verdict of a cache entry."""
    label = Label(kept.label)
    return Ruling(
        label=label,
        said=Label(kept.said),
        reason=str(ABSTENTION.get(label, "")),
        reasoning=kept.reasoning,
        evidence=kept.evidence,
    )


# --- Tries ----------------------------------------------------------------------------------------


def count_try(ids: Sequence[int]) -> tuple[set[int], set[int]]:
    """Count a try of each row that still lacks an answer, before it is asked about.

    Returns the rows that were counted, and those that were closed with judge_error: their tries are
    used up without an answer or a failure, so they have killed their process every time. A row that
    another worker has settled is in neither.
    """
    closed: set[int] = set()
    unanswered = "tip_followed_llm IS NULL AND llm_label = '' AND llm_reason = ''"
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE tip_retrievals SET llm_tries = llm_tries + 1 WHERE id = ANY(%s) "  # noqa: S608 - constant
            f"AND {unanswered} AND llm_tries < %s RETURNING id",
            [list(ids), settings.JUDGE_MAX_TRIES],
        )
        counted = {row[0] for row in cursor.fetchall()}
        if len(counted) < len(ids):
            cursor.execute(
                f"UPDATE tip_retrievals SET llm_reason = %s, llm_retry_at = NULL WHERE id = ANY(%s) "  # noqa: S608 - constant
                f"AND {unanswered} AND llm_tries >= %s RETURNING id",
                [Reason.JUDGE_ERROR, list(set(ids) - counted), settings.JUDGE_MAX_TRIES],
            )
            closed = {row[0] for row in cursor.fetchall()}
    return counted, closed


# --- Calls ----------------------------------------------------------------------------------------


def store_call(call: Call, source: Source) -> JudgeCall:
    """Keep what a call cost, also one whose reply could not be used."""
    error = call.error
    call_row = JudgeCall(
        run_id=source.run_id,
        tier=source.tier,
        requested_model=source.model[:200],
        prompt_sha256=source.prompt.sha256,
        tips=call.tips,
        again=call.again,
        http_tries=call.http_tries,
        seconds=call.seconds,
        error_class=type(error).__name__ if error else "",
        error=storable(str(error))[:500] if error else "",
        **answered_columns(call.reply, error),
    )
    return insert_rows([call_row])[0]


def answered_columns(reply: JudgeReply | None, error: JudgeError | None) -> dict[str, Any]:
    """The columns of a `JudgeCall` that only an answer fills, also one that could not be used."""
    came = reply or (error.received if error is not None else None)
    if came is None:
        return {"raw_reply": storable(error.provider_text)[:RAW_CHARS]} if error is not None else {}
    return {
        "served_model": storable(came.served_model or "")[:200],
        "system_fingerprint": storable(came.system_fingerprint or "")[:200],
        "latency_s": came.latency_s,
        "prompt_tokens": came.prompt_tokens,
        "cached_tokens": came.cached_tokens,
        "completion_tokens": came.completion_tokens,
        "reasoning_tokens": came.reasoning_tokens,
        "raw_reply": came.raw[:RAW_CHARS],
    }


# --- Verdicts -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """A verdict about one row. ``position``: place in its call; None when it came from the cache."""

    asked: Asked
    ruling: Ruling
    position: int | None = None
    served_model: str = ""
    system_fingerprint: str = ""


@transaction.atomic(savepoint=False)
def publish(said: Sequence[Said], source: Source, *, call: JudgeCall | None) -> list[Judgement]:
    """Write verdicts onto their rows; the judgements of those that took one, in no order."""
    if not said:
        return []
    written = _write_rulings(said, source)
    judgements = [
        Judgement(
            retrieval=one.asked.row,
            call=call if one.position is not None else None,
            supersedes=one.asked.supersedes,
            label=one.ruling.label.value,
            said=one.ruling.said.value,
            followed=one.ruling.followed,
            reasoning=one.ruling.reasoning,
            evidence=one.ruling.evidence,
            reason=one.ruling.reason,
            served_model=one.served_model,
            system_fingerprint=one.system_fingerprint,
            position=one.position,
            cached=one.position is None,
            **_of_asked(one.asked, source),
        )
        for one in said
        if one.asked.row.pk in written
    ]
    return insert_rows(judgements)


def _write_rulings(said: Sequence[Said], source: Source) -> set[int]:
    """One statement for all rows; the primary keys of those that took their verdict."""
    columns = zip(
        *(
            (
                one.asked.row.pk,
                one.ruling.label.value,
                one.ruling.followed,
                one.ruling.reason,
                any(one.asked.redactions.values()),
                one.asked.supersedes.label if one.asked.supersedes else "",
                _name_of(one.asked.supersedes),
            )
            for one in sorted(said, key=lambda one: one.asked.row.pk)  # as in memory.locks
        ),
        strict=True,
    )
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE tip_retrievals AS r SET
                llm_label = new.label, tip_followed_llm = new.followed, llm_reason = new.reason,
                llm_redacted = new.redacted, llm_source = %s, llm_retry_at = NULL,
                tip_followed_computed_at = now()
            FROM unnest(
                %s::bigint[], %s::text[], %s::bool[], %s::text[], %s::bool[], %s::text[], %s::text[]
            ) AS new(id, label, followed, reason, redacted, old_label, old_source)
            WHERE r.id = new.id AND r.llm_label = new.old_label AND (
                CASE WHEN new.old_label = '' THEN r.tip_followed_llm IS NULL
                ELSE r.llm_source = new.old_source END
            )
            RETURNING r.id""",
            [source.name, *(list(column) for column in columns)],
        )
        return {row[0] for row in cursor.fetchall()}


def _name_of(judgement: Judgement | None) -> str:
    if judgement is None:
        return ""
    return source_name(judgement.requested_model, judgement.prompt_sha256)


def keep(said: Sequence[Said], source: Source) -> None:
    """Put the verdicts that hold into the cache."""
    cache.keep(
        VerdictCache(
            key=one.asked.request_key,
            label=one.ruling.label.value,
            said=one.ruling.said.value,
            reasoning=one.ruling.reasoning,
            evidence=one.ruling.evidence,
            requested_model=source.model[:200],
            served_model=one.served_model,
            system_fingerprint=one.system_fingerprint,
            prompt_sha256=source.prompt.sha256,
        )
        for one in said
        if one.position is not None and cache.keepable(one.ruling.label, one.ruling.reason)
    )


# --- Failures -------------------------------------------------------------------------------------


@transaction.atomic(savepoint=False)
def note_failure(
    failed: Sequence[tuple[Asked, JudgeError]], source: Source, *, call: JudgeCall | None
) -> None:
    """Keep failures as judgements alone; the rows stay as they are."""
    insert_rows(
        [
            Judgement(
                retrieval=asked.row,
                call=call,
                reason=error.reason,
                error=storable(f"{type(error).__name__}: {error}")[:500],
                **_of_asked(asked, source),
            )
            for asked, error in failed
        ]
    )


@transaction.atomic(savepoint=False)
def fail(
    failed: Sequence[tuple[Asked, JudgeError, float | None, bool]],
    source: Source,
    *,
    call: JudgeCall | None,
) -> None:
    """Write why rows have no label: error, seconds to the next try (None: never), try given back."""
    columns = zip(
        *(
            (asked.row.pk, error.reason, delay, int(excused), any(asked.redactions.values()))
            for asked, error, delay, excused in sorted(failed, key=lambda one: one[0].row.pk)
        ),
        strict=True,
    )
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE tip_retrievals AS r SET
                llm_reason = new.reason, llm_retry_at = now() + new.delay * interval '1 second',
                llm_tries = greatest(r.llm_tries - new.excused, 0), llm_redacted = new.redacted
            FROM unnest(%s::bigint[], %s::text[], %s::float8[], %s::int[], %s::bool[])
                AS new(id, reason, delay, excused, redacted)
            WHERE r.id = new.id AND r.tip_followed_llm IS NULL AND r.llm_label = ''
            RETURNING r.id""",
            [list(column) for column in columns],
        )
        written = {row[0] for row in cursor.fetchall()}
    taken = [(asked, error) for asked, error, _, _ in failed if asked.row.pk in written]
    note_failure(taken, source, call=call)


def _of_asked(asked: Asked, source: Source) -> dict[str, Any]:
    return {
        "requested_model": source.model[:200],
        "prompt_id": source.prompt.id,
        "prompt_version": source.prompt.version,
        "prompt_sha256": source.prompt.sha256,
        "prompt_skill": source.prompt.skill[:64],
        "tier": source.tier,
        "request_key": asked.request_key,
        "redactions": {name: kinds for name, kinds in asked.redactions.items() if kinds},
        "cross_skill": asked.cross_skill,
        "stakes": list(asked.stakes),
    }
