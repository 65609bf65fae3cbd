"""What a tip asks for, as values: requirements, their weight, and how commands become some.

Guarantees: immutable; a check (`grep`, `systemctl status`) gives no requirement; steps that put a
change into force weigh little beside the change itself.

Does not guarantee that a requirement can be met: it only says what to look for.

Shaped by tips in which a restart, a note and one decisive line stood side by side.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from scoring.trace.actions import IMPLIED, UNKNOWN, Action, ActionKind
from scoring.trace.prose import Polarity

if TYPE_CHECKING:
    from scoring.trace.vocabulary import ActionVocabulary

PRINCIPAL: Final = 1.0
ACTIVATION: Final = 0.2
HINT: Final = 0.5
MENTION: Final = 0.3
CHECK: Final = 0.1


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


def selected(shown: list[Requirement], advised_items: list[Requirement]) -> list[Requirement]:
    """Prefer what is shown on lines of its own over what the prose around it mentions."""
    by_polarity: dict[Polarity, list[Requirement]] = {polarity: [] for polarity in Polarity}
    for item in advised_items:
        by_polarity[item.polarity].append(item)
    advised = by_polarity[Polarity.PRESCRIBES]
    strong = [item for item in advised if item.weight == PRINCIPAL]
    activating = [item for item in advised if item.weight == ACTIVATION]
    forbidden = by_polarity[Polarity.FORBIDS]
    if any(item.weight == PRINCIPAL for item in shown):
        # Beside explicit lines only an explicit warning counts, not "files not owned by root".
        firm = [item for item in forbidden if item.weight == PRINCIPAL and not item.words]
        return _distinct(shown + firm)
    firm = [item for item in forbidden if item.weight == PRINCIPAL or item.action or item.paths]
    if strong:
        return _distinct(strong + activating + shown + firm)
    if shown:
        return _distinct([replace(item, weight=PRINCIPAL) for item in shown] + firm)
    hints = [item for item in advised if item.weight == HINT]
    if hints:
        return _distinct(hints + activating + (firm or forbidden))
    if activating:
        # Nothing but "restart X": then that is the advice.
        return _distinct([replace(item, weight=PRINCIPAL) for item in activating] + firm)
    checks = [item for item in advised if item.weight == CHECK]
    advised = [item for item in advised if item.weight != CHECK]
    if checks and not advised and not forbidden:
        return _distinct([replace(item, weight=PRINCIPAL) for item in checks])
    return _distinct((by_polarity[Polarity.EXPLAINS] or advised) + (firm or forbidden))


def _distinct(items: list[Requirement]) -> list[Requirement]:
    """Drop what is said twice: equal items, and a file of which a line is asked as well."""
    bound = {
        path
        for item in items
        if item.action and item.polarity is Polarity.PRESCRIBES
        for path in item.paths
    }
    return [
        item
        for item in dict.fromkeys(items)
        if item.action
        or item.words
        or item.polarity is not Polarity.PRESCRIBES
        or not bound.issuperset(item.paths)
    ]


def together(polarity: Polarity, words: tuple[str, ...], paths: tuple[str, ...]) -> Requirement:
    """Words that must occur in one action; beside a table of mounts, paths are words as well."""
    if any(path.endswith("fstab") for path in paths) and len(paths) > 1:
        words += tuple(path for path in paths if not path.endswith("fstab"))
        paths = tuple(path for path in paths if path.endswith("fstab"))
    term = ", ".join((*words, *paths))
    return Requirement(polarity=polarity, term=term, words=words, paths=paths)


def command_requirements(
    actions: tuple[Action, ...],
    vocabulary: ActionVocabulary,
    polarity: Polarity,
    text: str,
    *,
    checks: bool = False,
) -> list[Requirement]:
    """Turn the actions of a tip's command into requirements; a check gives none.

    An action of a known kind stands for its command line. With `checks`, a program that only
    looks asks for being run, which counts when the tip asks for nothing else.
    """
    specific = _specific(actions, polarity)
    items: list[Requirement] = []
    for action in specific or actions:
        argv = (action.target, *action.args)
        looks = action.kind is ActionKind.COMMAND and vocabulary.is_listed(vocabulary.readers, argv)
        if looks and not (checks and polarity is Polarity.PRESCRIBES):
            continue
        weight = CHECK if looks else _command_weight(action, vocabulary, specific)
        items.append(
            Requirement(
                polarity=polarity,
                term=text.removeprefix("sudo ")[:200],
                action=action,
                paths=(action.target,) if action.kind in _ON_PATHS and action.target else (),
                weight=PRINCIPAL if polarity is Polarity.FORBIDS else weight,
            )
        )
    return items


def _specific(actions: tuple[Action, ...], polarity: Polarity) -> list[Action]:
    """Return the actions that stand for their command line."""
    specific = [
        action
        for action in actions
        if action.kind is not ActionKind.COMMAND and action.text != UNKNOWN
    ]
    if any(action.kind is ActionKind.WRITE for action in specific):
        # What a replacement takes away is only the other side of what it writes.
        specific = [action for action in specific if action.kind is not ActionKind.ERASE]
    if polarity is Polarity.FORBIDS and any(not action.target for action in specific):
        # A warning of `sysctl -w` is about the running system, not about the line in a file.
        return [action for action in actions if action.kind is ActionKind.COMMAND]
    return specific


def object_weight(action: Action, vocabulary: ActionVocabulary) -> float:
    """Return the weight of "restart x" in a sentence."""
    return _command_weight(action, vocabulary, [])


_ON_PATHS: Final = frozenset(
    {ActionKind.WRITE, ActionKind.ERASE, ActionKind.CREATE, ActionKind.MODE, ActionKind.OWNER,
     ActionKind.GROUP}
)  # fmt: skip


def _command_weight(action: Action, vocabulary: ActionVocabulary, siblings: list[Action]) -> float:
    argv = (action.target, *action.args)
    if action.text == IMPLIED and action.kind is ActionKind.SERVICE and len(siblings) > 1:
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


def without_placeholders(text: str) -> str:
    """`<user>` and `[file]` would be redirections and globs to a shell: quote them."""
    return re.sub(r"(?<!\S)(<[^<>\n]+>|\[[^\]\n]+\])(?!\S)", r"'\1'", text)
