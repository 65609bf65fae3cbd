"""What a memo says about a tip: its text, what the record calls it, and what came of its retrievals.

Guarantees: as ``writer_run``: nothing that a fact does not hold, and so no cause: a tip is followed into
a success or ignored beside one, and no fact says whether it had a part in it.
"""

from __future__ import annotations

from typing import Final

from scoring.memos import product_labels as label
from scoring.memos.writer_parts import NOTHING, Paragraph, Sentence, Told
from scoring.memos.writer_run import failed_on, quoting

MEANING: Final = {
    "misleading": "It tends to be followed into failures.",
    "earned": "It tends to be followed into successes.",
    "lucky neighbour": "It tends to be ignored beside attempts that go well.",
    "bystander": "It tends to be ignored, and not clearly beside attempts that go well.",
    "untested": "What is known is too little, or speaks both ways.",
}
"""What the words of the record mean, see ``memory.flags``; what was seen, no cause of it."""


def about_tip(told: Told) -> list[Paragraph]:
    """Return the paragraphs."""
    found = told.names(label.TIMES_RETRIEVED)
    if not found:
        return []
    name = found[0][0]
    return [
        Paragraph("", (quoting(told, name), _called(told, name), _meaning(told, name))),
        Paragraph("What it was followed into", _following(told, name)),
        Paragraph("Its credit", _credit(told, name)),
        Paragraph("On which rules", _rules(told, name)),
    ]


def _called(told: Told, name: str) -> Sentence:
    word = label.CALLED.of(name)
    return told.say(f"The {word} is {told.figure(word)}.", of=(word,))


def _meaning(told: Told, name: str) -> Sentence:
    word = told.fact(label.CALLED.of(name))
    said = MEANING.get(str(word.value)) if word is not None else None
    return Sentence((said,), ()) if said else NOTHING


def _following(told: Told, name: str) -> tuple[Sentence, ...]:
    seen = [
        kind.of(name) for kind in (label.TIMES_RETRIEVED, label.TIMES_FOLLOWED, label.TIMES_IGNORED)
    ]
    good, bad = label.INTO_SUCCESS.of(name), label.INTO_FAILURE.of(name)
    beside = [label.BESIDE_SUCCESS.of(name), label.BESIDE_FAILURE.of(name)]
    share = label.FAILURE_SHARE.of(name)
    return (
        told.say(
            f"`{name}` was retrieved {told.times(seen[0])}, was followed {told.times(seen[1])} and was "
            f"ignored {told.times(seen[2])}.",
            of=seen,
        ),
        told.say(
            f"`{name}` was followed into a success {told.times(good)} and into a failure "
            f"{told.times(bad)}.",
            of=(good, bad),
        ),
        told.say(
            f"`{name}` was ignored at a success {told.times(beside[0])} and at a failure "
            f"{told.times(beside[1])}.",
            of=beside,
        ),
        told.say(f"The {share} is {told.figure(share)}.", of=(share,)),
    )


def _credit(told: Told, name: str) -> tuple[Sentence, ...]:
    credit, visits = label.CREDIT.of(name), label.VISITS.of(name)
    everything = label.SKILL_TIPS_CREDIT
    return (
        told.say(f"The {credit} is {told.figure(credit)}.", of=(credit,)),
        told.say(f"There {told.are(visits)} {told.counted(visits)}.", of=(visits,)),
        told.say(f"The {everything} is {told.figure(everything)}.", of=(everything,)),
        told.say(f"The {label.POLICY} is {told.figure(label.POLICY)}.", of=(label.POLICY,)),
    )


def _rules(told: Told, name: str) -> tuple[Sentence, ...]:
    failed = [
        names[1]
        for names in told.names(label.FAILURE_ON)
        if names[0] == name and told.number(label.FAILURE_ON.of(*names))
    ]
    retired = label.RETIRED_ON.of(name)
    sentences = [failed_on(told, name, rule) for rule in failed]
    if told.has(retired):
        sentences += told.lines([retired])
    return tuple(sentences)
