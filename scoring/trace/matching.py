"""Does one action of a tip occur among the actions of a script?

Guarantees: each kind is compared by its own rules (unit and verb, package and verb, file and key
and value, path and mode, program and arguments); the answer names the line it rests on.

Does not guarantee effects over time beyond one rule: of opposite verbs on one object the last one
stands.

Shaped by three confusions that cost trust: enable read as disable, the right value in the wrong
file, and a deleted key read as a set one.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scoring.trace.actions import UNKNOWN, Action, ActionKind, base_name
from scoring.trace.lines import (
    NOT_KNOWN,
    PARTLY_KNOWN,
    Relation,
    compare_lines,
    config_line,
    normal_path,
    path_closeness,
    same_value,
)
from scoring.trace.modes import modes_agree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scoring.trace.vocabulary import ActionVocabulary

NEAR: Final = 0.9
LONG_OPTION_LOST: Final = 0.65
SAME_FILE_OTHER_KEY: Final = 0.05
_PLACEHOLDER: Final = re.compile(r"[\[<{].*[\]>}]|\.\.\.|…")
_QUIET: Final = frozenset(
    {"-y", "-q", "-v", "--quiet", "--yes", "--assumeyes", "--now", "--force", "-f", "--no-pager"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """How far something occurs (0 to 1), whether its opposite does, and where it was seen."""

    score: float
    opposed: bool = False
    action: Action | None = None
    note: str = ""


NOTHING: Final = Match(score=0.0)


def best(matches: Iterable[Match]) -> Match:
    """Return the highest match; among equals one that is opposed, for it says more."""
    return max(matches, key=lambda match: (match.score, match.opposed), default=NOTHING)


def match_action(
    wanted: Action,
    paths: tuple[str, ...],
    actions: Sequence[Action],
    vocabulary: ActionVocabulary,
    content: frozenset[str],
) -> Match:
    """Look for a tip's action among a script's actions. `content` are the tip's plain words."""
    if wanted.kind in (ActionKind.SERVICE, ActionKind.PACKAGE):
        return _match_object(wanted, actions, vocabulary)
    if wanted.kind is ActionKind.WRITE:
        line = _match_write(wanted, paths, actions, vocabulary)
        return best([_match_as_command(wanted, actions, vocabulary), line])
    if wanted.kind is ActionKind.ERASE:
        return _match_erase(wanted, paths, actions)
    if wanted.kind in _VALUES:
        return _match_value(wanted, paths, actions, content)
    if wanted.kind is ActionKind.LINK:
        return _match_link(wanted, actions)
    if wanted.kind is ActionKind.CREATE:
        return best(
            Match(score=0.6 * closeness(paths, action.target), action=action)
            for action in actions
            if action.kind in (ActionKind.CREATE, ActionKind.WRITE)
        )
    return _match_commands(wanted, actions, vocabulary)


def _match_as_command(
    wanted: Action, actions: Sequence[Action], vocabulary: ActionVocabulary
) -> Match:
    """A quoted line without "=" may also be a command line."""
    if not wanted.args:
        return NOTHING
    command = Action(kind=ActionKind.COMMAND, target=wanted.args[0], args=wanted.args[1:])
    return _match_commands(command, actions, vocabulary)


def _match_commands(
    wanted: Action, actions: Sequence[Action], vocabulary: ActionVocabulary
) -> Match:
    return best(
        _match_command(wanted, action, vocabulary)
        for action in actions
        if action.kind is ActionKind.COMMAND
    )


def closeness(paths: tuple[str, ...], path: str) -> float:
    return max((path_closeness(wanted, path) for wanted in paths), default=1.0)


def _match_object(wanted: Action, actions: Sequence[Action], vocabulary: ActionVocabulary) -> Match:
    """Services and packages: same object, same verb; the last of two opposite verbs stands."""
    verb = vocabulary.canonical(wanted.verb)
    result = NOTHING
    for action in actions:
        if action.kind is not wanted.kind or not _same_name(wanted.target, action.target):
            continue
        other = vocabulary.canonical(action.verb)
        if other == verb:
            result = Match(score=1.0, action=action)
        elif vocabulary.are_opposite(verb, other):
            result = Match(score=0.0, opposed=True, action=action)
        elif not result.opposed and result.score < _ALLIES.get((verb, other), 0.0):
            result = Match(score=_ALLIES[verb, other], action=action)
    return result


# What another verb is worth; what does less than was asked for is worth less.
_ALLIES: Final = {
    ("enable", "start"): 0.3, ("enable", "unmask"): 0.5, ("enable", "preset"): 0.5,
    ("disable", "stop"): 0.3, ("disable", "mask"): 0.5, ("start", "enable"): 0.3,
    ("start", "restart"): 0.5, ("stop", "disable"): 0.3, ("stop", "mask"): 0.5,
    ("mask", "disable"): 0.3, ("mask", "stop"): 0.3, ("restart", "start"): 0.5,
    ("restart", "reload"): 0.4, ("reload", "restart"): 0.4, ("install", "update"): 0.5,
    ("install", "reinstall"): 0.5, ("reinstall", "install"): 0.5, ("update", "install"): 0.5,
}  # fmt: skip


def _same_name(wanted: str, given: str) -> bool:
    if _PLACEHOLDER.fullmatch(wanted):
        return True
    left, right = wanted.lower(), given.lower()
    if "*" in left or "*" in right:
        return fnmatch.fnmatchcase(right, left) or fnmatch.fnmatchcase(left, right)
    return left == right or given == UNKNOWN


def _match_write(
    wanted: Action,
    paths: tuple[str, ...],
    actions: Sequence[Action],
    vocabulary: ActionVocabulary,
) -> Match:
    """A line in a file: best of all writes; an opposite value or a bare removal counts against."""
    found: list[Match] = []
    deleted = NOTHING
    for action in actions:
        if action.kind is ActionKind.WRITE:
            found.append(_written_line(wanted, paths, action, vocabulary))
        elif action.kind is ActionKind.ERASE and _deletes(wanted, paths, action):
            deleted = Match(score=0.0, opposed=True, action=action, note="only removes it")
    result = best(found)
    if result.score > SAME_FILE_OTHER_KEY and (undone := _undone(wanted, result, actions)):
        return undone
    opposite = next((match for match in found if match.opposed), None)
    if opposite and result.score < NOT_KNOWN:
        return opposite
    return deleted if deleted.opposed and result.score <= SAME_FILE_OTHER_KEY else result


def _undone(wanted: Action, result: Match, actions: Sequence[Action]) -> Match | None:
    """Return the later removal of what was written, from the very same file."""
    written = result.action
    if written is None or not written.target:
        return None
    for action in reversed(actions):
        if action is written:
            return None
        later = action.kind is ActionKind.ERASE and action.line > written.line
        same_file = action.target == written.target
        if later and same_file and _deletes(wanted, (written.target,), action):
            return Match(score=0.0, opposed=True, action=action, note="removes it again")
    return None


def _deletes(wanted: Action, paths: tuple[str, ...], action: Action) -> bool:
    """Say whether what is removed is the tip's setting: its key, or the first two words of a row."""
    words = config_line(wanted.text).words
    key = " ".join(words[: 2 if len(words) > 2 else 1]).lower()
    if not key or not action.text or closeness(paths, action.target) < NEAR:
        return False
    return f" {key} " in f" {' '.join(action.text.lower().split())} "


def _written_line(
    wanted: Action, paths: tuple[str, ...], action: Action, vocabulary: ActionVocabulary
) -> Match:
    close = closeness(paths, action.target)
    line = compare_lines(wanted.text, action.text, vocabulary)
    if line.relation is Relation.UNRELATED:
        same_file = SAME_FILE_OTHER_KEY if close >= NEAR and paths else 0.0
        score = max(line.score * close, same_file)
        note = "another setting" if score else ""
        return Match(score=score, action=action, note=note)
    place = 1.0 if close >= NEAR else 0.75 * close if close >= 0.45 else 0.2
    note = "" if line.score >= NOT_KNOWN else "another value"
    if close < NEAR and not note:
        note = "another file"
    opposed = line.relation is Relation.OPPOSITE and close >= NEAR
    return Match(score=line.score * place, opposed=opposed, action=action, note=note)


def _match_erase(wanted: Action, paths: tuple[str, ...], actions: Sequence[Action]) -> Match:
    """Removal: the text disappears from the file; without a text, the file itself."""
    text = wanted.text.strip().lower()
    found: list[Match] = []
    for action in actions:
        close = closeness(paths, action.target)
        place = 1.0 if close >= NEAR else 0.85 if close >= 0.45 else 0.2
        if action.kind is ActionKind.ERASE:
            if not text:
                # Another file of the directory is another file, not another place for the same.
                same = bool(paths) and not action.text and (close == 1.0 or not action.target)
                found.append(Match(score=place if same else 0.0, action=action))
            elif contains(action.text, text) or base_name(action.target).lower() == text:
                found.append(Match(score=place, action=action))
        elif action.kind is ActionKind.WRITE and close >= NEAR and _adds(action, text):
            found.append(Match(score=0.0, opposed=True, action=action, note="writes it"))
    return best(found)


def _adds(action: Action, text: str) -> bool:
    return bool(text) and contains(action.text, text) and not action.text.startswith("#")


def contains(text: str, word: str) -> bool:
    """Whole-word containment; several words must all occur."""
    lowered = text.lower()
    return all(
        re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-])", lowered) for part in word.split()[:8]
    )


def contains_path(text: str, path: str) -> bool:
    """Containment of a whole path: "/tmp" does not occur in "/var/tmp", "/boot" not in "/boot/efi"."""
    pattern = rf"(?<![\w/.-]){re.escape(path.rstrip('/'))}/?(?![\w/.-])"
    return bool(re.search(pattern, text))


_VALUES: Final = frozenset({ActionKind.MODE, ActionKind.OWNER, ActionKind.GROUP})


def _match_value(
    wanted: Action, paths: tuple[str, ...], actions: Sequence[Action], content: frozenset[str]
) -> Match:
    """Mode, owner and group of a path. A placeholder path is judged by the tip's own words."""
    found: list[Match] = []
    for action in actions:
        if action.kind is not wanted.kind:
            continue
        if wanted.kind is ActionKind.MODE:
            agreed = modes_agree(wanted.text, action.text)
        else:
            agreed = 1.0 if _same_account(wanted.text, action.text) else 0.0
        close = _placed(wanted.target, paths, action.target, content)
        note = "" if agreed >= 0.5 else "another value"
        found.append(Match(score=close * max(agreed, 0.1), action=action, note=note))
    return best(found)


# What lies in a directory, as advice calls it; and path components that tell nothing apart.
_PLACE_NOUNS: Final = {"bin": "command", "sbin": "command", "lib": "library"}
_EVERYWHERE: Final = frozenset(
    {"usr", "etc", "var", "conf", "config", "cfg", "file", "files", "local", "system", "rules",
     "the", "and", "for", "with", "set", "new", "data"}
)  # fmt: skip


def _placed(target: str, paths: tuple[str, ...], touched: str, content: frozenset[str]) -> float:
    if not _PLACEHOLDER.search(target):
        return closeness(paths or (target,), touched)
    parts = set(re.findall(r"[a-z]{3,}", touched.lower()))
    parts = {_PLACE_NOUNS.get(part, part) for part in parts} - _EVERYWHERE
    related = any(
        part in content or any(word.startswith(part) or part.startswith(word) for word in content)
        for part in parts
    )
    return 0.9 if related else 0.35


def _same_account(wanted: str, given: str) -> bool:
    left, right = wanted.strip(":"), given.strip(":")
    zero = ("root", "0")
    if UNKNOWN in left:
        return True
    return left == right or (left in zero and right in zero) or bool(_PLACEHOLDER.fullmatch(left))


def _match_link(wanted: Action, actions: Sequence[Action]) -> Match:
    found: list[Match] = []
    for action in actions:
        if action.kind is ActionKind.LINK:
            source = path_closeness(wanted.text, action.text)
            place = path_closeness(wanted.target, action.target)
            both = source >= NEAR and place >= NEAR
            found.append(Match(score=1.0 if both else 0.2 * source + 0.1 * place, action=action))
    return best(found)


def _match_command(wanted: Action, action: Action, vocabulary: ActionVocabulary) -> Match:
    """Programs by name, then options and operands by value; opposite verbs oppose."""
    if wanted.target != action.target and not (
        {wanted.target, action.target} <= set(vocabulary.package_tools) - {"rpm", "pip"}
    ):
        return NOTHING
    looks = vocabulary.is_listed(vocabulary.readers, (action.target, *action.args))
    if looks and not vocabulary.is_listed(vocabulary.readers, (wanted.target, *wanted.args)):
        return NOTHING
    needed, given = _arguments(wanted.args), _arguments(action.args)
    if not needed:
        return Match(score=0.85, action=action)
    options = [word for word in needed if word.startswith("-")]
    operands = [
        word for word in needed if not word.startswith("-") and not _PLACEHOLDER.search(word)
    ]
    if _opposed(needed, given, vocabulary):
        return Match(score=0.0, opposed=True, action=action)
    missing = [word for word in operands if not _has_value(word, given, vocabulary)]
    lost = [word for word in options if word not in given]
    share = 1.0 - len(missing) / len(operands) if operands else 1.0
    flags = 1.0 - len(lost) / len(options) if options else 1.0
    score = 0.6 * share + 0.4 * flags if operands else 0.25 + 0.75 * flags
    if any(word.startswith("--") for word in lost):
        # A long option is written out because it matters.
        score *= LONG_OPTION_LOST
    if missing:
        score = 0.6 if share >= 0.8 else 0.35 * share + 0.05
    note = "other arguments" if missing or lost else ""
    return Match(score=score, action=action, note=note)


def _arguments(args: tuple[str, ...]) -> list[str]:
    words: list[str] = []
    for arg in args:
        if arg in _QUIET and arg != "-f":
            continue
        option, separator, value = arg.partition("=")
        if arg.startswith("--") and separator:
            # `--args="a=1 b=2"` sets two things.
            words += [option, *(value.strip("\"'").split() or [""])]
        elif arg:
            words.append(arg.strip("\"'"))
    return words


def _opposed(needed: list[str], given: list[str], vocabulary: ActionVocabulary) -> bool:
    """An opposite verb with the same remaining operands, or a truth value turned round."""
    for word in needed:
        for other in given:
            if word != other and vocabulary.are_opposite(word.lstrip("-"), other.lstrip("-")):
                rest = [w for w in needed if w != word and not w.startswith("-")]
                if all(_has_value(w, given, vocabulary) for w in rest):
                    return word not in given
    last = needed[-1]
    if len(needed) > 1 and len(given) == len(needed) and needed[:-1] == given[:-1]:
        return vocabulary.opposite_truth(last, given[-1])
    return False


def _has_value(word: str, given: list[str], vocabulary: ActionVocabulary) -> bool:
    for other in given:
        if same_value(word, other, vocabulary) or other.lower().startswith(word.lower() + ":"):
            return True
        if word.startswith("/") and normal_path(word) == normal_path(other):
            return True
        if "=" in word and "=" in other and _same_assignment(word, other, vocabulary):
            return True
    return False


def _same_assignment(word: str, other: str, vocabulary: ActionVocabulary) -> bool:
    return compare_lines(word, other, vocabulary).score >= PARTLY_KNOWN
