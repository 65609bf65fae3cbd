"""Splits a tip's prose into clauses that prescribe, forbid or only explain.

Guarantees: polarity comes from whole classes of phrasing (negation, replacement, reported failure,
condition, explanation), each a table below, and ends at a clause boundary. Every character of the
input belongs to at most one clause. Linear time: patterns have no nested repetition.

Does not guarantee grammar: there is no parser of English here. A phrasing in none of the classes
reads as advice.

Shaped by a tip "appending to X failed; use Y" and a script that appended to X: by topic the two
are nearly identical.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final


class Polarity(enum.Enum):
    """What a clause does with the things it names."""

    PRESCRIBES = "prescribes"
    FORBIDS = "forbids"
    EXPLAINS = "explains"


@dataclass(frozen=True, kw_only=True, slots=True)
class Clause:
    """A stretch of text with one polarity."""

    text: str
    polarity: Polarity


_SENTENCE: Final = re.compile(
    r"(?<=[.!?])[\"'`)]?\s+(?=[\"'`(]?[A-Z/`\"])|\n\s*\n|\n(?=\s*[-*•]\s)"
)
# A reported failure turns what was tried into what not to do.
_FAILURE: Final = re.compile(
    r"\b(?:fail(?:s|ed|ing|ures?)?"
    r"|(?:did|does|(?<=s )do|will|would|could|can|is|was|are|were)(?: not|n['’]t)"
    r" (?:work|help|last|hold|matter|count|solve|change|prevent|persist"
    r"|apply|take|stick|survive|fix|pass|satisfy|have|exist|effective"
    r"|supported|valid|recogni[sz]ed|honou?red|loaded)\w*"
    r"|(?:ha[ds]|having) no effect|no effect|ineffective|useless|counterproductive"
    r"|(?:chang(?:es|ed)|did|does|achiev(?:es|ed)|fix(?:es|ed)) nothing|ma(?:kes|de) no difference"
    r"|(?:was|were|is|are) (?:far |much |still )?too (?!many\b|much\b)\w+"
    r"|(?:left|leaves|kept|keeps) (?:\w+ ){1,3}(?:running|open|unchanged|active|enabled|loaded|alive)"
    r"|(?:c[ao]mes?|brings?|brought)(?: \w+)? back"
    r"|not (?:effective|honou?red|supported)"
    r"|br(?:oke|eaks|oken)|backfire[sd]?|refuse[sd]?"
    r"|(?:was|were|is|are|gets?|got|been) (?:ignored|reverted|overwritten|rejected|deprecated"
    r"|regenerated|undone|discarded|wiped|refused|obsolete|lost)"
    r"|(?:was|were|is|are|gets?) reset|no longer exists?|(?:disappear|vanish)(?:s|ed)?"
    r"|non-?compliant"
    r"|(?:was|is|were|are) (?:the )?(?:culprit|problem|mistake|cause)|to blame|at fault"
    r"|lock(?:s|ed) (?:\w+ ){0,3}?out"
    r"|caus(?:ed|es) (?:an? )?(?:health|failure|error|lockout|outage|crash|regression|problem)\w*"
    r"|le(?:d|ads) to (?:an? )?(?:health|failure|error|lockout|outage|crash)\w*"
    r"|wrong (?:file|approach|place|tool|command|path|key|option))\b",
    re.IGNORECASE,
)
# "Not enough" says that something is missing, not that what was done is wrong.
_INSUFFICIENT: Final = re.compile(
    r"\b(?:not (?:enough|sufficient)|insufficient|(?:does|did|do)(?: not|n['’]t) suffice"
    r"|(?:alone|by itself|on its own) (?:\w+ ){0,2}?(?:nothing|not?|fail(?:s|ed)|\w+n['’]t))\b",
    re.IGNORECASE,
)
# Here the object failed, not the subject.
_NEGLECT: Final = re.compile(
    r"\b(?:ignores|discards|skips|never reads|never loads)\b", re.IGNORECASE
)
_FAILED_BY: Final = re.compile(
    r"^\s*(?:by|when|with|using|while|after|on|for|from|to)\b", re.IGNORECASE
)
_OCCASION: Final = re.compile(r"^\s*(?:when|while|using)\b", re.IGNORECASE)
_NEEDED: Final = re.compile(r"^\W*without\b[^,]*,", re.IGNORECASE)
_FAILED_NOUN: Final = re.compile(
    r"^\s*\S+(?: \S+){0,2} (?:attempts?|approach|tries|edits?)\b", re.IGNORECASE
)
_TRIED: Final = re.compile(
    r"^\W*(?:(?:i|we|the agent|worker|the|my|our|an) )?"
    r"(?:(?:first|previous(?:ly)?|earlier|last|second|third|initial)"
    r" )?(?:attempt(?:s|ed|ing)?|tried|trying)\b",
    re.IGNORECASE,
)
_WORKED: Final = re.compile(
    r"\b(?:worked|works|succeeded|succeeds|passed|fixed it|resolved|was effective|solved)\b",
    re.IGNORECASE,
)
_MARKER: Final = re.compile(
    r"(?P<forbids>(?<![-\w/.])(?:instead of|rather than|in place of|as opposed to|in lieu of|without"
    r"|avoid(?:s|ed|ing)?|do not|does not|don['’]t|doesn['’]t|never|must not|mustn['’]t|should not"
    r"|shouldn['’]t|may not|need not|cannot|can['’]t|won['’]t|will not|not to|is not|are not"
    r"|isn['’]t|aren['’]t|no longer|stop(?= \w+ing)|refrain from|not|nor|skip(?:ping)?"
    r"|beware of|steer clear of|unlike|versus|vs\.?|over (?=manual|direct|hand))(?=\W|$))"
    r"|(?P<prescribes>(?<![-\w/.])(?:use|using|instead|but|prefer|requires?|must|should|then|ensure"
    r"|switch(?:ed|ing)? to|need(?:s|ed)? to|rely on|go with|only|set|run|add|apply|create|write"
    r"|configure|edit|modify|install|enable|put|place|try|call|change|replace with"
    r"|by (?:add|edit|modify|sett|updat|configur|creat|us|runn|chang|insert|append|writ)ing)"
    r"(?![-\w=/])|→|->|=>)"
    r"|(?P<explains>(?<![-\w/.])(?:because|since|due to|so that|in order to|as (?:it|the|this|they)"
    r"|learned that|likely|which|where|otherwise|in case|if|when|unless|to satisfy|to comply"
    r"|to prevent|to avoid)\b)"
    r"|(?P<resets>[;—–]|[:!?.](?=\s|$)|\((?=e\.g)|\s-\s|, so\b|\bwhereas\b)",
    re.IGNORECASE,
)
# "Do not edit X or run Y": such a verb opens a new clause only after a comma or an "and".
_PLAIN_VERBS: Final = frozenset(
    {"only", "run", "set", "add", "apply", "create", "write", "configure", "edit", "modify",
     "install", "enable", "put", "place", "try", "call", "change", "using", "replace with"}
)  # fmt: skip
_REPLACED: Final = re.compile(
    r"\W*(?:instead of|rather than|in place of|in lieu of|unlike)\b", re.IGNORECASE
)
_COMMA: Final = re.compile(r",\s")
_PRONOUNS: Final = frozenset(
    {"it", "this", "that", "these", "those", "which", "they", "he", "she", "and", "but", "so",
     "then", "also", "still", "again", "always", "just", "only", "the", "a", "an", "attempt",
     "attempts", "approach", "approaches", "both", "all", "each", "has", "have", "had", "been",
     "was", "were", "is", "are", "did", "does", "do", "to", "or", "as", "yet", "however",
     "method", "change", "edit", "fix", "script"}
)  # fmt: skip
_QUOTED: Final = re.compile(r"`[^`\n]{1,400}`|\"[^\"\n]{1,400}\"|(?<!\w)'[^'\n]{1,200}'(?!\w)")


def sentences(text: str) -> list[str]:
    """Split prose into sentences; a full stop inside a path or a version does not end one."""
    return [part.strip() for part in _SENTENCE.split(text) if part and part.strip()]


def clauses(sentence: str) -> list[Clause]:
    """Return the clauses of one sentence in order."""
    needed = _NEEDED.match(sentence)
    if needed and _FAILURE.search(sentence, needed.end()):
        # "Without X, it fails": X is what is wanted.
        parts = [
            Clause(text=sentence[: needed.end()], polarity=Polarity.PRESCRIBES),
            Clause(text=sentence[needed.end() :], polarity=Polarity.EXPLAINS),
        ]
    else:
        parts = _with_failures(_raw_clauses(sentence))
    return [clause for clause in parts if clause.text.strip(" ,.;:")]


def _raw_clauses(sentence: str) -> list[Clause]:
    """Cut at markers outside quotes and reports of failure; a clause keeps its marker."""
    spans = [match.span() for match in _QUOTED.finditer(sentence)]
    spans += [match.span() for match in _FAILURE.finditer(sentence)]
    spans += [match.span() for match in _INSUFFICIENT.finditer(sentence)]
    found: list[Clause] = []
    polarity, start, negated_at = Polarity.PRESCRIBES, 0, 0
    for match in _MARKER.finditer(sentence):
        if any(match.start() < end and begin < match.end() for begin, end in spans):
            continue
        group = match.lastgroup or ""
        if group == "prescribes" and _stays(sentence, polarity, negated_at, match):
            continue
        if group == "explains" and polarity is Polarity.FORBIDS and match[0].lower() == "which":
            continue
        following = Polarity.PRESCRIBES if group == "resets" else Polarity(group)
        if following is polarity and group != "resets":
            continue
        found.append(Clause(text=sentence[start : match.start()], polarity=polarity))
        start, polarity = match.start(), following
        negated_at = match.end() if group == "forbids" else negated_at
    found.append(Clause(text=sentence[start:], polarity=polarity))
    opening = next((index for index, part in enumerate(found) if part.text.strip()), 0)
    return [
        part
        for index, clause in enumerate(found)
        for part in _replacing(clause, opening=index == opening)
    ]


def _replacing(clause: Clause, *, opening: bool) -> list[Clause]:
    """Cut "instead of X, Y" at the beginning of a sentence: Y is advice, whatever its verb."""
    replaced = _REPLACED.match(clause.text) if opening else None
    if replaced is None or clause.polarity is not Polarity.FORBIDS:
        return [clause]
    quoted = [match.span() for match in _QUOTED.finditer(clause.text)]
    for match in _COMMA.finditer(clause.text, replaced.end()):
        if not any(begin <= match.start() < end for begin, end in quoted):
            after = Clause(text=clause.text[match.start() :], polarity=Polarity.PRESCRIBES)
            return [Clause(text=clause.text[: match.start()], polarity=clause.polarity), after]
    return [clause]


def _stays(sentence: str, polarity: Polarity, negated_at: int, match: re.Match[str]) -> bool:
    """Say whether a verb belongs to the negation or the explanation before it."""
    word = match[0].lower()
    before = sentence[: match.start()].rstrip()
    new_clause = before.endswith((",", ";", ".", " and", " then"))
    if word.startswith("by "):
        # "to not allow X by editing Y" advises Y; elsewhere "by editing Y" only continues.
        return polarity is not Polarity.FORBIDS
    if polarity is Polarity.FORBIDS:
        if word == "only":
            return True
        if word in _PLAIN_VERBS:
            return not new_clause or len(sentence[negated_at : match.start()]) < 2
        return word != "but" and match.start() - negated_at < 2
    if polarity is Polarity.EXPLAINS:
        return word in _PLAIN_VERBS and not new_clause
    return False


def _with_failures(parts: list[Clause]) -> list[Clause]:
    """Let a reported failure forbid what was tried before it (or after "failed by")."""
    result: list[Clause] = []
    floor = 0
    for part in parts:
        neglect = _NEGLECT.search(part.text)
        if neglect and part.polarity is Polarity.PRESCRIBES:
            result.append(Clause(text=part.text[: neglect.start()], polarity=Polarity.EXPLAINS))
            result.append(Clause(text=part.text[neglect.end() :], polarity=Polarity.FORBIDS))
            floor = len(result)
            continue
        match = _FAILURE.search(part.text)
        missing = _INSUFFICIENT.search(part.text)
        if match and missing and match.start() < missing.start():
            missing = None
        found = missing or match
        if found is None:
            result.append(part)
            continue
        aside, before = _subject(part.text[: found.start()])
        after = part.text[found.end() :]
        result.append(Clause(text=aside, polarity=part.polarity))
        if missing:
            result.append(Clause(text=before + after, polarity=Polarity.EXPLAINS))
            continue
        result.append(Clause(text=before, polarity=Polarity.FORBIDS))
        if not _own_subject(before):
            _forbid_last(result, floor)
        reason, advice = _advice_after(after)
        result.append(Clause(text=reason, polarity=_after_failure(found[0], reason)))
        result.append(Clause(text=advice, polarity=part.polarity))
        floor = len(result)
    return result


def _subject(before: str) -> tuple[str, str]:
    """Split what precedes a failure into what stands aside and the subject that failed.

    "X is needed, Y failed" is about Y, "X worked after Y failed" as well; a subject that is only a
    pronoun needs all of it.
    """
    worked = _WORKED.search(before)
    cut = worked.end() if worked else before.rfind(", ") + 1
    if cut <= 0 or not _own_subject(before[cut:]):
        return "", before
    return before[:cut], before[cut:]


def _advice_after(after: str) -> tuple[str, str]:
    """Split "… on restart, put it there" at the comma before the new advice."""
    for match in _MARKER.finditer(after):
        if match.lastgroup == "prescribes" and after[: match.start()].rstrip().endswith(","):
            return after[: match.start()], after[match.start() :]
    return after, ""


def _after_failure(failure: str, after: str) -> Polarity:
    """Say what follows a failure: how it came about is forbidden, its reason only explains."""
    active = failure.lower().startswith("fail")
    pattern = _FAILED_BY if active else _OCCASION
    if pattern.match(after) or (active and _FAILED_NOUN.match(after)):
        return Polarity.FORBIDS
    return Polarity.EXPLAINS


def _forbid_last(result: list[Clause], floor: int) -> None:
    """Turn the clauses since the last failure, which only reported an attempt, into forbidden ones."""
    for index in range(len(result) - 1, floor - 1, -1):
        clause = result[index]
        if clause.polarity is Polarity.PRESCRIBES:
            result[index] = Clause(text=clause.text, polarity=Polarity.FORBIDS)


def _own_subject(before: str) -> bool:
    """Say whether a failure has a subject of its own ("the engine fails"), not just "but it failed"."""
    return any(word.lower() not in _PRONOUNS for word in re.findall(r"[\w.@/-]+", before))


def reports_attempt(sentence: str) -> bool:
    """Say whether a sentence reports an attempt ("Attempted …", "Tried …")."""
    return bool(_TRIED.match(sentence))


def reports_success(sentence: str) -> bool:
    """Say whether a sentence reports that something worked."""
    return bool(_WORKED.search(sentence)) and not _FAILURE.search(sentence)


def mentions_failure(text: str) -> bool:
    """Say whether a text reports a failure anywhere."""
    return bool(_FAILURE.search(text))
