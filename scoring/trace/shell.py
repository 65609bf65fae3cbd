"""Reads a bash script into actions: what it writes, runs, deletes and sets, and on which line.

Guarantees: `parse_script` never raises, on garbage either; time is bounded by SOURCE_LIMIT and the
limits of `syntax` and `interpreter`; nothing of the script is executed. Variables, here-documents,
loops over literal lists, functions and command substitutions of pure text are followed. Comments,
what is only printed, and what is only read are not actions.

Does not guarantee paths through the program: both branches of an `if` count, exit codes are not
known, sourced files are not seen. Past a limit the rest is not read and `complete` is False.

Shaped by an audit that took `grep MACs /etc/ssh/ssh_config` and a commented-out line for an edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from scoring.trace.interpreter import Interpreter
from scoring.trace.syntax import syntax_root
from scoring.trace.vocabulary import ActionVocabulary

if TYPE_CHECKING:
    from scoring.trace.actions import Action

SOURCE_LIMIT: Final = 256_000
ROW_LIMIT: Final = 2_000
UNPARSED_STEPS: Final = 500
_CACHE: Final = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedScript:
    """Actions in order of the script. `complete` is False when a limit cut the reading short.

    `text` is the script in lower case, comments included.
    """

    actions: tuple[Action, ...]
    complete: bool = True
    text: str = ""

    def mentions(self, words: tuple[str, ...]) -> bool:
        """Say whether any of the (lower-case) words occurs anywhere in the script."""
        return any(word in self.text for word in words)


@lru_cache(maxsize=_CACHE)
def parse_script(script: str, vocabulary: ActionVocabulary | None = None) -> ParsedScript:
    """Read a script. Never raises; a text without any command gives no actions."""
    words = vocabulary or ActionVocabulary.default()
    text = script.replace("\0", " ").replace("\r\n", "\n")
    source = text.encode("utf-8", "replace")
    interpreter = _interpret(source[:SOURCE_LIMIT], words)
    if not interpreter.actions and text.strip():
        # One unclosed quote swallows a whole file: then every line is read for itself.
        interpreter = _by_line(source[:SOURCE_LIMIT], words)
    complete = len(source) <= SOURCE_LIMIT and not interpreter.exhausted
    lowered = source[:SOURCE_LIMIT].decode("utf-8", "replace").lower()
    return ParsedScript(actions=tuple(interpreter.actions), complete=complete, text=lowered)


def _interpret(source: bytes, words: ActionVocabulary) -> Interpreter:
    interpreter = Interpreter(words)
    root = syntax_root(source)
    if root is not None:
        interpreter.run(root, ())
    return interpreter


def _by_line(source: bytes, words: ActionVocabulary) -> Interpreter:
    interpreter = Interpreter(words)
    for number, row in enumerate(source.split(b"\n")):
        if interpreter.exhausted:
            break
        interpreter.offset = number
        root = syntax_root(row[:ROW_LIMIT])
        if root is None:
            interpreter.steps += UNPARSED_STEPS
        else:
            interpreter.run(root, ())
    return interpreter
