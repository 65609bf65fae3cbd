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
from scoring.trace.shell import parse_script
from scoring.trace.terms import Terms, find_terms
from scoring.trace.vocabulary import ActionVocabulary

TIP_LIMIT: Final = 12_000
_CACHE: Final = 4_096
PRINCIPAL: Final = 1.0
ACTIVATION: Final = 0.2
HINT: Final = 0.5
MENTION: Final = 0.3
_REQUIREMENTS: Final = 60

_PROMPT: Final = re.compile(r"^\s*(?:\[?\w+@[^\]\s]*[\]:~\w/ ]*)?[$%>]\s+(?=\S)|^\s*#\s+(?=sudo\s)")
_OUTPUT: Final = re.compile(r"\b(?:output|result|similar to|looks? like this|returns?)\b", re.IGNORECASE)
_EDITS: Final = re.compile(
    r"\b(?:add|append|edit|modif|updat|chang|set|configur|creat|writ|insert|includ|put|plac|correct"
    r"|ensur|uncomment|replac|contain|lines?|parameter|section|in a file|use)",
    re.IGNORECASE,
)
_REMOVES: Final = re.compile(
    r"\b(?:remov(?:e|es|ed|ing)|delet(?:e|es|ed|ing)|comment(?:ing|ed)? out|eliminat\w+|strip)\b(?! the comment)",
    re.IGNORECASE,
)
_REMOVED_WORD: Final = re.compile(
    r"\b(?:remov\w*|delet\w*|comment(?:ing)? out)\s+(?:any|all|the|every)?\s*(?:occurrences? of|instances? of"
    r"|lines? (?:with|containing))?\s*(?:the\s+)?(?P<word>[A-Za-z][\w.-]+)\s+(?:statement|line|option|entry"
    r"|entries|parameter|directive|setting|keyword|value|argument|flag)s?\b",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(r"^\s*(?:note\b|unless\b|example\b|for example\b|warning\b|caution\b|if (?:necessary|needed|required)\b)", re.IGNORECASE)
_FUNCTION_WORD: Final = re.compile(
    r"(?:^|\s)(?:the|to|is|are|be|must|following|with|for|a|an|of|will|that|this|can|should|from|not"
    r"|by|has|have|it)(?=\s|$)",
    re.IGNORECASE,
)
_WEAK_NEGATION: Final = re.compile(r"^\s*(?:not|nor|without|is not|are not|no longer)\b", re.IGNORECASE)
_LINES: Final = re.compile(r"\b(?:lines?|entr(?:y|ies)|rules?|parameters?|settings?)\b", re.IGNORECASE)
_ACRONYM: Final = re.compile(r"(?<![\w/.\"-])(?!RHEL|STIG|DOD|NOTE|USG|FIPS|ISSO)[A-Z]{3,6}(?![\w/.-])")
_COMMANDS: Final = re.compile(r"\bcommands?\b", re.IGNORECASE)
_ROOT_PROMPT: Final = re.compile(r"^\s*#\s+(?=[a-z][\w-]+\s)")
_ROOTS: Final = tuple(
    f"/{name}/"
    for name in ("etc", "usr", "var", "boot", "lib", "lib64", "home", "root", "tmp", "opt", "dev",
                 "proc", "sys", "bin", "sbin", "run", "srv")
)  # fmt: skip
_CUT: Final = re.compile(r"\s*(?:\S*)(?:\.\.\.|…)\s*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """One thing that a tip asks for or forbids.

    `action` is what to do (None: the `words` must occur together in one action); `paths` are the
    files it may be done in (any of them; empty: anywhere). `subjects` are acronyms of the sentence,
    one of which a script on this matter would mention. `weight` is PRINCIPAL, or HINT
    (a bare identifier, a weak "not"), MENTION (explained, conditional) or ACTIVATION.
    """

    polarity: Polarity
    term: str
    action: Action | None = None
    words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    weight: float = PRINCIPAL
    subjects: tuple[str, ...] = ()


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
    # A tip may be shown cut: the last, halved word must not become a term of its own.
    text = _CUT.sub(" ", text)
    reader.read(text)
    return ParsedTip(
        requirements=tuple(_selected(reader)[:_REQUIREMENTS]),
        vocabulary=words,
        content=frozenset(re.findall(r"[a-z]{3,}", text.lower())),
    )


def _selected(reader: _TipReader) -> list[Requirement]:
    """Prefer what is shown on lines of its own over what the prose around it mentions."""
    shown = reader.shown
    by_polarity: dict[Polarity, list[Requirement]] = {polarity: [] for polarity in Polarity}
    for item in reader.advised:
        by_polarity[item.polarity].append(item)
    advised = by_polarity[Polarity.PRESCRIBES]
    strong = [item for item in advised if item.weight == PRINCIPAL]
    forbidden = by_polarity[Polarity.FORBIDS]
    if any(item.weight == PRINCIPAL for item in shown):
        # Beside explicit lines only an explicit warning counts, not "files not owned by root".
        firm = [item for item in forbidden if item.weight == PRINCIPAL and not item.words]
        return _distinct(shown + firm)
    firm = [item for item in forbidden if item.weight == PRINCIPAL]
    if strong:
        return _distinct(strong + shown + firm)
    if shown:
        return _distinct([replace(item, weight=PRINCIPAL) for item in shown] + firm)
    hints = [item for item in advised if item.weight == HINT]
    return _distinct(
        (hints or by_polarity[Polarity.EXPLAINS] or advised) + (firm or forbidden)
    )


def _distinct(items: list[Requirement]) -> list[Requirement]:
    return list(dict.fromkeys(items))


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
        return "config" if introduced and _is_config_line(body) else "prose"

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
            and not _is_prose(body, words)
            and not body.endswith((".", ":"))
        )

    def _command(self, text: str) -> None:
        self.output = False
        actions = parse_script(_without_placeholders(text), self.vocabulary).actions
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
        text = text.strip("\"") if text.startswith('"') else text
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
                polarity=Polarity.PRESCRIBES, term=text, action=action, paths=self.paths
            )
        )

    def _prose(self, text: str) -> None:
        if not text.strip():
            return
        self.uncommenting = "uncomment" in text
        if self.output and not _is_prose(text.strip(), text.split()):
            return
        self.output = bool(_OUTPUT.search(text.strip().rsplit("\n", 1)[-1][-120:])) and text.rstrip().endswith(":")
        parts = sentences(text)
        for index, sentence in enumerate(parts):
            following = parts[index + 1] if index + 1 < len(parts) else ""
            self._sentence(sentence, following)

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
            terms = find_terms(clause.text, self.vocabulary)
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
        if paths and _EDITS.search(sentence):
            self.paths = tuple(dict.fromkeys(paths))

    def _requirements(self, clause: Clause, terms: Terms) -> list[Requirement]:
        """Turn the terms of one clause into requirements of its polarity."""
        weight = MENTION if clause.polarity is Polarity.EXPLAINS else PRINCIPAL
        polarity = clause.polarity
        if self.removing and polarity is Polarity.PRESCRIBES and not terms.commands:
            removal = self._removal(clause.text, terms)
            if removal is not None:
                return [removal]
        items: list[Requirement] = []
        for command in terms.commands:
            actions = parse_script(_without_placeholders(command), self.vocabulary).actions
            items.extend(
                command_requirements(actions, self.vocabulary, polarity, command, mentioned=True)
            )
        paths = tuple(terms.paths)
        for setting in terms.settings:
            action = Action(kind=ActionKind.WRITE, target=paths[0] if paths else "", text=setting)
            items.append(
                Requirement(polarity=polarity, term=setting, action=action, paths=paths)
            )
        for described, name in terms.objects:
            kind, _, verb = described.partition(" ")
            action = Action(kind=ActionKind(kind), target=name, verb=verb)
            items.append(
                Requirement(polarity=polarity, term=f"{verb} {name}", action=action)
            )
        named = {name for _, name in terms.objects}
        words = tuple(
            dict.fromkeys(word for word in terms.words + terms.bare if word not in named)
        )
        if (words or paths) and not terms.settings and not terms.objects:
            if not (terms.commands and polarity is Polarity.PRESCRIBES and not words):
                certain = PRINCIPAL if terms.words or paths else HINT
                if polarity is Polarity.FORBIDS:
                    certain = PRINCIPAL
                items.append(replace(_together(polarity, words, paths), weight=certain))
        if polarity is Polarity.FORBIDS and _WEAK_NEGATION.match(clause.text):
            weight = HINT
        return [replace(item, weight=min(item.weight, weight)) for item in items]

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


def _together(polarity: Polarity, words: tuple[str, ...], paths: tuple[str, ...]) -> Requirement:
    """Words that must occur in one action; beside a table of mounts, paths are words as well."""
    if any(path.endswith("fstab") for path in paths) and len(paths) > 1:
        words += tuple(path for path in paths if not path.endswith("fstab"))
        paths = tuple(path for path in paths if path.endswith("fstab"))
    term = ", ".join((*words, *paths))
    return Requirement(polarity=polarity, term=term, words=words, paths=paths)


def _attempted(found: list[Clause], polarity: Polarity) -> list[Clause]:
    """The first clauses of a report are the attempt, up to the first boundary after it."""
    result: list[Clause] = []
    attempting = True
    for clause in found:
        if attempting and result and clause.text.lstrip()[:1] in (";", "—", "–", "."):
            attempting = False
        if attempting and clause.polarity is Polarity.PRESCRIBES:
            result.append(Clause(text=clause.text, polarity=polarity))
        else:
            result.append(clause)
    return result


def command_requirements(
    actions: tuple[Action, ...],
    vocabulary: ActionVocabulary,
    polarity: Polarity,
    text: str,
    *,
    mentioned: bool = False,
) -> list[Requirement]:
    """Turn the actions of a tip's command into requirements; a check gives none.

    An action of a known kind stands for its command line. A bare program name (`mentioned`) asks
    for any use of it.
    """
    specific = [action for action in actions if action.kind is not ActionKind.COMMAND]
    items: list[Requirement] = []
    for action in specific or actions:
        if action.kind is ActionKind.COMMAND and vocabulary.is_listed(
            vocabulary.readers, (action.target, *action.args)
        ):
            continue
        items.append(
            Requirement(
                polarity=polarity,
                term=text.removeprefix("sudo ")[:200],
                action=action,
                paths=(action.target,) if action.kind in _ON_PATHS and action.target else (),
                weight=PRINCIPAL if mentioned else _command_weight(action, vocabulary, specific),
            )
        )
    return items


_ON_PATHS: Final = frozenset(
    {ActionKind.WRITE, ActionKind.ERASE, ActionKind.CREATE, ActionKind.MODE, ActionKind.OWNER,
     ActionKind.GROUP}
)  # fmt: skip


def _command_weight(
    action: Action, vocabulary: ActionVocabulary, siblings: list[Action]
) -> float:
    argv = (action.target, *action.args)
    if action.kind is ActionKind.SERVICE and action.verb in ("start", "stop") and len(siblings) > 1:
        # `enable --now` is about enabling; starting comes with it.
        return ACTIVATION
    if action.kind is ActionKind.SERVICE:
        argv = ("systemctl", vocabulary.canonical(action.verb))
    elif action.kind is ActionKind.PACKAGE:
        argv = ("dnf", action.verb)
    elif action.kind is ActionKind.CREATE:
        argv = ("touch",)
    elif action.kind is not ActionKind.COMMAND:
        return PRINCIPAL
    return ACTIVATION if vocabulary.is_listed(vocabulary.activators, argv) else PRINCIPAL


def _without_placeholders(text: str) -> str:
    """`<user>` and `[file]` would be redirections and globs to a shell: quote them."""
    return re.sub(r"(?<!\S)(<[^<>\n]+>|\[[^\]\n]+\])(?!\S)", r"'\1'", text)


def _is_config_line(body: str) -> bool:
    """Say whether a line of a tip shows a line of a file rather than a sentence."""
    if body.endswith((".", ":", "?")) and not body.endswith(("*.", "/.")) or len(body) > 400:
        return False
    words = body.split()
    if re.match(r"-[a-zA-Z-]", words[0]) and len(words) > 1 and not re.match(r"-\s", body):
        return True
    if _is_prose(body, words):
        return False
    if "=" in body or words[0].startswith(("/", "$", "*", "%", "@", "[", "#", "-")):
        return True
    if len(words) == 1:
        return bool(re.fullmatch(r"[\w.-]+", body))
    return len(words) <= 12 and "," not in words[0]


def _is_prose(body: str, words: list[str]) -> bool:
    """One small English word may be a name ("install can /bin/false"); two are a sentence."""
    count = len(_FUNCTION_WORD.findall(body))
    return count > 1 or (count == 1 and (len(words) > 4 or body[:1].isupper()))


def _joined_lines(text: str) -> list[str]:
    """Return lines, a trailing backslash continuing the line."""
    return re.sub(r"\\\n\s*", " ", text).split("\n")
