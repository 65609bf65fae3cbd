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
from scoring.trace.prose import (
    Clause,
    Polarity,
    clauses,
    mentions_failure,
    reports_attempt,
    reports_success,
    sentences,
)
from scoring.trace.requirements import (
    HINT,
    MENTION,
    PRINCIPAL,
    Requirement,
    command_requirements,
    selected,
    together,
    without_placeholders,
)
from scoring.trace.shell import parse_script
from scoring.trace.terms import Terms, find_terms
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
_REMOVES: Final = re.compile(
    r"\b(?:remov(?:e|es|ed|ing)|delet(?:e|es|ed|ing)|comment(?:ing|ed)? out|eliminat\w+|strip)\b"
    r"(?! the comment)",
    re.IGNORECASE,
)
_REMOVED_WORD: Final = re.compile(
    r"\b(?:remov\w*|delet\w*|comment(?:ing)? out)\s+(?:any|all|the|every)?\s*"
    r"(?:occurrences? of|instances? of|lines? (?:with|containing))?\s*(?:the\s+)?"
    r"(?P<word>[A-Za-z][\w.-]+)\s+(?:statement|line|option|entry|entries|parameter|directive"
    r"|setting|keyword|value|argument|flag)s?\b",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"^\s*(?:note|unless|example|for example|warning|caution|if (?:necessary|needed|required))\b",
    re.IGNORECASE,
)
_WEAK_NEGATION: Final = re.compile(
    r"^\s*(?:not|nor|without|is not|are not|no longer)\b", re.IGNORECASE
)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedTip:
    """Requirements in order of the tip, and its words (for placeholders such as `[audit_tool]`)."""

    requirements: tuple[Requirement, ...]
    vocabulary: ActionVocabulary
    content: frozenset[str] = frozenset()


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
    if text.rstrip().endswith(_ELLIPSES) or len(tip) == SHOWN_LENGTH:
        text = _without_last_word(text)
    reader.read(text)
    return ParsedTip(
        requirements=tuple(selected(reader.shown, reader.advised)[:_REQUIREMENTS]),
        vocabulary=words,
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
        parts = sentences(text)
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
        self.removing = bool(_REMOVES.search(sentence)) and not conditional
        subjects = tuple(match.lower() for match in _ACRONYM.findall(sentence))
        paths: list[str] = []
        for clause in found:
            terms = find_terms(clause.text[:CLAUSE_LIMIT], self.vocabulary)
            if clause.polarity is not Polarity.FORBIDS and not conditional:
                paths.extend(terms.paths)
            items = [
                replace(item, subjects=subjects) if item.action is None else item
                for item in self._requirements(clause, terms)
            ]
            self.advised.extend(
                replace(item, weight=min(item.weight, MENTION)) if conditional else item
                for item in items
            )
        if paths and (_EDITS.search(sentence) or sentence.endswith(":")):
            self.paths = tuple(dict.fromkeys(paths))

    def _requirements(self, clause: Clause, terms: Terms) -> list[Requirement]:
        """Turn the terms of one clause into requirements of its polarity."""
        weight = MENTION if clause.polarity is Polarity.EXPLAINS else PRINCIPAL
        polarity = clause.polarity
        if self.removing and polarity is Polarity.PRESCRIBES and not terms.commands:
            removal = self._removal(clause.text, terms)
            if removal is not None:
                return [removal]
        options = [word for word in terms.bare if word.startswith("-")]
        if polarity is Polarity.FORBIDS and terms.objects and options:
            # "Installing X with --y failed" warns of the two together.
            terms.words += [name for _, name in terms.objects]
            terms.objects.clear()
        items = self._explicit(polarity, terms)
        paths = tuple(terms.paths)
        named = {name for _, name in terms.objects}
        words = tuple(dict.fromkeys(word for word in terms.words + terms.bare if word not in named))
        settled = bool(terms.settings or terms.objects)
        if terms.commands and polarity is Polarity.PRESCRIBES and not words:
            settled = True
        if (words or paths) and not settled:
            certain = terms.words or paths or polarity is Polarity.FORBIDS
            item = together(polarity, words, paths)
            items.append(replace(item, weight=PRINCIPAL if certain else HINT))
        if polarity is Polarity.FORBIDS and _WEAK_NEGATION.match(clause.text):
            weight = HINT
        return [replace(item, weight=min(item.weight, weight)) for item in items]

    def _explicit(self, polarity: Polarity, terms: Terms) -> list[Requirement]:
        """Return what commands, settings and "restart x" of a clause ask for."""
        items: list[Requirement] = []
        for command in terms.commands:
            actions = parse_script(without_placeholders(command), self.vocabulary).actions
            items.extend(
                command_requirements(actions, self.vocabulary, polarity, command, mentioned=True)
            )
        paths = tuple(terms.paths)
        for setting in terms.settings:
            # `polctl lock` may be a command, `Banner none` a line: without "=" either will do.
            words = () if "=" in setting else tuple(setting.split())
            action = Action(
                kind=ActionKind.WRITE,
                target=paths[0] if paths else "",
                text=setting,
                args=words,
            )
            items.append(Requirement(polarity=polarity, term=setting, action=action, paths=paths))
        for described, name in terms.objects:
            kind, _, verb = described.partition(" ")
            action = Action(kind=ActionKind(kind), target=name, verb=verb)
            items.append(Requirement(polarity=polarity, term=f"{verb} {name}", action=action))
        return items

    def _removal(self, text: str, terms: Terms) -> Requirement | None:
        words = terms.words + terms.settings + terms.bare
        match = _REMOVED_WORD.search(text)
        if not words and match:
            words = [match["word"]]
        if not words and not terms.paths:
            return None
        action = Action(kind=ActionKind.ERASE, target="", text=" ".join(words[:1]))
        return Requirement(
            polarity=Polarity.PRESCRIBES,
            term="remove " + " ".join(words or terms.paths),
            action=action,
            paths=tuple(terms.paths),
        )


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
