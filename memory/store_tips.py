"""Tips and bans as an agent saves them: nearly the same words are one tip, the same pattern is one ban.

Guarantees: a text that differs from a stored one only in case, spaces, full stops at its end or the
forms that Unicode calls compatible is not stored again, whoever saved the first; two agents who save it
at once make one tip. A ban is one per run, rule and pattern. Texts are stored whole or refused, not cut.

Does not look for tips that say the same in other words (the ranker groups those), and does not stop a
posted run from bringing a text that is stored here: senders name their tips themselves.

Shaped by: 8,000 tips of which five at a time said the same; bans cut at 200 characters, and of those only
the first 200 in the alphabet read.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any, Final

from django.db.models import F, Func, Max, Q, TextField, Value
from django.db.models.functions import Collate, Lower

from memory.duplicates import Advice
from memory.models import Ban, Run, Tip
from memory.store_values import SavedTip

if TYPE_CHECKING:
    from contextgraph.envelope import TipEntry
    from memory.models import Attempt

_DROPPED: Final = " \t\n\r\f\v\x1c\x1d\x1e\x1f."
"""ASCII that normalising may take away."""
_SQUEEZE: Final = str.maketrans("", "", _DROPPED)


_SQUEEZED: Final = Func(
    Lower(Collate("text", "C")), Value(_DROPPED), Value(""),
    function="translate", output_field=TextField(),
)  # fmt: skip
"""SQL: a text in lower case (ASCII only) without what normalising may take away."""


def says_something(text: str) -> bool:
    """Whether anything is left of *text* when case, spaces and full stops do not count."""
    return bool(Advice(text).plain)


def known_tip(skill: str, text: str) -> Tip | None:
    """A tip of *skill* in nearly these words: one in use rather than a retired one, the oldest first.

    Reads every text that may be equal: those that are, but for spaces and full stops, and those with
    characters beyond ASCII, whose forms only Python compares.
    """
    plain = Advice(text).plain
    alike = Q(squeezed=plain.translate(_SQUEEZE)) | Q(text__regex="[^\\x01-\\x7f]")
    found = (
        Tip.objects.filter(skill=skill)
        .exclude(text="")
        .annotate(squeezed=_SQUEEZED)
        .filter(alike)
        .order_by(F("retired_at").asc(nulls_first=True), "pk")
        .only("pk", "text", "retired_at")
    )
    return next((tip for tip in found.iterator() if Advice(tip.text).plain == plain), None)


def name_of(text: str) -> str:
    """The external id of a tip saved here: the same words, the same id."""
    return "tip-" + hashlib.sha256(Advice(text).plain.encode()).hexdigest()[:32]


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
    known = known_tip(run.skill, entry.text)
    if known is not None:
        return SavedTip(known.pk, created=False, retired=known.retired_at is not None)
    row = Tip(
        skill=run.skill,
        external_id=entry.tip,
        text=entry.text,
        text_sha256=hashlib.sha256(entry.text.encode()).hexdigest(),
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
    Tip.objects.bulk_create([row], ignore_conflicts=True)
    stored = Tip.objects.get(skill=run.skill, external_id=entry.tip)
    if stored.text == entry.text:
        return SavedTip(stored.pk, created=True)
    if Advice(stored.text).plain == Advice(entry.text).plain:  # another agent was faster
        return SavedTip(stored.pk, created=False, retired=stored.retired_at is not None)
    row.external_id = f"{entry.tip}-{uuid.uuid4().hex}"  # the name was given to something else
    row.save(force_insert=True)
    return SavedTip(row.pk, created=True)


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
