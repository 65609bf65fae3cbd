"""What a memo says about a run: how it went, whether tips were followed, which misled, what changed.

Guarantees: nothing that a fact does not hold, so no causes; a comparison in words ("into successes more
often than into failures") is said only when the two counts compare that way. It passes no judgement on
tips: words such as misleading are those of the record (``memory.flags``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scoring.memos import product_labels as label
from scoring.memos.writer_parts import NOTHING, Paragraph, Sentence, Told, listed

if TYPE_CHECKING:
    from decimal import Decimal

CATEGORIES_SAID: Final = 4
HALF: Final = 50


def about_run(told: Told) -> list[Paragraph]:
    """Return the paragraphs."""
    return [
        Paragraph("", (_attempts(told), _rules(told), *_since_the_run_before(told))),
        Paragraph("Whether tips were followed", _following(told)),
        *_misled(told),
        Paragraph("Where rules stay open", _categories(told)),
        Paragraph("What the last pass changed", _changed(told)),
    ]


def _attempts(told: Told) -> Sentence:
    parts = [label.SUCCESSFUL, label.FAILED]
    if told.number(label.UNGRADED):
        parts.append(label.UNGRADED)
    day = told.snapshot.as_of
    when = f"As of {day.isoformat()}, the run" if day is not None else "The run"
    return told.say(
        f"{when} {told.subject} counts {told.counted(label.ATTEMPTS)}: "
        f"{listed(map(told.counted, parts))}.",
        f"The run {told.subject} counts {told.counted(label.ATTEMPTS)}.",
        of=(label.ATTEMPTS, *parts),
    )


def _rules(told: Told) -> Sentence:
    if not told.number(label.RULES):
        return NOTHING
    return told.say(
        f"The {label.REMEDIATED_SHARE} is {told.figure(label.REMEDIATED_SHARE)}: "
        f"{told.counted(label.REMEDIATED)} of {told.counted(label.RULES)}.",
        of=(label.REMEDIATED_SHARE, label.REMEDIATED, label.RULES),
    )


def changed(told: Told, name: str, before: str) -> Sentence:
    """A sentence about a change in a share since the run ``before``."""
    step = told.number(name)
    if step is None:
        return NOTHING
    figure = told.figure(name)
    plain = f"Since `{before}`, the {name} is {figure}."
    if not step:
        return told.say(plain, of=(name,))
    word = "rise" if step > 0 else "fall"
    said = f"Since `{before}`, the {name} is a {word} of {figure.removeprefix('-')}."
    return told.say(said, plain, of=(name,))


def _since_the_run_before(told: Told) -> tuple[Sentence, ...]:
    earlier = [names[0] for names in told.names(label.MISLEADING_IN)]
    if not earlier:
        return ()
    return (
        changed(told, label.REMEDIATED_CHANGE, earlier[0]),
        changed(told, label.FOLLOW_CHANGE, earlier[0]),
    )


def _following(told: Told) -> tuple[Sentence, ...]:
    if told.number(label.RETRIEVALS) == 0:
        return (told.say(f"There were {told.counted(label.RETRIEVALS)}.", of=(label.RETRIEVALS,)),)
    parts = [label.FOLLOWED, label.IGNORED]
    if told.number(label.UNANSWERED):
        parts.append(label.UNANSWERED)
    cells = list(label.QUADRANTS.values())
    return (
        told.say(
            f"There were {told.counted(label.RETRIEVALS)}, among them "
            f"{listed(map(told.counted, parts))}.",
            of=(label.RETRIEVALS, *parts),
        ),
        told.say(
            f"The {label.FOLLOW_SHARE} is {told.figure(label.FOLLOW_SHARE)}.",
            of=(label.FOLLOW_SHARE,),
        ),
        told.say(f"By quadrant there were {listed(map(told.counted, cells))}.", of=cells),
        told.say(
            f"The {label.MISLED_SHARE} is {told.figure(label.MISLED_SHARE)}.",
            of=(label.MISLED_SHARE,),
        ),
        _verdict(told.number(label.MISLED_SHARE)),
    )


def _verdict(failed: Decimal | None) -> Sentence:
    """Into what tips were followed more often; without a share nothing is said."""
    if failed is None:
        return NOTHING
    if failed == HALF:
        said = "Tips were followed into failures as often as into successes."
    elif failed > HALF:
        said = "Tips were followed into failures more often than into successes."
    else:
        said = "Tips were followed into successes more often than into failures."
    return Sentence((said,), ())


# --- Tips -----------------------------------------------------------------------------------------


def _misled(told: Told) -> list[Paragraph]:
    """What the record says of tips, then a paragraph for each that was followed into failures."""
    called = label.TIPS_CALLED["misleading"]
    plain = f"There {told.are(called)} {told.counted(called)}."
    if told.number(called):
        first = told.say(
            f"The record is long enough to name {told.counted(called)}.", plain, of=(called,)
        )
    elif told.number(label.MISLEADING):
        why = "The record is too short, or too mixed, to name any"
        first = told.say(f"{why}: {told.counted(called)}.", plain, of=(called,))
    else:
        first = told.say(plain, of=(called,))
    worst = told.fact(label.WORST_TIP)
    second = told.say(
        f"The {label.WORST_TIP} is {told.figure(label.WORST_TIP)}.", of=(label.WORST_TIP,)
    )
    paragraphs = [Paragraph("Which tips misled", (first, second))]
    tips = [names[0] for names in told.names(label.INTO_FAILURE)]
    for name in sorted(
        tips, key=lambda name: (worst is None or name != worst.value, -_bad(told, name))
    ):
        rules = [names[1] for names in told.names(label.FAILURE_ON) if names[0] == name]
        said = [followed_into(told, name), quoting(told, name)]
        said += [failed_on(told, name, rule) for rule in rules]
        paragraphs.append(Paragraph("", tuple(said)))
    return paragraphs


def _bad(told: Told, name: str) -> Decimal | int:
    return told.number(label.INTO_FAILURE.of(name)) or 0


def followed_into(told: Told, name: str) -> Sentence:
    """How often a tip was followed, and into what."""
    bad, good = label.INTO_FAILURE.of(name), label.INTO_SUCCESS.of(name)
    into = f"into a failure {told.times(bad)} and into a success {told.times(good)}"
    total = label.TIMES_FOLLOWED.of(name)
    return told.say(
        f"`{name}` was followed {told.times(total)}: {into}.",
        f"`{name}` was followed {told.times(total)}. `{name}` was followed {into}.",
        of=(total, bad, good),
    )


def quoting(told: Told, name: str) -> Sentence:
    """The beginning of a tip's text."""
    text = label.TEXT.of(name)
    return told.say(f"`{name}` says: {told.figure(text)}.", of=(text,))


def failed_on(told: Told, name: str, rule: str) -> Sentence:
    """How often a tip was followed into a failure on one rule."""
    here = label.FAILURE_ON.of(name, rule)
    return told.say(
        f"On `{rule}`, `{name}` was followed into a failure {told.times(here)}.", of=(here,)
    )


def _categories(told: Told) -> tuple[Sentence, ...]:
    earlier = {names[0] for names in told.names(label.MISLEADING_IN)}
    shares = [names[0] for names in told.names(label.REMEDIATED_SHARE_IN)]
    still_open = []
    for name in shares:
        share = told.number(label.REMEDIATED_SHARE_IN.of(name))
        if name not in earlier and share is not None and share < 100:
            still_open.append(label.REMEDIATED_SHARE_IN.of(name))
    return told.lines(still_open[:CATEGORIES_SAID])


def _changed(told: Told) -> tuple[Sentence, ...]:
    labels = (label.FLAGS_CHANGED, label.CREDITS_CHANGED, label.RETIRED)
    return tuple(
        told.say(f"There {told.are(name)} {told.counted(name)}.", of=(name,))
        for name in labels
        if told.number(name)
    )
