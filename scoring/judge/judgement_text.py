"""What a judge found about each row of one run, claim by claim, for ``show_run``.

Guarantees: every judgement of the run, the failed, cached and superseded ones too, in the order of
attempts, ranks and time; one query, and one more for who is calibrated; texts of tips, scripts and
models are made visible. Says what was stored and asks nobody.

Shaped by a run whose verdicts could be counted and priced, and read only one by one in the admin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory.provenance import UNCALIBRATED, standing_of
from memory.run_sections import Section
from memory.terminal import visible
from scoring.model_size import source_name
from scoring.models import Judgement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory.models import Run

SHOWN: Final = 200
"""Characters of one text in a line; JSON has all of them."""
FIELDS: Final = (
    "label", "said", "followed", "reason", "reasoning", "error", "tier", "stakes", "requested_model",
    "served_model", "prompt_id", "prompt_version", "prompt_skill", "cross_skill", "cached",
    "redactions", "evidence",
)  # fmt: skip


def section(run: Run) -> Section:
    """The judgements about the rows of *run*."""
    found: list[Any] = list(
        Judgement.objects.filter(retrieval__run=run)
        .select_related("retrieval__attempt", "retrieval__tip", "superseded_by")
        .only(
            *FIELDS, "prompt_sha256", "superseded_by__id", "retrieval__rank", "retrieval__rule_id",
            "retrieval__attempt__number", "retrieval__tip__external_id",
        )
        .order_by("retrieval__attempt_id", "retrieval__rank", "retrieval_id", "id")
    )  # fmt: skip
    unproved = standing_of(map(_source, found)).uncalibrated
    told = [_as_dict(one, unproved) for one in found]
    return Section(
        data={"judgements": told}, lines=tuple(line for one in told for line in _lines(one))
    )


def _source(one: Any) -> str:
    return source_name(one.requested_model, one.prompt_sha256)


def _as_dict(one: Any, unproved: frozenset[str]) -> dict[str, Any]:
    row = one.retrieval
    return {
        "id": one.pk,
        "retrieval_id": row.pk,
        "rule_id": row.rule_id,
        "attempt": row.attempt.number,
        "tip": row.tip.external_id,
        "superseded": hasattr(one, "superseded_by"),
        UNCALIBRATED: bool(one.label) and _source(one) in unproved,
        **{name: getattr(one, name) for name in FIELDS},
    }


def _lines(one: dict[str, Any]) -> Iterator[str]:
    marks = [
        mark
        for mark, holds in (
            (UNCALIBRATED, one[UNCALIBRATED]),
            ("from the cache", one["cached"]),
            ("a tip of another skill", one["cross_skill"]),
            ("secrets were taken out", any(one["redactions"].values())),
            (f"asked because: {_words(', '.join(one['stakes']))}", one["stakes"]),
            ("superseded", one["superseded"]),
        )
        if holds
    ]
    label = _words(
        one["label"] or one["reason"] or {True: "followed"}.get(one["followed"], "ignored")
    )
    if one["said"] and one["said"] != one["label"]:
        label += f" (said {_words(one['said'])}: {_words(one['reason'])})"
    yield (
        f"{_cut(one['rule_id'])} #{one['attempt']}, {_cut(one['tip'])}: {label}, by "
        f"{_cut(one['requested_model'])} ({one['tier']}){''.join(f'; {mark}' for mark in marks)}"
    )
    if text := one["error"] or one["reasoning"]:
        yield f"  {_cut(text)}"
    for claim in one["evidence"]:
        quote = f" “{_cut(claim['quote'])}” ({_words(claim['match'])})" if claim["quote"] else ""
        yield f"  - {_cut(claim['claim'])}: {_words(claim['finding'])}{quote}; {_cut(claim['why'])}"


def _cut(text: str) -> str:
    return visible(text, limit=SHOWN)


def _words(code: str) -> str:
    return visible(code.replace("_", " "), limit=SHOWN)
