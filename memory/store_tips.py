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
import re
import uuid
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from django.db.models import (
    BooleanField,
    Case,
    ExpressionWrapper,
    F,
    Func,
    IntegerField,
    Max,
    Q,
    TextField,
    When,
)
from django.db.models.functions import Collate, Length
from django.db.models.lookups import Exact, IRegex

from memory.duplicates import Advice
from memory.models import Ban, Run, Tip
from memory.store_values import SavedTip

if TYPE_CHECKING:
    from contextgraph.envelope import TipEntry
    from memory.models import Attempt

_SPACE: Final = "[ \t\n\r\f\v\x1c-\x1f\x85\u1680\u2028\u2029]"
"""What ``str.split`` takes for a space, once NFKC has made spaces of the others."""
_PREFIX: Final = 100
"""Characters that are compared in the database."""
_UNFOLDED: Final = "[\u00df\u1e9e\u0130\u01f0\u1e96\u1e97\u1e98\u1e99]"
"""Letters that case folding, and not NFKC, turns into ASCII: sharp s, dotted I and their like."""
_NORMAL: Final = Func(
    F("text"), template="normalize(%(expressions)s, NFKC)", output_field=TextField()
)


def says_something(text: str) -> bool:
    """Whether anything is left of *text* when case, spaces and full stops do not count."""
    return bool(Advice(text).plain)


def known_tip(skill: str, text: str) -> Tip | None:
    """A tip of *skill* in nearly these words: one in use rather than a retired one, the oldest first.

    The database looks through the skill for texts that begin alike; only those are read and compared.
    """
    plain = Advice(text).plain
    alike = Tip.objects.filter(skill=skill).exclude(text="").filter(_may_be(plain))
    in_use_first = alike.order_by(F("retired_at").asc(nulls_first=True), "pk")
    found = in_use_first.only("pk", "text", "retired_at")
    return next((tip for tip in found.iterator() if Advice(tip.text).plain == plain), None)


def _may_be(plain: str) -> Q:
    """Holds for every text with this plain form, and for few others: it looks at the ASCII in front.

    NFKC costs the database more than the search, and changes no text that is all ASCII.
    """
    words = "".join(takewhile(str.isascii, plain[:_PREFIX])).split()
    begins = f"^{_SPACE}*" + f"{_SPACE}+".join(map(re.escape, words))
    octets = Func("text", function="octet_length", output_field=IntegerField())
    as_it_is = IRegex(Collate("text", "C"), begins)
    normal = IRegex(Collate(_NORMAL, "C"), begins)
    ascii_may_be = Q(as_it_is) if plain.isascii() else Q(pk__in=[])
    return Q(
        Case(
            When(
                Exact(octets, Length("text")),
                then=ExpressionWrapper(ascii_may_be, BooleanField()),
            ),
            default=ExpressionWrapper(Q(normal) | Q(text__regex=_UNFOLDED), BooleanField()),
        )
    )


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
