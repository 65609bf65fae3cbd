"""Looks for the words of a prose clause in one action of a script.

Guarantees: words must occur together in one action, in one of the files the clause names; printing
and reading are no actions; comments that a script writes do not count.

Does not guarantee meaning: a word that occurs may be used for something else, so that this weighs
less than a compared command or line.

Shaped by "do not edit X" and a script that only changed the mode of X.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from scoring.trace.actions import Action, ActionKind, base_name
from scoring.trace.lines import path_closeness
from scoring.trace.matching import NEAR, Match, best, closeness, contains, contains_path

if TYPE_CHECKING:
    from collections.abc import Sequence


NEIGHBOUR: Final = 0.6
"""Where a file is all that a tip names, another one in its directory is another file."""


def match_words(
    words: tuple[str, ...],
    paths: tuple[str, ...],
    actions: Sequence[Action],
    *,
    warned: bool = False,
) -> Match:
    """Look for one action in which all words occur, in one of the files.

    `warned`: the tip forbids them. Then deleting lines of a file is an edit of it, while a program
    that is only given the file's name (to generate or to check it) is none.
    """
    return best(
        _words_in(words, paths, action)
        for action in actions
        if not _says_nothing(action)
        and (warned or action.kind is not ActionKind.ERASE)
        and not (warned and not words and action.kind is ActionKind.COMMAND)
    )


def _says_nothing(action: Action) -> bool:
    """Printing and looking are no actions; others are represented by an action of their kind."""
    return action.kind is ActionKind.COMMAND and action.target in _REPRESENTED


_REPRESENTED: Final = frozenset(
    {"echo", "printf", "grep", "egrep", "cat", "sed", "test", "[", "rpm", "awk", "cut", "tr", "ls",
     "stat", "find", "xargs", "touch", "mkdir", "head", "tail", "sort", "cp", "mv", "rm", "perl",
     "tee", "chmod", "chown", "chgrp", "ln", "diff", "getent", "readlink"}
)  # fmt: skip
_ON_FILES: Final = frozenset(
    {ActionKind.WRITE, ActionKind.ERASE, ActionKind.CREATE, ActionKind.MODE, ActionKind.OWNER,
     ActionKind.GROUP, ActionKind.LINK}
)  # fmt: skip
_CONTENT: Final = frozenset({ActionKind.WRITE, ActionKind.ERASE, ActionKind.LINK})


def _words_in(words: tuple[str, ...], paths: tuple[str, ...], action: Action) -> Match:
    on_file = action.kind in _ON_FILES
    # Changing a file's mode or touching it is hardly what "edit it" means.
    kind = 1.0 if action.kind in _CONTENT or not on_file else 0.4
    close = kind * closeness(paths, action.target) if on_file else 0.0
    if paths and not on_file:
        close = _named_by_command(paths, action)
    if not words:
        # A place alone is little to go by, and a program that is given its name still less.
        if on_file and close < kind and close > NEIGHBOUR:
            close = NEIGHBOUR
        return Match(score=close * (0.75 if on_file else 0.5) if paths else 0.0, action=action)
    hits = sum(1 for word in words if _occurs(word, action, on_file=on_file))
    if not hits:
        return Match(score=0.02 * close, action=action)
    share = hits / len(words)
    place = kind if not paths or close >= NEAR else max(0.75 * close, 0.25)
    return Match(score=(0.95 if share == 1.0 else 0.35 * share) * place, action=action)


def _named_by_command(paths: tuple[str, ...], action: Action) -> float:
    """A function is often named after the file that it edits ("append_fstab_line")."""
    named = set(re.split(r"[_.-]", action.target))
    if any(base_name(path) in named for path in paths):
        return 1.0
    return max((0.8 for path in paths if path in action.args), default=0.0)


def _occurs(word: str, action: Action, *, on_file: bool) -> bool:
    if action.text.startswith("#"):
        return False
    if on_file and path_closeness(word, action.target) >= 0.7:
        return True
    words = (action.verb, action.text) if on_file else (action.target, *action.args)
    written = " ".join(words)
    return contains_path(written, word) if "/" in word else contains(written, word.lower())
