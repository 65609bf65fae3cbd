"""Does this memory have the disease: many plausible tips, credited by luck, and success that falls?

``diagnose`` gives a Diagnosis per skill; ``diagnosis_render`` prints it, ``as_dict`` is the JSON. The
disease (context-graph pattern, third bullet) needs a *symptom*, that success with a long history trails
success with a fresh one, and a *mechanism*, that tips are credited for what they did not do or are
followed more into failures than into successes. Either alone is not called the disease: hard categories
trail without any memory at fault, and idle tips do no harm by being there.

Guarantees: every criterion has its figure, its interval and its limit, a named constant below; "cannot
tell" where the interval leaves both answers open or the evidence is too small; one skill at a time, as
credit is. Reads the whole history of the skill by aggregate queries, as of one moment; writes nothing.

Does not prove cause (nothing here was withheld at random), and does not see what ``diagnosis_history``
says it cannot: difficulty of categories within a run, changes of model or agent between runs.

Shaped by: a memory that grew to thousands of tips while success stood still, and was taken for healthy.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory.audit.plain import fields_as_data
from memory.audit.scope import Scope
from memory.diagnosis_corpus import Attribution, Corpus, attribution, corpus
from memory.diagnosis_history import History, history
from memory.models import Run
from memory.run_diff.paired import ALPHA, difference_interval, p_text
from memory.snapshot import one_moment

if TYPE_CHECKING:
    from memory.credit import Policy
    from memory.diagnosis_rates import ClusteredRate, WithinRuns
    from memory.run_diff.paired import Paired

DIAGNOSIS_VERSION: Final = 1
"""Of the shape of the JSON."""

TRAILS_BY: Final = 0.10
"""A symptom is absent when the interval excludes a fall of this much, in rates of success."""

MIN_RULES: Final = 20
"""Fewer observations on a side (rules in runs, or paired rules) decide nothing."""

LUCKY_SHARE: Final = 0.5
"""Unearned credit: more than this share of the tips present at a success were ignored."""

HARMS_BY: Final = 0.10
"""Bad advice is absent when the interval excludes that tips are followed so much more at failures."""

MIN_CLUSTERS: Final = 10
"""Rows of fewer rules decide nothing about what tips did."""

CROWDED: Final = 10.0
"""Active tips per rule, twice what a prompt is shown: most of them can never be shown. Context only."""


class State(enum.StrEnum):
    """Whether a criterion holds."""

    PRESENT = "present"
    ABSENT = "absent"
    UNCLEAR = "cannot tell"


class Role(enum.StrEnum):
    """What a criterion counts for; context decides nothing."""

    SYMPTOM = "symptom"
    MECHANISM = "mechanism"
    CONTEXT = "context"


class Verdict(enum.StrEnum):
    """The answer."""

    HEALTHY = "healthy"
    DISEASE = "shows the disease"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """``figure``: what was found, with n and interval; ``limit``: what it was held against."""

    code: str
    role: Role
    question: str
    state: State
    figure: str
    limit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """The verdict on one skill, why, and all that it rests on."""

    skill: str
    policy: str
    verdict: Verdict
    why: str
    criteria: tuple[Criterion, ...]
    history: History
    corpus: Corpus
    attribution: Attribution

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON: numbers rounded to six places."""
        return {"version": DIAGNOSIS_VERSION, **fields_as_data(self)}


class NothingToDiagnose(LookupError):
    """No run is stored; says what to do."""


def diagnose(*, policy: Policy, skill: str | None = None) -> list[Diagnosis]:
    """One diagnosis per skill that has runs, by name; or that of *skill* alone.

    Raises:
        ScopeError: nothing is stored about *skill*.
        NothingToDiagnose: it, or the whole memory, has no run.
    """
    with one_moment():
        Scope(skill=skill).require_known_skill()
        runs = Run.objects.current().order_by("skill")
        chosen = runs.filter(skill=skill) if skill is not None else runs
        skills = list(chosen.values_list("skill", flat=True).distinct())
        if not skills:
            where = f"skill {skill!r}" if skill is not None else "this memory"
            msg = f"{where} has no run yet: post one (manage.py post_run FILE), then diagnose again"
            raise NothingToDiagnose(msg)
        return [_diagnosis(name, policy) for name in skills]


def _diagnosis(skill: str, policy: Policy) -> Diagnosis:
    past, tips, what_tips_did = history(skill), corpus(skill), attribution(skill, policy)
    criteria = (
        _long_trails_fresh(past.same_runs),
        _same_rules_fall(past.same_rules),
        _unearned_credit(what_tips_did.lucky),
        _bad_advice(what_tips_did),
        _crowded(tips),
    )
    verdict, why = verdict_on(criteria)
    return Diagnosis(
        skill=skill,
        policy=policy.name,
        verdict=verdict,
        why=why,
        criteria=criteria,
        history=past,
        corpus=tips,
        attribution=what_tips_did,
    )


def verdict_on(criteria: tuple[Criterion, ...]) -> tuple[Verdict, str]:
    """Disease: a symptom and a mechanism. Healthy: a symptom known absent, none present, and no harm.

    Tips that only stood by do no harm of themselves: with success that does not fall, and advice that
    does not fail, a memory full of them is healthy.
    """
    symptoms = {one.state for one in criteria if one.role is Role.SYMPTOM}
    states = {one.code: one.state for one in criteria}
    idle, harm = states["unearned_credit"], states["bad_advice"]
    if State.PRESENT in symptoms:
        if State.PRESENT in (idle, harm):
            return Verdict.DISEASE, SICK
        return Verdict.UNKNOWN, NO_MECHANISM
    if harm is State.PRESENT:
        return Verdict.UNKNOWN, NO_SYMPTOM
    harmless = harm is State.ABSENT or idle is State.ABSENT
    if State.ABSENT in symptoms and harmless:
        return Verdict.HEALTHY, WELL_BUT_IDLE if idle is State.PRESENT else WELL
    return Verdict.UNKNOWN, TOO_LITTLE


SICK: Final = (
    "Success falls with history, and tips are credited or followed wrongly: look at the suspects "
    "(audit_memory) before any more tips are stored."
)
NO_MECHANISM: Final = (
    "Success falls with history, but the record of the tips does not show that they are why: harder "
    "categories, or another model or agent, would look the same."
)
NO_SYMPTOM: Final = (
    "Tips are followed more at failures, but success is not seen to fall with history: the cause is "
    "there, the harm is not, or not yet, or cannot be measured."
)
WELL: Final = "Success does not fall with history, and the record of the tips shows no harm."
WELL_BUT_IDLE: Final = (
    f"{WELL} Most tips present at a success were ignored: a policy that credits by outcome alone "
    "would credit them."
)
TOO_LITTLE: Final = "Too little evidence for or against: see which criteria cannot be told."


def _long_trails_fresh(found: WithinRuns) -> Criterion:
    state = State.UNCLEAR
    enough = min(found.old.n, found.young.n) >= MIN_RULES
    if enough and found.low is not None and found.high is not None and found.p is not None:
        if found.high < 0 and found.p < ALPHA:
            state = State.PRESENT
        elif found.low > -TRAILS_BY:
            state = State.ABSENT
    figure = "no run has both long and fresh categories"
    if found.difference is not None:
        figure = (
            f"{_points(found.difference, found.low, found.high)}, p {p_text(found.p)}; "
            f"{found.old.n} rules in {found.old_categories} long categories against {found.young.n} in "
            f"{found.young_categories} fresh ones, {found.strata} runs"
        )
    return Criterion(
        code="long_trails_fresh",
        role=Role.SYMPTOM,
        question="Within runs, do categories with a long history trail those with a fresh one?",
        state=state,
        figure=figure,
        limit=f"{_fall()}, {MIN_RULES} rules on each side",
    )


def _same_rules_fall(found: Paired) -> Criterion:
    state = State.UNCLEAR
    low, high = difference_interval(found) or (None, None)
    if found.n >= MIN_RULES and low is not None:
        if (found.p_value or 0.0) < ALPHA and found.regressions > found.wins:
            state = State.PRESENT
        elif low > -TRAILS_BY:
            state = State.ABSENT
    figure = "no rule was graded at a fresh and at a long history"
    if found.difference is not None:
        figure = (
            f"{_points(found.difference, low, high)}, p {p_text(found.p_value)}; of {found.n} rules "
            f"{found.wins} were won and {found.regressions} lost since"
        )
    return Criterion(
        code="same_rules_fall",
        role=Role.SYMPTOM,
        question="Do the same rules do worse at a long history than at a fresh one?",
        state=state,
        figure=figure,
        limit=f"{_fall()}, {MIN_RULES} rules",
    )


def _fall() -> str:
    return f"present: a fall with p < {ALPHA}; absent: a fall of {100 * TRAILS_BY:.0f} points is excluded"


def _unearned_credit(found: ClusteredRate) -> Criterion:
    state, figure = State.UNCLEAR, "no such row"
    if found.low is not None and found.high is not None:
        if found.clusters >= MIN_CLUSTERS and found.low > LUCKY_SHARE:
            state = State.PRESENT
        elif found.clusters >= MIN_CLUSTERS and found.high < LUCKY_SHARE:
            state = State.ABSENT
        figure = (
            f"{found.rate.hits} of {found.rate.n} rows ({found.rate.hits / found.rate.n:.0%}, 95 % "
            f"{100 * found.low:.0f}–{100 * found.high:.0f} by {found.clusters} rules)"
        )
    return Criterion(
        code="unearned_credit",
        role=Role.MECHANISM,
        question="Of the tips present at a success, were most ignored (lucky neighbours)?",
        state=state,
        figure=figure,
        limit=(
            f"present: the interval lies above {LUCKY_SHARE:.0%}; absent: below; {MIN_CLUSTERS} rules "
            "at least"
        ),
    )


def _bad_advice(did: Attribution) -> Criterion:
    found = did.followed_at_failure
    state, figure = State.UNCLEAR, "no rule has judged tips both at a failure and at a success"
    if found.difference is not None:
        figure = (
            f"{_points(found.difference, found.low, found.high)} by {found.clusters} rules; followed "
            f"{found.one.hits} of {found.one.n} rows at failures, {found.other.hits} of {found.other.n} "
            "at successes"
        )
    if found.low is not None and found.high is not None and found.clusters >= MIN_CLUSTERS:
        if found.low > 0:
            state = State.PRESENT
        elif found.high < HARMS_BY:
            state = State.ABSENT
    return Criterion(
        code="bad_advice",
        role=Role.MECHANISM,
        question="For the same rules, are tips followed more in failed attempts than in successful ones?",
        state=state,
        figure=figure,
        limit=(
            f"present: the interval lies above 0; absent: {100 * HARMS_BY:.0f} points are excluded; "
            f"{MIN_CLUSTERS} rules at least"
        ),
    )


def _crowded(found: Corpus) -> Criterion:
    state, figure = State.UNCLEAR, "no rule was attempted"
    if found.active_per_rule is not None:
        state = State.PRESENT if found.active_per_rule > CROWDED else State.ABSENT
        figure = (
            f"{found.active_per_rule:.1f} active tips per rule ({found.active} tips, {found.rules} "
            f"rules), {found.retired} retired"
        )
    return Criterion(
        code="crowded",
        role=Role.CONTEXT,
        question="Are there more active tips than prompts could ever show?",
        state=state,
        figure=figure,
        limit=f"present above {CROWDED:.0f} per rule; decides nothing",
    )


def _points(difference: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"{100 * difference:+.1f} points (no interval: too few groups)"
    return f"{100 * difference:+.1f} points (95 % {100 * low:+.1f} to {100 * high:+.1f})"
