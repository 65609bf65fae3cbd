"""What the variables of a script may hold, and what a word expands to.

Guarantees: every name maps to at most CANDIDATES values; branches are joined, loops over literal
lists become several values; a name nobody assigned is UNKNOWN, an unset one is empty.

Does not guarantee correlation: two variables set together in a loop are combined freely.

Shaped by scripts that keep the file name in one variable, the value in another and the key in an
array: without expansion nothing that a tip names occurs in them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from scoring.trace.actions import UNKNOWN
from scoring.trace.texts import brace_expanded, joined, unescape, unique

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tree_sitter import Node

Values = tuple[str, ...]

_DOUBLE_QUOTED: Final = re.compile(r'\\([$`"\\])|\\\n')
_BARE: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_DEPTH: Final = 40
_SPLIT: Final = frozenset({"simple_expansion", "expansion", "command_substitution"})


class Environment:
    """Possible values of shell variables at one point of a script."""

    def __init__(self, values: Mapping[str, Values] | None = None) -> None:
        self.values: dict[str, Values] = dict(values or {})

    def get(self, name: str) -> Values:
        return self.values.get(name, (UNKNOWN,))

    def assign(self, name: str, values: Values, *, append: bool, array: bool) -> None:
        if append:
            old = self.values.get(name, ())
            values = (*old, *values) if array else joined((old or ("",), values or ("",)))
        self.values[name] = unique(values) if values else ()

    def copy(self) -> Environment:
        return Environment(self.values)

    def join(self, other: Environment) -> None:
        """Take over what the other branch may have assigned."""
        for name, values in other.values.items():
            mine = self.values.get(name)
            if mine is None:
                self.values[name] = values
            elif mine is not values:
                self.values[name] = unique((*mine, *values))


class Expander:
    """Expands syntax nodes to the texts they may stand for; `substitute` runs `$(…)`."""

    def __init__(self, substitute: Callable[[Node], Values]) -> None:
        self.environment = Environment()
        self._substitute = substitute
        self._depth = 0

    def expand(self, node: Node) -> Values:
        """Return the possible values of one word."""
        if self._depth > _DEPTH:
            return (UNKNOWN,)
        self._depth += 1
        try:
            return self._expand(node)
        finally:
            self._depth -= 1

    def arguments(self, node: Node) -> list[Values]:
        """Return the words that one argument becomes: unquoted values are split at blanks."""
        values = self.expand(node)
        if node.type in _SPLIT and any(" " in value or "\n" in value for value in values):
            if len(values) == 1:
                return [(word,) for word in values[0].split()]
            return [unique(word for value in values for word in value.split())]
        if node.type == "concatenation" and "{" in values[0]:
            return [(word,) for value in values for word in brace_expanded(value)]
        return [values]

    def _expand(self, node: Node) -> Values:
        kind = node.type
        if kind == "raw_string":
            return (_source(node)[1:-1],)
        if kind == "ansi_c_string":
            return (unescape(_source(node)[2:-1]),)
        if kind in ("string", "translated_string"):
            return self._string(node)
        if kind in ("concatenation", "command_name", "heredoc_body"):
            return self._pieces(node, start=node.start_byte, end=node.end_byte)
        if kind == "simple_expansion":
            return self.environment.get(_source(node).strip()[1:])
        if kind == "expansion":
            return self._parameter(node)
        if kind == "command_substitution":
            return self._substitute(node)
        if kind == "process_substitution":
            self._substitute(node)
            return (UNKNOWN,)
        if kind == "arithmetic_expansion":
            return (UNKNOWN,)
        return (_BARE.sub(lambda m: "" if m[1] == "\n" else m[1], _source(node)),)

    def _string(self, node: Node) -> Values:
        return self._pieces(node, start=node.start_byte + 1, end=node.end_byte - 1, quoted=True)

    def _pieces(self, node: Node, *, start: int, end: int, quoted: bool = False) -> Values:
        """Expand children in order; text between them is taken from the source.

        The grammar drops blanks before an expansion or puts them into it, hence the gaps.
        """
        text = node.text or b""
        heredoc = node.type == "heredoc_body"
        parts: list[Values] = []
        position = start
        for child in node.children:
            literal = child.type in ("string_content", '"', "heredoc_content", "$")
            if literal or child.start_byte < position:
                continue
            source = child.text or b""
            begin = child.start_byte + len(source) - len(source.lstrip())
            self._gap(parts, text, (position, begin, node.start_byte), quoted or heredoc)
            parts.append(self.expand(child))
            position = child.end_byte
        self._gap(parts, text, (position, end, node.start_byte), quoted or heredoc)
        return joined(parts) if parts else ("",)

    @staticmethod
    def _gap(
        parts: list[Values],
        text: bytes,
        span: tuple[int, int, int],
        quoted: bool,  # noqa: FBT001  private, one caller
    ) -> None:
        start, end, base = span
        if end > start:
            raw = text[start - base : end - base].decode("utf-8", "replace")
            if quoted:
                raw = _DOUBLE_QUOTED.sub(lambda m: m[1] or "", raw)
            parts.append((raw,))

    def _parameter(self, node: Node) -> Values:
        source = _source(node).strip()[2:-1]
        if source.startswith("#"):
            return (UNKNOWN,)
        match = re.match(r"!?([A-Za-z_]\w*|\d|[@*])(\[[^\]]*\])?", source)
        if match is None:
            return (UNKNOWN,)
        rest = source[match.end() :]
        values = self.environment.values.get(match[1])
        if rest[:2] in (":-", "-", ":=", "=") or (rest[:1] in "-=" and rest):
            return values if values and values != ("",) else self._default(node, rest)
        known = values if values is not None else (UNKNOWN,)
        return _edited(known, rest)

    def _default(self, node: Node, rest: str) -> Values:
        named = [child for child in node.named_children[1:] if child.type != "variable_name"]
        return self.expand(named[-1]) if named else (rest.lstrip(":-="),)


def _edited(values: Values, operation: str) -> Values:
    """Apply `//old/new`, `%suffix` and `#prefix` where they are plain text."""
    match = re.fullmatch(r"//?([^/\\*?\[\]$]+)/?([^/\\$]*)", operation)
    if match:
        count = -1 if operation.startswith("//") else 1
        return tuple(value.replace(match[1], match[2], count) for value in values)
    match = re.fullmatch(r"(%%?|##?)([^*?\[\]$\\]+)", operation)
    if match:
        if match[1].startswith("%"):
            return tuple(value.removesuffix(match[2]) for value in values)
        return tuple(value.removeprefix(match[2]) for value in values)
    return values


def _source(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
