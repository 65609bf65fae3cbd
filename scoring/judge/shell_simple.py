"""Reads the simple commands, assignments and redirections of a shell script, for one walk over it.

Guarantees: every command is sorted by what it can do (``scoring.judge.shell_commands``) and by where
its output goes; scripts in a text (``bash -c``, ``eval``, here-documents for a shell) are read as
scripts; a text in a variable counts only if something reads it that is no message.

It knows no branches and loops (``scoring.judge.shell_flow``). Shaped by ``note='…'; echo "$note"``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from scoring.judge.shell_commands import (
    SHELLS,
    Kind,
    bare,
    goes_nowhere,
    is_stdout,
    kind_of,
    program,
    truth_of_test,
)
from scoring.judge.shell_state import (
    POSITIONAL,
    Flow,
    Known,
    Output,
    Places,
    ShellReading,
    Span,
    Spans,
    Variable,
    any_outside,
    span_of,
)
from scoring.trace.syntax import syntax_root

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tree_sitter import Node

_MAX_NESTED: Final = 20
"""Scripts in texts that are read."""
_LEAVES: Final = frozenset({"exit", "return", "break", "continue"})
_READS: Final = frozenset({"read", "mapfile", "readarray"})
_RUNS_TEXT: Final = SHELLS | {"su", "runuser", "script", "eval", "ssh"}
_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_QUOTED: Final = frozenset({"string", "raw_string", "ansi_c_string"})
_WORDS: Final = _QUOTED | {"word", "number", "concatenation", "simple_expansion", "expansion"}
_PROSE: Final = re.compile(r"(?<!\S)[A-Za-z']{2,}[.,:;!]?(?!\S)")
_BLANK_INSIDE: Final = re.compile(r"\S\s+\S")


class SimpleCommands(ABC):
    """The state of one walk, and what it does with commands."""

    def __init__(self, script: str, source: str, before: Known, places: Places) -> None:
        self.script, self.source = script, source
        self.before, self.places = before, places
        self.reading = ShellReading()
        self.idle: list[tuple[Span, tuple[Span, ...]]] = []
        self.flows: dict[Span, Flow] = {}
        self.variables: list[Variable] = []
        self.functions: dict[str, list[Node]] = {}
        self.called: dict[str, bool] = {}
        self.acting: set[str] = set()
        self.looked: dict[str, tuple[Span, ...]] = {}
        self.errexit = False
        self._calls_unknown = False
        self._descriptors: set[str] = set()
        self._depth = self._nested = self._substituted = 0
        self._in_function = self._in_condition = 0

    @abstractmethod
    def run(self, node: Node, *, goes: bool, output: Output = Output()) -> Flow:  # noqa: B008
        """Walk one statement."""

    @abstractmethod
    def sequence(self, nodes: Iterable[Node], *, goes: bool) -> Flow:
        """Walk statements that follow each other."""

    def text(self, node: Node) -> str:
        """Return what the script says there."""
        return self.script[node.start_byte : node.end_byte]

    def silence(self, nodes: Iterable[Node]) -> None:
        """Take down what is never run, or says nothing."""
        self.reading.silent += map(span_of, nodes)

    def settle(self) -> None:
        """Silence what does nothing and is no look that an act hangs on."""
        whole = set(self.reading.whole)
        self.reading.silent += [at for at, looks in self.idle if not whole.intersection(looks)]
        self.idle.clear()

    # --- Functions and variables ------------------------------------------------------------------

    def found(self) -> Known:
        """Return what the next walk may start from."""
        silent = Spans(self.reading.silent)
        loud = {
            name: [place for place in self.places.reads(name) if not silent.holds(place)]
            for name in {one.name for one in self.variables}
        }
        unused = frozenset(one.at for one in self.variables if not self._is_used(one, loud))
        return Known(unused, dict(self.called), frozenset(self.acting), dict(self.looked))

    def calls(self, walked: set[str]) -> list[str]:
        """Return the functions that something that runs has named, and that are still to be walked."""
        return [name for name in self.functions if name in self.called and name not in walked]

    def named_in_acts(self, walked: set[str]) -> list[str]:
        """Return those that are to be walked since a word in an act names them, or any may be meant."""
        waiting = [name for name in self.functions if name not in walked]
        if self._calls_unknown:
            return waiting
        unused = (node for name in waiting for node in self.functions[name])
        away = Spans([*self.reading.silent, *map(span_of, unused)])
        words = self.places.words
        return [name for name in waiting if not all(map(away.holds, words(name)))]

    def _is_used(self, one: Variable, loud: dict[str, list[int]]) -> bool:
        """Whether it is read outside of its own text; ``loud`` are the reads that are no message."""
        if any_outside(loud[one.name], one.at):
            return True
        text = bare(one.text)
        if one.open_ or self.places.unknown_readers:
            return len(_PROSE.findall(text)) < 3
        said = any_outside(self.places.reads(one.name), one.at)
        return not (said or _BLANK_INSIDE.search(text))

    def assignments(self, node: Node) -> Flow:
        """Walk ``a=b c=d``, also behind local, export and their kind."""
        parts = [one for one in node.children if one.type == "variable_assignment"] or [node]
        words = self.text(node).split()
        open_ = node.type == "declaration_command" and (words[0] == "export" or "-x" in words)
        does = False
        for part in parts:
            name = self.text(part).partition("=")[0].rstrip("+").partition("[")[0]
            if "=" not in self.text(part):
                return Flow(asks=True)
            inner = self.substitutions(part, goes=True)
            does = self._named(name, span_of(part), open_=open_) or inner.does or does
        return Flow(does=does)

    def _named(self, name: str, at: Span, *, open_: bool = False) -> bool:
        """Take a variable down; whether it was used as far as the last walk could see."""
        self.variables.append(Variable(name, at, self.script[slice(*at)], open_))
        if at in self.before.unused:
            self.reading.silent.append(at)
        return at not in self.before.unused

    # --- Redirections -----------------------------------------------------------------------------

    def output_of(self, redirects: Sequence[Node], goes: bool) -> Output:  # noqa: FBT001
        """Return where redirections send the output, and the texts that they bring."""
        to: bool | None = None
        texts: list[Node] = []
        words: list[Node] = []
        for one in self._flat(redirects):
            if one.type == "file_redirect":
                sent = self._target(one, goes)
                to = to if sent is None else sent
                words += [child for child in one.children if child.is_named][_words_before(one) :]
            elif one.type in {"heredoc_start", "heredoc_end"}:
                self.silence([one])
            elif one.type == "heredoc_body":
                texts.append(one)
            elif one.type == "herestring_redirect":
                texts += [child for child in one.children if child.is_named]
            elif one.type in _WORDS:
                words.append(one)
        return Output(to, tuple(texts), tuple(words))

    def _flat(self, redirects: Sequence[Node]) -> list[Node]:
        heredocs = [one for one in redirects if one.type == "heredoc_redirect"]
        inside = [child for one in heredocs for child in one.children]
        return [one for one in redirects if one.type != "heredoc_redirect"] + inside

    def _target(self, node: Node, goes: bool) -> bool | None:  # noqa: FBT001
        parts = [one for one in node.children if one.type != "file_descriptor"]
        descriptor = "".join(
            self.text(one) for one in node.children if one.type == "file_descriptor"
        )
        operator, target = parts[0].type, parts[1] if len(parts) > 1 else None
        if target is None or operator.startswith("<"):
            return None
        if descriptor not in {"", "1"} and not operator.startswith("&"):
            return None
        if target.type == "process_substitution":
            return self.sequence(target.children, goes=goes).takes
        word = self.text(target)
        if operator == ">&" and (word.isdigit() or word == "-"):
            return None if word == "1" else word in self._descriptors
        return None if is_stdout(word) else not self._is_lost(word)

    def _is_lost(self, word: str) -> bool:
        variable = re.fullmatch(r"\$\{?(\w+)\}?", bare(word))
        if variable is None:
            return goes_nowhere(word)
        given = self.places.given.get(variable[1], ())
        return bool(given) and all(map(goes_nowhere, given))

    def heredoc_tail(self, redirects: Sequence[Node]) -> tuple[list[Node], str, Node | None]:
        """Return what stands behind ``<<EOF`` on its line: stages of a pipe; operator and statement."""
        stages: list[Node] = []
        operator, behind = "", None
        for one in (one for one in redirects if one.type == "heredoc_redirect"):
            for child in one.children:
                if child.type == "pipeline":
                    stages += [stage for stage in child.children if stage.is_named]
                elif child.type in {"&&", "||"}:
                    operator = child.type
                elif operator and behind is None and child.is_named:
                    behind = child
        return stages, operator, behind

    # --- Commands ---------------------------------------------------------------------------------

    def simple(self, node: Node, goes: bool, outer: Output) -> Flow:  # noqa: FBT001
        """Walk a simple command."""
        named = node.child_by_field_name("name")
        arguments = node.children_by_field_name("argument")
        redirects = [one for one in node.children if one.type.endswith("_redirect")]
        output = self.output_of(redirects, goes).within(outer)
        if named is None:
            return Flow(does=True, takes=True)
        nodes = [named, *arguments, *output.words]
        words = [self.text(one) for one in nodes]
        at, name = program(words)
        special = self._special(node, nodes[at:], name, output, goes=goes)
        if special is not None:
            return replace(special, ends=special.ends or words[0] == "exec" != name)
        goes = output.of(goes)
        kind = kind_of(name, words[at + 1 :])
        if name in self.functions:
            self.called[name] = self.called.get(name, False) or goes
            does, looks = name in self.before.acting, self.before.looked.get(name, ())
            return Flow(does=does, takes=does, looks=looks)
        self._calls_unknown |= words[at].startswith(("$", '"$'))
        inner = self.substitutions(node, goes=goes or kind is Kind.ACTS, texts=output.texts)
        if kind is Kind.ACTS or goes:
            self._acted(node, nodes[at], kind)
            takes = kind in {Kind.ACTS, Kind.LOOKS, Kind.PASSES_ON}
            flow = Flow(does=kind is not Kind.PASSES_ON, takes=takes)
        else:
            flow = self.look(node, inner, kind, _truth(name, words[at:]))
        leaves = name in _LEAVES
        ends = leaves and (name != "return" or self._in_function > 0)
        return replace(flow, leaves=leaves, ends=ends or (words[0] == "exec" and at > 0))

    def _acted(self, node: Node, named: Node, kind: Kind) -> None:
        self.reading.commands += [span_of(node), (named.start_byte, node.end_byte)]
        if self._substituted and kind is Kind.ACTS:
            self.reading.live.append(span_of(node))

    def look(self, node: Node, inner: Flow, kind: Kind, truth: bool | None) -> Flow:  # noqa: FBT001
        """A command that does nothing itself; what it substitutes may act."""
        if inner.does:
            self.reading.silent.append(span_of(node))
            return Flow(does=True, takes=kind is Kind.PASSES_ON, truth=truth)
        given = (one for one in _inside(node) if one.type in _QUOTED)
        if kind is Kind.ASKS and not any(_BLANK_INSIDE.search(self.text(one)) for one in given):
            self.reading.whole.append(span_of(node))
            return Flow(asks=True)
        looks = (span_of(node),) if kind in {Kind.LOOKS, Kind.ASKS} else ()
        return Flow(truth=truth, looks=looks)

    def _special(
        self, node: Node, nodes: list[Node], name: str, output: Output, *, goes: bool
    ) -> Flow | None:
        """Builtins that name a text, move the output, set a switch or run a text."""
        words = [bare(self.text(one)) for one in nodes]
        if name == "exec" and len(words) == 1:
            return self._exec(node, output)
        if name == "set":
            return self._set(node, words)
        if name == "printf" and len(words) > 2 and words[1] == "-v":
            self.substitutions(node, goes=True)
            return Flow(does=self._named(words[2], span_of(node)))
        if name in _READS and len(words) > 1:
            end = max([node.end_byte, *(one.end_byte for one in output.texts)])
            variable = words[-1] if words[-1].isidentifier() else "REPLY"
            if not output.texts and name == "read" and self._in_condition:
                return Flow(looks=(span_of(node),))
            return Flow(does=self._named(variable, (node.start_byte, end)))
        if name in _RUNS_TEXT:
            return self._runs_text(node, nodes, words, output, goes=output.of(goes))
        return None

    def _exec(self, node: Node, output: Output) -> Flow:
        place = node.parent if node.parent is not None else node
        opened = re.findall(r"(?<![\d&])(\d)>>?[ \t]*([^\s&;]+)", self.text(place))
        self._descriptors |= {number for number, file in opened if not goes_nowhere(file)}
        return Flow(does=output.to is True, output=output.to)

    def _set(self, node: Node, words: list[str]) -> Flow:
        switches = "".join(word for word in words[1:] if re.fullmatch(r"-[a-z]+", word))
        self.errexit = self.errexit or "e" in switches or "errexit" in words
        ends = "n" in switches.replace("noexec", "n") or ("-o" in words and "noexec" in words)
        plain = [word for word in words[1:] if not word.startswith(("-", "+"))]
        if "--" in words and plain:
            return Flow(does=self._named(POSITIONAL, span_of(node)), ends=ends)
        return Flow(ends=ends)

    def _runs_text(
        self, node: Node, nodes: list[Node], words: list[str], output: Output, *, goes: bool
    ) -> Flow | None:
        """Read the script in an argument or a here-document; None: there is none."""
        scripts: list[Node] = []
        if words[0] == "eval" or words[0].endswith("ssh"):
            scripts = [one for one in nodes[1:] if one.type in _QUOTED]
        else:
            flags = [at for at, word in enumerate(words) if re.fullmatch(r"-\w*c|--command", word)]
            scripts = [nodes[at + 1] for at in flags[:1] if at + 1 < len(nodes)]
        if not scripts:
            scripts = list(output.texts)
        scripts = [one for one in scripts if one.type in _QUOTED or one.type == "heredoc_body"]
        if not scripts:
            return None
        flow = Flow()
        for one in scripts:
            flow = flow.then(self._nested_script(one, goes=goes), ends=False)
        if flow.does:
            self.reading.commands.append(span_of(node))
        return replace(flow.contained(), takes=True)

    def _nested_script(self, node: Node, *, goes: bool) -> Flow:
        start, end = span_of(node)
        if node.type in _QUOTED:
            start, end = start + self.text(node).index(self.text(node)[-1]) + 1, end - 1
        self._nested += 1
        source = " " * start + self.source[start:end]
        root = syntax_root(source.encode()) if self._nested <= _MAX_NESTED else None
        if root is None:
            self.reading.silent.append((start, end))
            return Flow()
        return self.sequence(root.children, goes=goes)

    def substitutions(
        self, node: Node, *, goes: bool, but: Node | None = None, texts: Sequence[Node] = ()
    ) -> Flow:
        """Walk the commands in ``$(…)``, backticks and ``<(…)`` of a node."""
        flow = Flow()
        self._substituted += 1
        for one in [node, *texts]:
            for inner in _inside(one, but=but, stop=_SUBSTITUTIONS):
                if inner.type in _SUBSTITUTIONS:
                    found = self.sequence(inner.children, goes=goes)
                    flow = flow.then(found.contained(), ends=False)
        self._substituted -= 1
        return flow


def _words_before(redirect: Node) -> int:
    """Descriptor and target; what a redirection holds behind them are words of its command."""
    return 1 + (redirect.children[0].type == "file_descriptor")


def _truth(name: str, words: Sequence[str]) -> bool | None:
    if name in {"true", ":"}:
        return True
    return False if name == "false" else truth_of_test(" ".join(words)) if name == "test" else None


def _inside(
    node: Node, *, but: Node | None = None, stop: frozenset[str] = frozenset()
) -> Iterable[Node]:
    """Yield the nodes below, in order; not below those of the types in ``stop``."""
    waiting = list(reversed(node.children))
    while waiting:
        one = waiting.pop()
        if but is not None and one == but:
            continue
        yield one
        if one.type not in stop:
            waiting += reversed(one.children)
