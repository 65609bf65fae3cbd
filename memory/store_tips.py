"""Tips and bans as an agent saves them: nearly the same words are one tip, the same pattern is one ban.

Guarantees: a text that differs from a stored one only in case, spaces, full stops at its end or the
forms that Unicode calls compatible is not stored again, whoever saved the first; two agents who save it
at once make one tip, and one of them is told that it was made. That a retired one was learned again is
noted (TipChange). A ban is one per run, rule and pattern. Texts are stored whole or refused, not cut.

Does not look for tips that say the same in other words (the ranker groups those), and does not stop a
posted run from bringing a text that is stored here: senders name their tips themselves.

Shaped by: 8,000 tips of which five at a time said the same; bans cut at 200 characters, and of those only
the first 200 in the alphabet read.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import F, Max
from django.utils import timezone

from memory.duplicates import words_sha256
from memory.models import Ban, Run, Tip, TipChange
from memory.store_values import SavedTip

if TYPE_CHECKING:
    from contextgraph.envelope import TipEntry
    from memory.models import Attempt


def says_something(text: str) -> bool:
    """Whether anything is left of *text* when case, spaces and full stops do not count."""
    return bool(words_sha256(text))


def known_tip(skill: str, words: str) -> Tip | None:
    """A tip of *skill* in these *words* (their sha256): one in use rather than a retired one, the oldest
    first; by an index. No words are nobody's."""
    if not words:
        return None
    alike = Tip.objects.filter(skill=skill, words_sha256=words)
    in_use_first = alike.order_by(F("retired_at").asc(nulls_first=True), "pk")
    return in_use_first.only("pk", "retired_at").first()


def name_of(text: str) -> str:
    """The external id of a tip saved here: the same words, the same id."""
    return f"tip-{words_sha256(text)[:32]}"


def born_of(attempt: Attempt) -> dict[str, Any]:
    """What a tip knows of the attempt that it was learned from."""
    return {
        "source_rule_id": attempt.rule_id,
        "outcome_at_source_value": attempt.outcome_value,
        "outcome_at_source_confidence": attempt.outcome_confidence,
        "source_attempt": attempt.number,
    }


def save(run: Run, entry: TipEntry) -> SavedTip:
    """Store *entry* unless the skill has a tip in nearly these words."""
    row = _row(run, entry)
    known = known_tip(run.skill, row.words_sha256)
    if known is None:
        if _inserted(row):
            return SavedTip(row.pk, created=True)
        known = known_tip(run.skill, row.words_sha256)  # another agent was faster
    if known is None:
        row.external_id = f"{entry.tip}-{uuid.uuid4().hex}"  # the name was given to something else
        row.save(force_insert=True)
        return SavedTip(row.pk, created=True)
    if known.retired_at is not None:
        note_proposal(known.pk, run)
    return SavedTip(known.pk, created=False, retired=known.retired_at is not None)


def _row(run: Run, entry: TipEntry) -> Tip:
    return Tip(
        skill=run.skill,
        external_id=entry.tip,
        text=entry.text,
        text_sha256=hashlib.sha256(entry.text.encode()).hexdigest(),
        words_sha256=words_sha256(entry.text),
        tip_type=entry.tip_type,
        category=entry.category,
        mechanism=entry.mechanism,
        source_rule_id=entry.source_rule_id,
        source_run_id=entry.source_run_id,
        outcome_at_source_value=entry.outcome_at_source_value,
        outcome_at_source_confidence=entry.outcome_at_source_confidence,
        environment_tag=entry.environment_tag,
        scope=entry.scope,
        extra=entry.extra,
        text_repaired=entry.text_repaired,
    )


def _inserted(row: Tip) -> bool:
    """Whether *row* was stored; False when its skill has one of this name. Waits for who inserts it."""
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        row.pk = None
        if Tip.objects.filter(skill=row.skill, external_id=row.external_id).exists():
            return False
        raise
    return True


def note_proposal(tip_id: int, run: Run) -> None:
    """A retired lesson was learned again: noted once per run, for who decides about the tip."""
    said = {"tip_id": tip_id, "action": TipChange.Action.PROPOSE, "by": f"run {run}"[:150]}
    if not TipChange.objects.filter(**said).exists():
        reason = "an agent learned the same again"
        TipChange.objects.create(**said, reason=reason, at=timezone.now())


def add_ban(run: Run, pattern: str, rule_id: str) -> int:
    """Primary key of the run's ban of *pattern*, made if it is not there."""
    key = {"run": run, "rule_id": rule_id, "pattern": pattern}
    ban, _ = Ban.objects.get_or_create(**key, defaults={"skill": run.skill})
    return int(ban.pk)


def bans(skill: str, rule_id: str, *, limit: int) -> list[str]:
    """Patterns banned for *rule_id* or for every rule, in any run that counts; last reported first."""
    found = Ban.objects.filter(
        skill=skill, rule_id__in={"", rule_id}, run__superseded_at__isnull=True
    )
    latest = found.order_by().values("pattern").annotate(last=Max("pk"))
    return list(latest.order_by("-last").values_list("pattern", flat=True)[:limit])
