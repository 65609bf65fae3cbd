"""Parses bash with tree-sitter, with a bound on the work that broken input can cause.

Guarantees: a syntax tree, or None when error recovery takes more work than any real script does;
the same answer for the same text on any machine.

Does not guarantee a tree without errors: its error nodes are read as far as they go.

Shaped by a file of 100,000 bytes of `a|a|a|`, on which the parser took all memory of the machine, and
by a comment with a character of the last plane, on which it took the process.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import tree_sitter_bash
from tree_sitter import Language, Parser

if TYPE_CHECKING:
    from tree_sitter import Node

PARSE_CALLS: Final = 200
BYTES_A_CALL: Final = 50
"""Real scripts need one progress call for about 250 bytes."""
_READ: Final = 65_536
_ABOVE_LATIN1: Final = re.compile("[^\x00-\xff]")
_LANGUAGE: Final = Language(tree_sitter_bash.language())


def syntax_root(source: bytes) -> Node | None:
    """Parse a script; None when error recovery takes more work than any real script does.

    The grammar recovers from endless pipes and the like in quadratic time and memory. Its
    progress calls grow with that work, so counting them bounds it, and unlike a clock gives the
    same answer every time.
    """
    source = _within_latin1(source)
    allowed = PARSE_CALLS + len(source) // BYTES_A_CALL
    calls = 0

    def too_much(_offset: int, _error: bool) -> bool:  # noqa: FBT001  the parser's signature
        nonlocal calls
        calls += 1
        return calls > allowed

    def read(offset: int, _point: object) -> bytes:
        return source[offset : offset + _READ]

    try:
        Parser(_LANGUAGE).parse(read, progress_callback=too_much)
    except ValueError:
        return None
    # Nodes of a tree that was read in pieces have no text: parse once more, now known to be cheap.
    return Parser(_LANGUAGE).parse(source).root_node


def _within_latin1(source: bytes) -> bytes:
    """Replace characters above U+00FF by one letter or one symbol, consistently.

    The grammar's scanner looks a code point up in a table of 256 entries: above it the answer is
    whatever lies in memory there, and for the highest planes the process dies (tree-sitter-bash 0.25).
    """
    if source.isascii():
        return source
    text = source.decode("utf-8", "replace")
    return _ABOVE_LATIN1.sub(lambda m: "\u00ff" if m[0].isalnum() else "\u00a4", text).encode()
