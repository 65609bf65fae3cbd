"""Reads a tip into requirements: what a script must do, or must not do, to have followed it.

Guarantees: commands and configuration lines shown on lines of their own are read exactly, with the
files that the sentence before them names; prose is read by clause (`prose`) and term (`terms`).
Checks (`grep`, `systemctl status`) ask for nothing; steps that only put a change into force weigh
little beside the change. A tip that names nothing gives no requirements. Never raises.

Does not guarantee that a condition holds ("if X is installed"): conditions are not evaluated.

Shaped by tips that bury one principal line under a description, a restart and a note.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from scoring.trace.actions import Action, ActionKind
from scoring.trace.advice import advice, removes
from scoring.trace.literals import mark_literals
from scoring.trace.prose import (
    Clause,
    Polarity,
    clauses,
    mentions_failure,
    reports_attempt,
    reports_success,
    sentences,
)
from scoring.trace.references import resolve_references
from scoring.trace.requirements import (
    MENTION,
    Requirement,
    command_requirements,
    selected,
    without_placeholders,
)
from scoring.trace.shell import parse_script
from scoring.trace.steps import steps
from scoring.trace.terms import find_terms
from scoring.trace.tip_lines import is_config_line, is_prose
from scoring.trace.vocabulary import ActionVocabulary

TIP_LIMIT: Final = 12_000
SHOWN_LENGTH: Final = 150
"""A prompt may show this many characters of a tip and cut the rest off without a mark."""
SENTENCE_LIMIT: Final = 2_000
CLAUSE_LIMIT: Final = 1_000
"""Patterns over prose take time in the square of a clause's length; real clauses are far shorter."""
_CACHE: Final = 4_096
_REQUIREMENTS: Final = 60

_PROMPT: Final = re.compile(r"^\s*(?:\[?\w+@[^\]\s]*[\]:~\w/ ]*)?[$%>]\s+(?=\S)|^\s*#\s+(?=sudo\s)")
_OUTPUT: Final = re.compile(
    r"\b(?:output|result|similar to|looks? like this|returns?)\b", re.IGNORECASE
)
_EDITS: Final = re.compile(
    r"\b(?:add|append|edit|modif|updat|chang|set|configur|creat|writ|insert|includ|put|plac|correct"
    r"|ensur|uncomment|replac|contain|lines?|parameter|section|in a file|use)",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"^\s*(?:note|unless|example|for example|warning|caution|if (?:necessary|needed|required))\b",
    re.IGNORECASE,
)
_AIM: Final = re.compile(r"\s*(?:so|such) that\b[^\n]{0,200}\w\s?=\s?\w", re.IGNORECASE)
_LINES: Final = re.compile(
    r"\b(?:lines?|entr(?:y|ies)|rules?|parameters?|settings?)\b", re.IGNORECASE
)
_ACRONYM: Final = re.compile(
    r"(?<![\w/.\"-])(?!RHEL|STIG|DOD|NOTE|USG|FIPS|ISSO)[A-Z]{3,6}(?![\w/.-])"
)
_COMMANDS: Final = re.compile(r"\bcommands?\b", re.IGNORECASE)
_ROOT_PROMPT: Final = re.compile(r"^\s*#\s+(?=[a-z][\w-]+\s)")
_ROOTS: Final = tuple(
    f"/{name}/"
    for name in ("etc", "usr", "var", "boot", "lib", "lib64", "home", "root", "tmp", "opt", "dev",
                 "proc", "sys", "bin", "sbin", "run", "srv")
)  # fmt: skip
_ELLIPSES: Final = ("...", "…")
_SENTENCE_ENDS: Final = (".", "!", "?", "`", '"', ")")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedTip:
    """Requirements in order of the tip, and its words (for placeholders such as `[audit_tool]`).

    `shows`: commands or lines stand on lines of their own, as in a manual. Such a text often gives
    several ways, or serves several rules; one sentence of advice does not.
    """

    requirements: tuple[Requirement, ...]
    vocabulary: ActionVocabulary
    content: frozenset[str] = frozenset()
    shows: bool = False


@lru_cache(maxsize=_CACHE)
def parse_tip(tip: str, vocabulary: ActionVocabulary | None = None) -> ParsedTip:
    """Read a tip. Never raises; a vague tip gives no requirements."""
    words = vocabulary or ActionVocabulary.default()
    reader = _TipReader(words)
    text = tip[:TIP_LIMIT].replace("\0", " ").replace("\r\n", "\n")
    # Terms are stored with the evidence: no lone surrogate may get there.
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = re.sub(r"[ \t]{4,}", "   ", text)
    text = re.sub(r"\n{3,}", "\n\n", text)
    # A tip may be shown cut: the last, halved word must not become a term of its own.
    finished = text.rstrip().endswith(_SENTENCE_ENDS)
    if text.rstrip().endswith(_ELLIPSES) or (len(tip) == SHOWN_LENGTH and not finished):
        text = _without_last_word(text)
    reader.read(text)
    return ParsedTip(
        requirements=tuple(selected(reader.shown, reader.advised)[:_REQUIREMENTS]),
        vocabulary=words,
        shows=bool(reader.shown),
        content=frozenset(re.findall(r"[a-z]{3,}", text.lower())),
    )


class _TipReader:
    """Goes over a tip's lines, remembering the files that the last sentence named."""

    def __init__(self, vocabulary: ActionVocabulary) -> None:
        self.vocabulary = vocabulary
        self.shown: list[Requirement] = []
        self.advised: list[Requirement] = []
        self.paths: tuple[str, ...] = ()
        self.removing = False
        self.uncommenting = False
        self.announced_command = False
        self.output = False
        self.lines_announced = False

    def read(self, text: str) -> None:
        prose: list[str] = []
        introduced = False
        for row in _joined_lines(text):
            if any(part.strip() for part in prose):
                self.lines_announced = bool(_LINES.search("\n".join(prose)))
                self.announced_command = bool(_COMMANDS.search("\n".join(prose)))
            kind = self._kind(row, introduced=introduced)
            if kind == "prose":
                prose.append(row)
                introduced = bool(row.strip()) or introduced
                continue
            self._prose("\n".join(prose))
            prose = []
            if kind == "command":
                self._command(_PROMPT.sub("", row, count=1).lstrip("# ").strip())
            elif not self.output:
                self._config_line(row.strip())
        self._prose("\n".join(prose))

    def _kind(self, row: str, *, introduced: bool) -> str:
        body = row.strip()
        if not body or body.startswith("```"):
            return "prose"
        if _PROMPT.match(row) or (self.announced_command and _ROOT_PROMPT.match(row)):
            return "command"
        if self._is_bare_command(body):
            return "command"
        return "config" if introduced and is_config_line(body) else "prose"

    def _is_bare_command(self, body: str) -> bool:
        words = body.split()
        if words[0] == "sudo":
            return len(words) > 1
        if body.startswith("/") and self.lines_announced:
            return False
        program = words[0].rsplit("/", 1)[-1]
        # "umask 077" and "install x /bin/false" are lines of files: only listed programs count.
        return (
            program in self.vocabulary.programs
            and len(words) > 1
            and not is_prose(body, words)
            and not body.endswith((".", ":"))
        )

    def _command(self, text: str) -> None:
        self.output = False
        actions = parse_script(without_placeholders(text), self.vocabulary).actions
        requirements = command_requirements(actions, self.vocabulary, Polarity.PRESCRIBES, text)
        created = [a.target for a in actions if a.kind is ActionKind.CREATE]
        created += [
            word
            for a in actions
            if a.kind is ActionKind.COMMAND and a.target in ("vi", "vim", "nano")
            for word in a.args
            if "/" in word
        ]
        if created:
            self.paths = tuple(created)
        elif not self.paths or requirements:
            # What follows a command that changes something is its output, not a file's content.
            self.output = True
        self.shown.extend(requirements)

    def _config_line(self, text: str) -> None:
        text = text.strip('"') if text.startswith('"') else text
        if self.uncommenting:
            text = text.lstrip("# ")
        if re.fullmatch(r"\[[^\]=]+\]", text) or text.startswith("#"):
            return
        kind = ActionKind.ERASE if self.removing else ActionKind.WRITE
        if text.startswith(_ROOTS) and " " not in text:
            self.paths = (*self.paths, text)
            return
        if text.startswith("/") and " " not in text:
            # A path outside the file system is a key, as in the lock files of dconf.
            self.shown.append(
                Requirement(
                    polarity=Polarity.PRESCRIBES, term=text, words=(text,), paths=self.paths
                )
            )
            return
        action = Action(kind=kind, target=self.paths[0] if self.paths else "", text=text)
        self.shown.append(
            Requirement(
                polarity=Polarity.PRESCRIBES,
                term=f"remove {text}" if self.removing else text,
                action=action,
                paths=self.paths,
            )
        )

    def _prose(self, text: str) -> None:
        if not text.strip():
            return
        self.uncommenting = "uncomment" in text
        if self.output and not is_prose(text.strip(), text.split()):
            return
        self.output = bool(
            _OUTPUT.search(text.strip().rsplit("\n", 1)[-1][-120:])
        ) and text.rstrip().endswith(":")
        parts = sentences(mark_literals(resolve_references(text), self.vocabulary))
        for index, sentence in enumerate(parts):
            following = parts[index + 1] if index + 1 < len(parts) else ""
            self._sentence(sentence[:SENTENCE_LIMIT], following)

    def _sentence(self, sentence: str, following: str) -> None:
        found = clauses(sentence)
        if reports_attempt(sentence):
            failed = mentions_failure(sentence) or mentions_failure(following[:80])
            worked = reports_success(sentence) or reports_success(following[:80])
            if failed or not worked:
                wanted = Polarity.FORBIDS if failed else Polarity.EXPLAINS
                found = _attempted(found, wanted)
        conditional = bool(_CONDITION.match(sentence))
        self.removing = False
        subjects = tuple(match.lower() for match in _ACRONYM.findall(sentence))
        paths: list[str] = []
        for clause in found:
            for step in _steps(clause):
                terms = find_terms(step.text[:CLAUSE_LIMIT], self.vocabulary, sentence)
                removing = removes(step.text) and not conditional
                if step.polarity is Polarity.PRESCRIBES:
                    self.removing = removing
                items = advice(
                    step, terms, self.vocabulary, removing=removing, earlier=tuple(paths)
                )
                if step.polarity is not Polarity.FORBIDS and not conditional:
                    paths.extend(terms.paths)
                self._advise(items, subjects, conditional=conditional)
        if paths and (_EDITS.search(sentence) or sentence.endswith(":")):
            self.paths = tuple(dict.fromkeys(paths))

    def _advise(
        self, items: list[Requirement], subjects: tuple[str, ...], *, conditional: bool
    ) -> None:
        for item in items:
            named = replace(item, subjects=subjects) if item.action is None else item
            weight = min(named.weight, MENTION) if conditional else named.weight
            self.advised.append(replace(named, weight=weight))


def _steps(clause: Clause) -> list[Clause]:
    """Only advice has steps: a warning before "or run Y" covers both."""
    if clause.polarity is Polarity.EXPLAINS and _AIM.match(clause.text):
        # "Edit F so that K=V": what is to be there afterwards is the advice.
        return [Clause(text=clause.text, polarity=Polarity.PRESCRIBES)]
    if clause.polarity is not Polarity.PRESCRIBES:
        return [clause]
    return [Clause(text=part, polarity=clause.polarity) for part in steps(clause.text)]


def _attempted(found: list[Clause], polarity: Polarity) -> list[Clause]:
    """The leading advice of a report is what was tried; what follows another clause is not."""
    result: list[Clause] = []
    attempting = True
    for clause in found:
        attempting = attempting and clause.polarity is Polarity.PRESCRIBES
        if result and clause.text.lstrip().startswith((";", "—", "–")):
            attempting = False
        result.append(Clause(text=clause.text, polarity=polarity) if attempting else clause)
    return result


def _without_last_word(text: str) -> str:
    text = text.rstrip().rstrip(".…")
    return text[: max(text.rfind(" "), text.rfind("\n"), 0)]


def _joined_lines(text: str) -> list[str]:
    """Return lines, a trailing backslash continuing the line."""
    return re.sub(r"\\\n\s*", " ", text).split("\n")
