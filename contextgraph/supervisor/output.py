"""Where the lines of the supervised processes go: one terminal, or one file for each of them.

Guarantees: a line is data. Escape sequences and control characters are taken out, so a log line
that quotes an agent's script cannot recolour, retitle or rewrite the terminal. A terminal that went
away does not stop anybody; a log file is set aside as ``*.1`` at 10 MiB.

Does not keep the order of lines between processes.

Shaped by judged text, which comes from elsewhere, in the logs of a worker.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.text import Text

from contextgraph.embedded.processes import open_log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green")
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")


class Sink(Protocol):
    """Takes the lines of named processes."""

    def write(self, name: str, line: bytes) -> None:
        """Take one line, without its newline."""


def printable(line: bytes) -> str:
    """Answer a line as text that a terminal shows and does not obey."""
    text = _ESCAPE_SEQUENCE.sub("", line.decode("utf-8", errors="replace"))
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in text.rstrip())


class TerminalSink:
    """Writes every line to the terminal, its process's name before it in a colour of its own."""

    def __init__(self, names: Sequence[str], *, console: Console | None = None) -> None:
        self._console = console or Console(soft_wrap=True, highlight=False)
        self._width = max((len(name) for name in names), default=0)
        self._colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}

    def write(self, name: str, line: bytes) -> None:
        """Print one line."""
        prefix = (f"{name:<{self._width}} | ", self._colours.get(name, "bold"))
        with contextlib.suppress(OSError):  # a closed terminal is no reason to fall over
            self._console.print(Text.assemble(prefix, printable(line)))


class FileSink:
    """Appends every line to ``<directory>/<name>.log``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, line: bytes) -> None:
        """Append one line. Opened each time, so that files may be moved away at any moment."""
        with contextlib.suppress(OSError), open_log(self._directory / f"{name}.log") as stream:
            stream.write(printable(line).encode() + b"\n")
