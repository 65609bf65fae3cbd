"""What did the agent see when its sender did not say? The tip's own text, whole or cut.

Guarantees: where the sender names a limit (``shown_chars``), the text is cut to so many characters and
marked as cut, by the same count in Python and in SQL; the limit stays in the row's ``extra``, so that a
text which arrives later is cut too. A row whose text never arrived says so as the reason why no signal
can be computed for it.

Does not guarantee room: the caller asks :func:`room_needed` before it fills rows.

Shaped by: rows that said the agent saw a whole tip of which its prompt shows the first 150 characters;
the limit was thrown away, and could not be had again.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db.models import Case, F, Func, IntegerField, Sum, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Least, Left
from django.db.models.lookups import GreaterThan

from contextgraph.run_survey import MAX_INTEGER
from memory.reasons import Reason

if TYPE_CHECKING:
    from contextgraph.envelope import RetrievalEntry
    from memory.querysets import RetrievalQuerySet

LATE: Final = "late"
"""Stands in ``shown_sha256`` until the end of the run: the tip's text had not arrived yet."""

LIMIT_KEY: Final = "shown_chars"
"""Key in ``Retrieval.extra``: the agent saw at most so many first characters of the tip."""

_LIMIT = Coalesce(Cast(KeyTextTransform(LIMIT_KEY, "extra"), IntegerField()), Value(MAX_INTEGER))


class Shown(NamedTuple):
    """Columns of a retrieval, and what its ``extra`` must hold beside the sender's fields.

    ``sha256`` is "" while the text is not known, and that of no bytes when the agent saw none.
    """

    text: str = ""
    sha256: str = ""
    cut: bool = False
    extra: dict[str, Any] = {}


def shown_by(entry: RetrievalEntry, own: str | None) -> Shown:
    """What an entry shows; *own* is the tip's own text, None while it is not known."""
    if not entry.shown:
        return Shown(cut=entry.shown_cut)
    if entry.shown_text is not None:
        return Shown(entry.shown_text, _sha256_of(entry.shown_text), entry.shown_cut)
    limit = min(MAX_INTEGER if entry.shown_chars is None else entry.shown_chars, MAX_INTEGER)
    extra = {} if entry.shown_chars is None else {LIMIT_KEY: limit}
    if own is None:
        return Shown("", LATE, entry.shown_cut, extra)
    text = own[:limit]
    return Shown(text, _sha256_of(text), entry.shown_cut or len(own) > limit, extra)


def _sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _Sha256(Func):
    """The same in SQL; needs no extension of Postgres."""

    template = "ENCODE(SHA256(CONVERT_TO(%(expressions)s, 'UTF8')), 'hex')"
    output_field = TextField()


def room_needed(rows: RetrievalQuerySet, length: Any) -> int:
    """Characters that :func:`fill` would write; *length* is the length of the text, an expression."""
    each = rows.annotate(written=Least(length, _LIMIT))
    needed: int | None = each.aggregate(room=Sum("written"))["room"]
    return needed or 0


def fill(rows: RetrievalQuerySet, text: Any, length: Any) -> None:
    """Write *text* (an expression of that *length*) into *rows*, each cut to its own limit."""
    cut = Left(text, _LIMIT)
    rows.update(
        shown_text=cut,
        shown_sha256=_Sha256(cut),
        shown_cut=Case(When(GreaterThan(length, _LIMIT), then=Value(True)), default=F("shown_cut")),  # noqa: FBT003 - SQL's true
    )


def give_up(rows: RetrievalQuerySet) -> None:
    """Say in *rows* that the text has not come; a reason that ranks higher is kept."""
    unknown = Value(Reason.TIP_TEXT_UNKNOWN.value)
    replaced = {
        "llm_reason": ("", Reason.NO_OUTCOME.value),
        "emb_reason": ("",),
        "trace_reason": ("",),
    }
    rows.update(
        shown_sha256="",
        **{
            column: Case(When(**{f"{column}__in": weaker}, then=unknown), default=F(column))
            for column, weaker in replaced.items()
        },
    )


def awaiting(rows: RetrievalQuerySet) -> RetrievalQuerySet:
    """Those of *rows* whose text has not come."""
    return rows.filter(shown=True, shown_sha256="")
