"""Turns what one step of advice names into requirements.

Guarantees: settings take the files of their own step, else those named before in the sentence;
words and files of a step must occur together; a removal asks for what it removes, or for the file.
A step that only looks asks for nothing when something else is asked for.

Does not guarantee that a word is the name of a setting: words weigh less than lines.

Shaped by a sentence that deletes one line, adds two others and restarts a service.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from scoring.trace.actions import Action, ActionKind
from scoring.trace.english import ADJECTIVES
from scoring.trace.prose import Clause, Polarity
from scoring.trace.requirements import (
    HINT,
    MENTION,
    PRINCIPAL,
    Requirement,
    command_requirements,
    object_weight,
    together,
    without_placeholders,
)
from scoring.trace.shell import parse_script

if TYPE_CHECKING:
    from scoring.trace.terms import Terms
    from scoring.trace.vocabulary import ActionVocabulary

_REMOVES: Final = re.compile(
    r"\b(?:remov(?:e|es|ed|ing)|delet(?:e|es|ed|ing)|comment(?:ing|ed)? out|eliminat\w+|strip)\b"
    r"(?! the comment)",
    re.IGNORECASE,
)
_REMOVED_WORD: Final = re.compile(
    r"\b(?:remov\w*|delet\w*|comment(?:ing)? out)\s+(?:any|all|the|every|each|both)?\s*"
    r"(?:occurrences? of|instances? of|lines? (?:with|containing))?\s*(?:the\s+)?"
    rf"(?:(?:{'|'.join(sorted(ADJECTIVES))})\s+)*"
    r"(?P<word>[A-Za-z][\w.-]+)\s+(?:statement|line|option|entry|entries|parameter|directive"
    r"|setting|keyword|value|argument|flag)s?\b",
    re.IGNORECASE,
)
_FROM_FILE: Final = re.compile(r"\b(?:from|in|inside|out of)\s+[\"`']?[/~]")
_WEAK_NEGATION: Final = re.compile(
    r"^\s*(?:not|nor|without|is not|are not|no longer)\b", re.IGNORECASE
)


_MODE: Final = re.compile(
    r"\b(?:permissions?|modes?)\b[^;\n]{0,80}?[\s\"`'](?P<mode>[0-7]{3,4})(?![\w.])", re.IGNORECASE
)
_OWNER: Final = re.compile(
    r"\b(?:owned by|owner(?:ship)?(?: (?:to|is|of \S+ to))?)\s+[\"`']?(?P<name>[a-z_][\w-]*)"
)


def removes(text: str) -> bool:
    """Say whether a step takes something away."""
    return bool(_REMOVES.search(text))


def advice(
    clause: Clause,
    terms: Terms,
    vocabulary: ActionVocabulary,
    *,
    removing: bool,
    earlier: tuple[str, ...],
) -> list[Requirement]:
    """Return the requirements of one step. `earlier` are files named before in the sentence."""
    weight = MENTION if clause.polarity is Polarity.EXPLAINS else PRINCIPAL
    polarity = clause.polarity
    if removing and polarity is Polarity.PRESCRIBES and not terms.commands:
        removal = _removal(clause.text, terms, earlier)
        if removal is not None:
            return [removal]
    options = [word for word in terms.bare if word.startswith("-")]
    if polarity is Polarity.FORBIDS and terms.objects and options:
        # "Installing X with --y failed" warns of the two together.
        terms.words += [name for _, name in terms.objects]
        terms.objects.clear()
    # "Append a=1 with `… --args=a=1`" says one thing twice.
    terms.settings = [
        line for line in terms.settings if not any(line in command for command in terms.commands)
    ]
    items = _explicit(polarity, terms, vocabulary, earlier)
    modes = _modes(clause, terms)
    loose = None if modes else _loose(polarity, terms)
    items += modes if loose is None else [loose]
    if polarity is Polarity.FORBIDS and _WEAK_NEGATION.match(clause.text):
        weight = HINT
    return [replace(item, weight=min(item.weight, weight)) for item in items]


def _modes(clause: Clause, terms: Terms) -> list[Requirement]:
    """Read "permissions of PATH to 0640" and "owned by root", which name no command."""
    if terms.commands or terms.settings or clause.polarity is not Polarity.PRESCRIBES:
        return []
    found: list[tuple[ActionKind, str]] = []
    if mode := _MODE.search(clause.text):
        found.append((ActionKind.MODE, mode["mode"]))
    if owner := _OWNER.search(clause.text):
        found.append((ActionKind.OWNER, owner["name"]))
    return [
        Requirement(
            polarity=clause.polarity,
            term=f"{kind.value} {text} of {path}",
            action=Action(kind=kind, target=path, text=text),
            paths=(path,),
        )
        for path in dict.fromkeys(terms.paths)
        for kind, text in found
    ]


def _loose(polarity: Polarity, terms: Terms) -> Requirement | None:
    """Return the words and paths of a step that no command, line or object explains."""
    named = {name for _, name in terms.objects}
    words = tuple(dict.fromkeys(word for word in terms.words + terms.bare if word not in named))
    settled = bool(terms.settings or terms.objects)
    if terms.commands and polarity is Polarity.PRESCRIBES and not words:
        settled = True
    if settled or not (words or terms.paths):
        return None
    certain = terms.words or terms.paths or polarity is Polarity.FORBIDS
    item = together(polarity, words, tuple(terms.paths))
    return replace(item, weight=PRINCIPAL if certain else HINT)


def _explicit(
    polarity: Polarity, terms: Terms, vocabulary: ActionVocabulary, earlier: tuple[str, ...]
) -> list[Requirement]:
    """Return what commands, settings and "restart x" of a step ask for."""
    items: list[Requirement] = []
    for command in terms.commands:
        actions = parse_script(without_placeholders(command), vocabulary).actions
        items.extend(command_requirements(actions, vocabulary, polarity, command, checks=True))
    paths = tuple(terms.paths)
    if polarity is Polarity.PRESCRIBES:
        paths = paths or earlier
    for setting in terms.settings:
        # `polctl lock` may be a command, `Banner none` a line: without "=" either will do.
        words = () if "=" in setting else tuple(setting.split())
        action = Action(
            kind=ActionKind.WRITE, target=paths[0] if paths else "", text=setting, args=words
        )
        items.append(Requirement(polarity=polarity, term=setting, action=action, paths=paths))
    for described, name in terms.objects:
        kind, _, verb = described.partition(" ")
        action = Action(kind=ActionKind(kind), target=name, verb=verb)
        weight = object_weight(action, vocabulary)
        items.append(
            Requirement(polarity=polarity, term=f"{verb} {name}", action=action, weight=weight)
        )
    return items


def _removal(text: str, terms: Terms, earlier: tuple[str, ...]) -> Requirement | None:
    words = terms.words + terms.settings + terms.bare
    match = _REMOVED_WORD.search(text)
    if not words and match:
        words = [match["word"]]
    if not words and (not terms.paths or _FROM_FILE.search(text)):
        return None
    action = Action(kind=ActionKind.ERASE, target="", text=" ".join(words[:1]))
    return Requirement(
        polarity=Polarity.PRESCRIBES,
        term="remove " + " ".join(words or terms.paths),
        action=action,
        paths=tuple(terms.paths) or earlier,
    )
