"""The common language of tips and scripts: one thing done to one object.

Guarantees: a tip's `$ sudo systemctl enable x` and a script's `/usr/bin/systemctl enable
x.service` become equal actions, because both are read by the same interpreter. Unknown parts of
a value (a variable nobody assigned, the output of a real command) are the character UNKNOWN.

Does not guarantee that an action took place: branches are read as if taken, exit codes are not
known.

Shaped by token overlap, for which "enable" and "disable" of one service are 90 % the same text.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

UNKNOWN = "\ufffc"
IMPLIED = "--now"
"""Text of a service action that only comes with another one (`mask --now` also stops)."""


class ActionKind(enum.StrEnum):
    """What sort of thing was done; the value is the `kind` that evidence shows."""

    SERVICE = "service"
    PACKAGE = "package"
    WRITE = "value"
    ERASE = "removal"
    CREATE = "path"
    MODE = "mode"
    OWNER = "owner"
    GROUP = "group"
    LINK = "link"
    COMMAND = "command"


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One action: `verb` on `target`, with the text that was written or the value that was set.

    WRITE: target is the path, text the line. ERASE: target is the path, text what was removed.
    SERVICE, PACKAGE: verb and unit or package name. MODE, OWNER, GROUP: target is the path, text
    the value. LINK: target is the new link, text what it points to. COMMAND: target is the
    program's name, args its arguments as they were after expansion. `line` is 1-based.
    """

    kind: ActionKind
    target: str
    verb: str = ""
    text: str = ""
    args: tuple[str, ...] = ()
    line: int = 0


def base_name(path: str) -> str:
    """Return the last component of a path, ignoring a slash at its end."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def unit_name(word: str) -> str:
    """Return a service's name without its directory, quotes and `.service`."""
    return base_name(word.strip("'\"")).removesuffix(".service")
