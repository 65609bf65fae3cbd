"""Makes one memo: writes, has it judged, keeps it; or serves the one that is kept.

Guarantees: what leaves here has passed the gate on the snapshot given. A text that the judge rejects
gives way to the writer's, with the reason, and is kept beside it; a judge that could not be asked
rejects too, as nobody vouches for the text, but what was kept before stays. The writer's own texts are
judged only where the request is a high-stakes one.

Holds no lock and reads no facts: the service does.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from django.utils import timezone

from scoring.judge.bench import DEFAULT, HIGH_STAKES, bench, configured
from scoring.memos import cache
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
        return self._kept(hit, snapshot)

    def served(self, hit: Hit, snapshot: Snapshot) -> MemoResult:
        """Return the kept memo, judged again first if the request wants a verdict that it lacks."""
        if not self._wants_verdict(hit.row):
            return self._kept(hit, snapshot)
        verdict = self._judged(hit.row.text, snapshot)
        if verdict is None:
            return self._kept(hit, snapshot)
        if verdict.unavailable and not self._is_writers(hit.row):
            return self._in_its_place(hit.row.text, snapshot, verdict)
        if verdict.accepted or self._is_writers(hit.row):
            cache.keep_verdict(hit.row, **_columns(verdict))
            return self._kept(hit, snapshot, calls=verdict.calls)
        return self._replaced(hit.row.text, hit.row.sides, snapshot, verdict, calls=0)

    def written(self, snapshot: Snapshot) -> MemoResult:
        """Write the memo anew, and keep it."""
        draft = synthesise(
            snapshot, mode=self.way.mode, variant=self.way.variant,  # type: ignore[arg-type]
            bench=bench(DEFAULT) if self.way.variant != "writer" else None, run_id=self.run_id,
        )  # fmt: skip
        by_model = draft.variant != "writer"
        text, reason = draft.text, draft.reason
        if by_model and not check(text, snapshot).passed:
            text, reason, by_model = (
                write(snapshot, mode=self.way.mode),
                "refused by the gate",
                False,
            )
        verdict = None
        if by_model or (self.high_stakes and configured(HIGH_STAKES)):
            verdict = self._judged(text, snapshot)
        sides = [asdict(side) for side in draft.sides]
        if by_model and verdict is not None and not verdict.accepted:
            return self._replaced(text, sides, snapshot, verdict, calls=draft.calls)
        return self._stored(text, snapshot, sides, reason, verdict, calls=draft.calls)

    # --- parts --------------------------------------------------------------------------------------

    def _wants_verdict(self, row: Memo) -> bool:
        return self.high_stakes and configured(HIGH_STAKES) and row.verdict_tier != HIGH_STAKES

    def _is_writers(self, row: Memo) -> bool:
        return row.variant == "writer" or bool(row.reason)

    def _judged(self, text: str, snapshot: Snapshot) -> MemoVerdict | None:
        tier = HIGH_STAKES if self.high_stakes and configured(HIGH_STAKES) else DEFAULT
        return judge_memo(text, snapshot, tier=tier, bench=bench(tier), run_id=self.run_id)

    def _kept(self, hit: Hit, snapshot: Snapshot, *, calls: int = 0) -> MemoResult:
        row = hit.row
        cache.count_hit(row)
        return result_of(
            row.text, snapshot, self.way, hit.gate, verdict=_verdict_of(row), sides=tuple(row.sides),
            reason=row.reason, cached=True, calls=calls, row=row.pk, hits=row.hits,
            written_at=row.written_at,
        )  # fmt: skip

    def _replaced(
        self, text: str, sides: list[dict[str, str]], snapshot: Snapshot, verdict: MemoVerdict,
        *, calls: int,
    ) -> MemoResult:  # fmt: skip
        """The writer's text in place of one that the judge rejected."""
        kept = [*sides, {"name": REJECTED, "text": text}]
        reason = f"judge: {verdict.reason}"[:REASON_CHARS]
        mended = write(snapshot, mode=self.way.mode)
        return self._stored(mended, snapshot, kept, reason, verdict, calls=calls)

    def _in_its_place(self, text: str, snapshot: Snapshot, verdict: MemoVerdict) -> MemoResult:
        """The writer's text for this request alone: the judge that it wants could not be asked."""
        mended = write(snapshot, mode=self.way.mode)
        return result_of(
            mended, snapshot, self.way, self._passed(mended, snapshot), verdict=verdict,
            sides=({"name": REJECTED, "text": text},), calls=verdict.calls,
            reason=f"judge: {verdict.reason}"[:REASON_CHARS],
        )  # fmt: skip

    def _stored(
        self, text: str, snapshot: Snapshot, sides: list[dict[str, str]], reason: str,
        verdict: MemoVerdict | None, *, calls: int,
    ) -> MemoResult:  # fmt: skip
        gate = self._passed(text, snapshot)
        calls += verdict.calls if verdict is not None else 0
        row = cache.store(
            self.way, snapshot, text, sides=sides, reason=reason[:REASON_CHARS], calls=calls,
            **(_columns(verdict) if verdict is not None else {}),
        )  # fmt: skip
        return result_of(
            text, snapshot, self.way, gate, verdict=verdict, sides=tuple(sides), reason=reason,
            calls=calls, row=row.pk if row else None, hits=row.hits if row else 0,
            written_at=row.written_at if row else timezone.now(),
        )  # fmt: skip

    def _passed(self, text: str, snapshot: Snapshot) -> Any:
        gate = check(text, snapshot)
        if not gate.passed:
            first = gate.findings[0].message if gate.findings else ""
            raise GateRefused(f"memo about {snapshot.product} {snapshot.identifier!r}: {first}")
        return gate


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
