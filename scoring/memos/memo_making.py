"""Makes one memo: writes, has it judged, keeps it; or serves the one that is kept.

Guarantees: what leaves here has passed the gate on the snapshot given. A text that the judge rejects
gives way to the writer's, with the reason, and is kept beside it. A judge that could not be asked, or
whose answer could not be read, rejects too, as nobody vouches for the text; but that is no verdict, and
is kept nowhere. The writer's text in a model's place never takes the row of a model's text that may be
served, unless the judge rejected that very text. A verdict counts as long as the judge and its prompt are
those that gave it. The writer's own texts are judged only where the request is a high-stakes one; a
result says why such a request was not met.

Holds no lock and reads no facts: the service does.

Shaped by: a judge that was away for a minute, and whose silence stood as a verdict ever after; and a
request without the cache that lost an accepted memo.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from django.utils import timezone

from scoring.judge.bench import DEFAULT, HIGH_STAKES, bench, configured
from scoring.judge.prompt_file import PromptError
from scoring.memos import cache
from scoring.memos.desk import memo_prompts
from scoring.memos.drafting import Purpose
from scoring.memos.gate import check
from scoring.memos.memo_judge import judge_memo
from scoring.memos.memo_result import MemoResult, result_of
from scoring.memos.stored import verdict_from_dict
from scoring.memos.synthesis import synthesise
from scoring.memos.writer import write

if TYPE_CHECKING:
    from scoring.memos.cache import Hit, Way
    from scoring.memos.facts import Snapshot
    from scoring.memos.memo_judge import MemoVerdict
    from scoring.models import Memo

logger = logging.getLogger(__name__)

REASON_CHARS: Final = 500
REJECTED: Final = "rejected"
"""Name under which a rejected text stands among the sides."""


class GateRefused(RuntimeError):
    """The writer's own text does not pass the gate: a fault of this program, never shown as a memo."""


@dataclass(frozen=True, slots=True)
class Making:
    """How one request is to be met. ``run_id``: on whose account calls go."""

    way: Way
    high_stakes: bool = False
    run_id: int | None = None

    def ready(self, snapshot: Snapshot) -> MemoResult | None:
        """Return the kept memo, if it may be served as it stands."""
        hit = cache.lookup(self.way, snapshot)
        if hit is None or self._wants_verdict(hit.row):
            return None
        return self._kept(hit, snapshot, _verdict_of(hit.row))

    def served(self, hit: Hit, snapshot: Snapshot) -> MemoResult:
        """Return the kept memo, judged again first if the request wants a verdict that it lacks."""
        row = hit.row
        if not self._wants_verdict(row):
            return self._kept(hit, snapshot, _verdict_of(row))
        verdict = self._judged(row.text, snapshot)
        if verdict is None:
            return self._kept(hit, snapshot, _verdict_of(row))
        if not verdict.accepted and not _is_writers(row):
            sides = list(row.sides)
            return self._replaced(row.text, sides, snapshot, verdict, keep=not verdict.error)
        if not verdict.error:
            cache.keep_verdict(row, **_columns(verdict))
        return self._kept(hit, snapshot, verdict, calls=verdict.calls)

    def written(self, snapshot: Snapshot) -> MemoResult:
        """Write the memo anew, and keep it; a text that the writer had to write spares a model's."""
        draft = synthesise(
            snapshot, mode=self.way.mode, variant=self.way.variant,  # type: ignore[arg-type]
            bench=bench(DEFAULT) if self.way.variant != "writer" else None, run_id=self.run_id,
        )  # fmt: skip
        by_model = draft.variant != "writer"
        text, reason = draft.text, draft.reason
        if by_model and not check(text, snapshot).passed:
            text, by_model = write(snapshot, mode=self.way.mode), False
            reason = "refused by the gate"
        verdict = None
        if by_model or self._tier == HIGH_STAKES:
            verdict = self._judged(text, snapshot)
        sides = [asdict(side) for side in draft.sides]
        if by_model and verdict is not None and not verdict.accepted:
            keep = not self._has_models(snapshot)
            return self._replaced(text, sides, snapshot, verdict, calls=draft.calls, keep=keep)
        keep = not reason or not self._has_models(snapshot)
        return self._stored(text, snapshot, sides, reason, verdict, calls=draft.calls, keep=keep)

    # --- parts --------------------------------------------------------------------------------------

    @property
    def _tier(self) -> str:
        """The judge that this request is met by: the stronger one where it is wanted and there is one."""
        return HIGH_STAKES if self.high_stakes and configured(HIGH_STAKES) else DEFAULT

    def _wants_verdict(self, row: Memo) -> bool:
        """Whether a judge has to be asked first: who judged the row may be another judge than today's.

        High stakes want a verdict of that tier, by its model and with the prompt of today. Else a text of
        a model needs one that accepts it, of any tier, with the prompt of today.
        """
        said = _verdict_of(row)
        strong = bench(HIGH_STAKES) if self._tier == HIGH_STAKES else None
        if strong is None and _is_writers(row):
            return False
        if said is None or said.error or said.prompt_sha != judge_sha():
            return True
        if strong is None:
            return not said.accepted
        return (said.tier, said.model) != (strong.tier, strong.config.model)

    def _has_models(self, snapshot: Snapshot) -> bool:
        """Whether a text of a model is kept that may be served: the writer's is no better."""
        hit = cache.lookup(self.way, snapshot)
        return hit is not None and not _is_writers(hit.row)

    def _judged(self, text: str, snapshot: Snapshot) -> MemoVerdict | None:
        tier = self._tier
        return judge_memo(text, snapshot, tier=tier, bench=bench(tier), run_id=self.run_id)

    def _unmet(self, verdict: MemoVerdict | None, reason: str) -> str:
        """Why a high-stakes request has no verdict of that tier on its text; "" if it has, or is none."""
        if not self.high_stakes:
            return ""
        if not configured(HIGH_STAKES):
            return "no stronger judge is configured"
        if verdict is None or verdict.tier != HIGH_STAKES:
            return "the stronger judge has not been asked"
        if verdict.error:
            return verdict.reason
        if not verdict.accepted and reason == _because(verdict):
            return "the stronger judge rejected the model's text, and has not seen the writer's"
        return ""

    def _kept(
        self, hit: Hit, snapshot: Snapshot, verdict: MemoVerdict | None, *, calls: int = 0
    ) -> MemoResult:
        """The kept text, with a verdict of today or the one beside it. ``calls``: for this request."""
        row = hit.row
        cache.count_hit(row)
        return result_of(
            row.text, snapshot, self.way, hit.gate, verdict=verdict, sides=tuple(row.sides),
            reason=row.reason, unmet=self._unmet(verdict, row.reason), cached=True, row=row.pk,
            calls=calls, hits=row.hits, written_at=row.written_at,
        )  # fmt: skip

    def _replaced(
        self, text: str, sides: list[dict[str, str]], snapshot: Snapshot, verdict: MemoVerdict,
        *, calls: int = 0, keep: bool,
    ) -> MemoResult:  # fmt: skip
        """The writer's text in place of one that the judge rejected, or that no judge could look at."""
        kept = [*sides, {"name": REJECTED, "text": text}]
        mended = write(snapshot, mode=self.way.mode)
        because = _because(verdict)
        return self._stored(mended, snapshot, kept, because, verdict, calls=calls, keep=keep)

    def _stored(
        self, text: str, snapshot: Snapshot, sides: list[dict[str, str]], reason: str,
        verdict: MemoVerdict | None, *, calls: int, keep: bool,
    ) -> MemoResult:  # fmt: skip
        """The result, kept if ``keep``; a verdict that is an error is for this request alone."""
        gate = self._passed(text, snapshot)
        calls += verdict.calls if verdict is not None else 0
        said = _columns(verdict) if verdict is not None and not verdict.error else {}
        reason = reason[:REASON_CHARS]
        row = None
        if keep:
            row = cache.store(
                self.way, snapshot, text, sides=sides, reason=reason, calls=calls, **said
            )
        return result_of(
            text, snapshot, self.way, gate, verdict=verdict, sides=tuple(sides), reason=reason,
            unmet=self._unmet(verdict, reason), calls=calls, row=row.pk if row else None,
            hits=row.hits if row else 0, written_at=row.written_at if row else timezone.now(),
        )  # fmt: skip

    def _passed(self, text: str, snapshot: Snapshot) -> Any:
        gate = check(text, snapshot)
        if not gate.passed:
            first = gate.findings[0].message if gate.findings else ""
            raise GateRefused(f"memo about {snapshot.product} {snapshot.identifier!r}: {first}")
        return gate


def judge_sha() -> str:
    """Return the digest of the prompt with which memos are judged today, "" if it cannot be read."""
    try:
        return memo_prompts().sha256(Purpose.JUDGE)
    except PromptError:
        return ""  # the judge says what is wrong with the file


def _is_writers(row: Memo) -> bool:
    return row.variant == "writer" or bool(row.reason)


def _because(verdict: MemoVerdict) -> str:
    """The reason of a row whose text stands in place of the one that ``verdict`` rejected."""
    return f"judge: {verdict.reason}"[:REASON_CHARS]


def _columns(verdict: MemoVerdict) -> dict[str, Any]:
    return {
        "verdict": verdict.as_dict(),
        "verdict_tier": verdict.tier,
        "accepted": verdict.accepted,
        "judged_at": timezone.now(),
    }


def _verdict_of(row: Memo) -> MemoVerdict | None:
    if row.verdict is None:
        return None
    try:
        return verdict_from_dict(row.verdict)
    except ValueError:
        logger.warning("memo.verdict_unreadable", extra={"memo": row.pk})
        return None
