"""Reviewed rows as labels for a calibration: whose verdicts stand on them, and which rows count.

Guarantees: one judge at a time, by model and by the very bytes of its prompt: the prompt in use
unless another is named, by skill, by skill@version or by the beginning of its sha256. A row that this
judge was never asked about keeps its other signals and is no failure of the judge. Rows of another
judge are left out whole. Writes nothing.

Does not guarantee unbiased figures: reviewers see the rows that looked doubtful. Shaped by reviews of
two versions of one prompt, which no option could tell apart.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory.models import Retrieval
from scoring.attribution import signals_of
from scoring.calibrated import TOGETHER
from scoring.calibrating import Gathered, Judge, served_as
from scoring.model_size import ModelTooSmall, source_name, too_small
from scoring.models import Judgement
from scoring.pair_signals import COMBINED, JUDGE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from scoring.judge.prompt import PromptLibrary

_SHA256: Final = re.compile(r"[0-9a-f]{6,64}")
_VERSIONED: Final = re.compile(r"(?P<skill>[^@]+)@(?P<version>[0-9]{1,9})")
_NAMED: Final = 10
"""Judges that an error names at most."""


class NoReviews(LookupError):
    """There is nothing to compare with, or it mixes several judges; says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reviewed:
    """A label of a person on a stored row."""

    followed: bool
    kind: str
    rule: str


def gather_reviews(
    names: Collection[str],
    *,
    prompts: PromptLibrary,
    prompt: str | None = None,
    model: str | None = None,
) -> Gathered:
    """Reviewed rows of current revisions, with the signals stored on them; kinds are skills.

    Args:
        names: of SIGNALS; without a judge among them all reviewed rows count.
        prompts: the prompt files in use.
        prompt: a skill, skill@version, or the beginning of a sha256; None: the one in use for each row.
        model: the judge's.

    Raises:
        NoReviews: no row, none of this judge, or several judges and none chosen.
        ModelTooSmall: figures of this judge are never shown.
        PromptError: a prompt file in use does not fit.
    """
    rows = Retrieval.objects.counted().filter(shown=True, tip_followed_review__isnull=False)
    found = list(rows.defer("shown_text", "extra", "tip_followed_trace_evidence").order_by("pk"))
    if not found:
        raise NoReviews("no row is reviewed: review some in the admin")
    judge, asked = Judge(), frozenset[int]()
    wanted = bool({JUDGE, COMBINED} & set(names))
    if wanted and (source := _source(found, prompts=prompts, prompt=prompt, model=model)):
        found = _rows_of(source, found)
        judge, asked = _measured(source, found)
    return Gathered(
        pairs=[_reviewed(row) for row in found],
        signals=[signals_of(row) for row in found],
        asked=[row.pk in asked for row in found],
        judge=judge,
        labels="human",
        sha256=_digest(found),
        notes=tuple(_notes(names, judge, len(found) - len(asked))),
    )


def _reviewed(row: Retrieval) -> Reviewed:
    return Reviewed(followed=bool(row.tip_followed_review), kind=row.skill, rule=row.rule_id)


def _rows_of(source: str, rows: Sequence[Retrieval]) -> list[Retrieval]:
    """Those of this judge, and of the same skills those without a judge."""
    skills = {row.skill for row in rows if row.llm_source == source}
    return [
        row
        for row in rows
        if row.llm_source == source or (not row.llm_source and row.skill in skills)
    ]


def _digest(rows: Iterable[Retrieval]) -> str:
    listing = json.dumps([[row.pk, row.tip_followed_review] for row in rows])
    return hashlib.sha256(listing.encode()).hexdigest()


def _notes(names: Collection[str], judge: Judge, unasked: int) -> Iterable[str]:
    if JUDGE in names and not judge:
        yield "judge: left out, no reviewed row has a verdict"
    if judge and unasked:
        yield f"judge: {unasked} reviewed rows that it was never asked about are not in its figures"
    yield (
        "reviewed rows are no random sample: reviewers are led to doubtful rows, so these figures are "
        "worse than those of all rows"
    )


# --- Which judge? ---------------------------------------------------------------------------------


def _source(
    rows: Sequence[Retrieval], *, prompts: PromptLibrary, prompt: str | None, model: str | None
) -> str:
    """The one judge whose verdicts are measured, as in ``llm_source``; empty: no row has any."""
    counts = Counter((row.llm_source, row.skill) for row in rows if row.llm_source)
    if not counts:
        return ""
    sha256 = None if prompt is None else _sha256_of(prompt, prompts, rows)
    chosen = {
        source
        for source, skill in counts
        if source.endswith(f"@{sha256 or prompts.for_skill(skill).sha256}")
        and (model is None or source == source_name(model, source.rpartition("@")[2]))
    }
    if len(chosen) == 1:
        (source,) = chosen
        name = source.rpartition("@")[0]
        if too_small(name):
            raise ModelTooSmall(name)
        return source
    if chosen:
        raise NoReviews(
            f"the reviewed rows were judged by {len(chosen)} judges ({_listed(chosen)}): "
            f"choose one with --model and --prompt"
        )
    which = "the prompt in use" if prompt is None else f"the prompt {prompt}"
    raise NoReviews(
        f"no reviewed row was judged with {which}{f' by {model}' if model else ''}; they were judged "
        f"by {_listed({source for source, _ in counts})}: name one of them with --model and --prompt"
    )


def _sha256_of(prompt: str, prompts: PromptLibrary, rows: Sequence[Retrieval]) -> str:
    """The sha256 of the prompt that is named. Raises NoReviews where that is none, or several."""
    if (prompts.root / prompt).is_dir():
        return prompts.for_skill(prompt).sha256
    if versioned := _VERSIONED.fullmatch(prompt):
        said = Judgement.objects.filter(
            retrieval__in=[row.pk for row in rows],
            prompt_skill=versioned["skill"],
            prompt_version=int(versioned["version"]),
        )
        found = set(said.values_list("prompt_sha256", flat=True))
    elif _SHA256.fullmatch(prompt):
        shas = {row.llm_source.rpartition("@")[2] for row in rows if row.llm_source}
        found = {sha for sha in shas if sha.startswith(prompt)}
    else:
        raise NoReviews(f"{prompt!r} is no skill with a prompt, no skill@version and no sha256")
    if len(found) != 1:
        named = f": {_listed(found)}" if found else ""
        raise NoReviews(f"{len(found)} prompts of the reviewed rows are called {prompt}{named}")
    return found.pop()


def _listed(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more


def _measured(source: str, rows: Sequence[Retrieval]) -> tuple[Judge, frozenset[int]]:
    """The judge with all that its judgements say of it, and the rows that it was asked about."""
    sha256 = source.rpartition("@")[2]
    said = Judgement.objects.filter(retrieval__in=[row.pk for row in rows], prompt_sha256=sha256)
    latest = {
        one.retrieval_id: one
        for one in said.order_by("pk").only(
            "retrieval_id", "requested_model", "label", "followed", "served_model",
            "system_fingerprint", "position",
        )
        if source_name(one.requested_model, sha256) == source
    }  # fmt: skip
    verdicts = [one for one in latest.values() if one.label or one.followed is not None]
    together = any((one.position or 0) > 1 for one in verdicts)
    judge = Judge(
        model=source.rpartition("@")[0],
        prompt_sha256=sha256,
        mode=TOGETHER if together else "per_tip",
        served=served_as(
            (one.served_model, one.system_fingerprint, one.followed is not None) for one in verdicts
        ),
    )
    return judge, frozenset(latest) | {row.pk for row in rows if row.llm_source == source}
