"""The action-trace signal: did this script do what this tip says, or what it warns against?

Guarantees: `trace` is a pure function of its three arguments, never raises, and gives a score in
[0, 1] exactly when it decides. Every decision cites what was seen, with the line of the script.
It abstains when the tip names nothing to look for, when the script holds no command, and when a tip
only forbids something that the script does not do (not doing it is no evidence of having listened).

Does not guarantee truth: it reads texts. Branches count as taken, a tip's conditions as met. It is
one of three signals and outranks neither a judge nor a person.

Shaped by cosine similarity, which is at chance where a script does the opposite of its tip.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from scoring.trace.actions import IMPLIED, UNKNOWN, Action, ActionKind
from scoring.trace.clauses import ParsedTip, parse_tip
from scoring.trace.matching import NOTHING, Match, match_action
from scoring.trace.prose import Polarity
from scoring.trace.requirements import PRINCIPAL, Requirement
from scoring.trace.results import Evidence, TraceResult, Verdict
from scoring.trace.shell import ParsedScript, parse_script
from scoring.trace.vocabulary import ActionVocabulary
from scoring.trace.word_matching import match_words

TRACE_VERSION: Final = "2"
FOLLOWED_FROM: Final = 0.55
"""A score of at least this is FOLLOWED: half of a two-part advice is not enough, two thirds are."""
BEST_OF_SAID: Final = 0.05
"""Extra weight of the best part of advice in a sentence: the score is nearly the share done."""
BEST_OF_SHOWN: Final = 0.35
"""The same for a text that shows its steps as a manual does, often with alternatives."""
FORBIDDEN_FROM: Final = 0.6
"""A forbidden thing found at least this far makes the tip VIOLATED."""
FORBIDDEN_CEILING: Final = 0.1
"""Highest score of a tip of which the script does what it forbids and not what it prescribes."""
HALF_RIGHT: Final = 0.5
"""Highest score when a principal part is done with another value or in another file."""
OFF_SUBJECT: Final = 0.4
"""Factor for a lone word found in a script that mentions none of the tip's acronyms."""
_AMISS: Final = ("another value", "another file")
_EVIDENCE: Final = 12
_VERBS: Final = {
    ActionKind.WRITE: "writes", ActionKind.ERASE: "removes from", ActionKind.CREATE: "creates",
    ActionKind.MODE: "sets the mode of", ActionKind.OWNER: "sets the owner of",
    ActionKind.GROUP: "sets the group of", ActionKind.LINK: "links", ActionKind.COMMAND: "runs",
}  # fmt: skip

_ABSTAINED: Final = TraceResult(verdict=Verdict.ABSTAINED, score=None)


def trace(*, tip: str, script: str, vocabulary: ActionVocabulary | None = None) -> TraceResult:
    """Say whether a script followed a tip, from the actions of both.

    Never raises. `vocabulary` defaults to `ActionVocabulary.default()`. Parsing is cached by text,
    so that one script against many tips costs one parse.
    """
    words = vocabulary or ActionVocabulary.default()
    return compare(parse_tip(tip, words), parse_script(script, words))


def compare(tip: ParsedTip, script: ParsedScript) -> TraceResult:
    """Compare a parsed tip with a parsed script; the two-step form of `trace`."""
    if not script.actions or not tip.requirements:
        return _ABSTAINED
    judged = [(item, _match(item, tip, script)) for item in tip.requirements]
    prescribed = [pair for pair in judged if pair[0].polarity is Polarity.PRESCRIBES]
    forbidden = [pair for pair in judged if pair[0].polarity is Polarity.FORBIDS]
    mentioned = [pair for pair in judged if pair[0].polarity is Polarity.EXPLAINS]
    evidence = tuple(_evidence(item, match) for item, match in judged)[:_EVIDENCE]
    broken = max((match.score for _, match in forbidden), default=0.0)
    if prescribed:
        best_part = BEST_OF_SHOWN if tip.shows else BEST_OF_SAID
        return _decide(prescribed, _combined(prescribed, best_part), broken, evidence)
    if broken >= FORBIDDEN_FROM:
        score = FORBIDDEN_CEILING * (1.0 - broken)
        return TraceResult(verdict=Verdict.VIOLATED, score=score, evidence=evidence)
    if any(match.score >= FORBIDDEN_FROM for _, match in mentioned):
        return TraceResult(verdict=Verdict.FOLLOWED, score=FOLLOWED_FROM, evidence=evidence)
    return TraceResult(verdict=Verdict.ABSTAINED, score=None, evidence=evidence)


def _decide(
    prescribed: list[tuple[Requirement, Match]],
    score: float,
    broken: float,
    evidence: tuple[Evidence, ...],
) -> TraceResult:
    if any(match.note in _AMISS for item, match in prescribed if item.weight >= PRINCIPAL):
        # One part right and another done wrongly is not what the tip asked for.
        score = min(score, HALF_RIGHT)
    opposed = any(match.opposed for item, match in prescribed if item.weight >= PRINCIPAL)
    if broken >= FORBIDDEN_FROM:
        # Advice and its opposite in one script: half followed at best.
        score = min(score * 0.5, 1.0) if score >= FOLLOWED_FROM else score * FORBIDDEN_CEILING
    elif opposed and score < FOLLOWED_FROM:
        score *= 0.3
    score = round(min(max(score, 0.0), 1.0), 4)
    if score >= FOLLOWED_FROM:
        verdict = Verdict.FOLLOWED
    elif opposed or broken >= FORBIDDEN_FROM:
        verdict = Verdict.VIOLATED
    else:
        verdict = Verdict.NOT_FOLLOWED
    return TraceResult(verdict=verdict, score=score, evidence=evidence)


def _combined(prescribed: list[tuple[Requirement, Match]], best_part: float) -> float:
    """Return the share of the weight that is done; the best part counts `best_part` more."""
    total = sum(item.weight for item, _ in prescribed)
    mean = sum(item.weight * match.score for item, match in prescribed) / total
    top = max(item.weight * match.score for item, match in prescribed)
    return (1.0 - best_part) * mean + best_part * top


def _match(item: Requirement, tip: ParsedTip, script: ParsedScript) -> Match:
    if item.action is None:
        warned = item.polarity is Polarity.FORBIDS
        match = match_words(item.words, item.paths, script.actions, warned=warned)
        single = len(item.words) == 1 and item.polarity is Polarity.PRESCRIBES
        if single and item.subjects and not script.mentions(item.subjects):
            # One option on "NFS file systems" is not met by a script that has no NFS in it.
            return replace(match, score=match.score * OFF_SUBJECT)
        return match
    if item.action.kind is ActionKind.COMMAND and not item.action.target:
        return NOTHING
    actions = script.actions
    if item.polarity is Polarity.FORBIDS:
        # Who masks a unit "now" has not chosen to stop it, which the tip found too little.
        actions = tuple(action for action in actions if action.text != IMPLIED)
    return match_action(item.action, item.paths, actions, tip.vocabulary, tip.content)


def _evidence(item: Requirement, match: Match) -> Evidence:
    clause = "forbids" if item.polarity is Polarity.FORBIDS else "prescribes"
    kind = item.action.kind.value if item.action else "path" if not item.words else "key"
    found = match.action is not None and (match.opposed or match.score >= FOLLOWED_FROM)
    seen = match.action if match.action is not None and (found or match.note) else None
    if seen is None:
        text = f"nothing in the script does {_short(item.term)!r}"
    else:
        text = _sentence(item, match, seen, clause)
    return Evidence(
        clause=clause,
        term=item.term,
        kind=seen.kind.value if found and seen else kind,
        found=found and not match.opposed,
        line=seen.line if seen else None,
        text=text,
    )


def _sentence(item: Requirement, match: Match, seen: Action, clause: str) -> str:
    done = _described(seen)
    if match.opposed:
        return f"{done}, the opposite of {_short(item.term)!r}, which the tip prescribes"
    if match.score >= FOLLOWED_FROM:
        return f"{done}, which the tip {clause}"
    return f"{done} ({match.note or 'only in part'}), where the tip says {_short(item.term)!r}"


def _described(action: Action) -> str:
    if action.kind in (ActionKind.SERVICE, ActionKind.PACKAGE):
        return f"{action.verb}s {action.kind.value} {action.target}"
    verb = _VERBS[action.kind]
    if action.kind is ActionKind.COMMAND:
        return f"{verb} {_short(' '.join((action.target, *action.args)))}"
    detail = f": {_short(action.text)}" if action.text else ""
    return f"{verb} {_short(action.target or 'the running system')}{detail}"


def _short(text: str, limit: int = 120) -> str:
    text = " ".join(text.replace(UNKNOWN, "…").split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
