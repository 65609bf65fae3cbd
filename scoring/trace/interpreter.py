"""Walks a bash syntax tree once and collects actions; nothing is executed.

Guarantees: bounded by STEP_LIMIT, ACTION_LIMIT and DEPTH_LIMIT; possible values of variables,
functions, redirections, pipes and here-documents are followed.

Does not guarantee paths through the program: every branch counts, and what branches assign is
joined.

Shaped by remediation scripts whose only writing line is `echo "$line" >> "$file"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scoring.trace.actions import UNKNOWN, Action, ActionKind, base_name
from scoring.trace.commands import perform
from scoring.trace.environment import Environment, Expander, Values
from scoring.trace.invocation import Invocation, unwrapped, write_actions
from scoring.trace.syntax import syntax_root
from scoring.trace.texts import combinations, printf_text, unique

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tree_sitter import Node

    from scoring.trace.vocabulary import ActionVocabulary

STEP_LIMIT: Final = 40_000
ACTION_LIMIT: Final = 6_000
DEPTH_LIMIT: Final = 60
_INERT: Final = frozenset({"comment", "test_command", "heredoc_redirect", "file_redirect"})


class Interpreter:
    """Walks the syntax tree once, keeping possible values of variables and collecting actions."""

    def __init__(self, words: ActionVocabulary) -> None:
        self.words = words
        self.actions: list[Action] = []
        self.functions: dict[str, Node] = {}
        self.expander = Expander(self._substituted)
        self.offset = 0
        self.steps = 0
        self.depth = 0
        self._handlers: dict[str, Callable[[Node, Values], Values]] = {
            "command": self._command,
            "variable_assignment": self._assignment,
            "declaration_command": self._declaration,
            "unset_command": self._unset,
            "redirected_statement": self._redirected,
            "pipeline": self._pipeline,
            "if_statement": self._branches,
            "for_statement": self._for,
            "while_statement": self._while,
            "case_statement": self._case,
            "function_definition": self._define,
        }

    @property
    def exhausted(self) -> bool:
        return self.steps > STEP_LIMIT or len(self.actions) > ACTION_LIMIT

    def run(self, node: Node, stdin: Values) -> Values:
        """Interpret a statement and return the texts it may print."""
        self.steps += 1
        if self.depth > DEPTH_LIMIT or self.exhausted or node.type in _INERT:
            return ()
        self.depth += 1
        try:
            handler = self._handlers.get(node.type)
            return handler(node, stdin) if handler else self._sequence(node.named_children, stdin)
        finally:
            self.depth -= 1

    def _sequence(self, nodes: Iterable[Node], stdin: Values) -> Values:
        printed: list[str] = []
        for child in nodes:
            printed.extend(self.run(child, stdin))
        return unique(printed)

    # Words and variables

    def _substituted(self, node: Node) -> Values:
        printed = self._sequence(node.named_children, ())
        return unique(text.rstrip("\n") for text in printed) or (UNKNOWN,)

    def _assignment(self, node: Node, stdin: Values) -> Values:
        del stdin
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            return ()
        append = any(child.type == "+=" for child in node.children)
        array = value is not None and value.type == "array"
        values: Values = ("",)
        if value is not None:
            values = self._items(value.named_children) if array else self.expander.expand(value)
        text = (name.text or b"").decode("utf-8", "replace")
        self.expander.environment.assign(text, values, append=append, array=array)
        return ()

    def _items(self, nodes: Iterable[Node]) -> Values:
        return unique(
            value for node in nodes for word in self.expander.arguments(node) for value in word
        )

    def _declaration(self, node: Node, stdin: Values) -> Values:
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assignment(child, stdin)
        return ()

    def _unset(self, node: Node, stdin: Values) -> Values:
        del stdin
        for child in node.named_children:
            name = (child.text or b"").decode("utf-8", "replace")
            self.expander.environment.values[name] = ("",)
        return ()

    # Commands and their redirections

    def _command(self, node: Node, stdin: Values) -> Values:
        words: list[Values] = []
        targets: list[tuple[str, Values]] = []
        for child in node.named_children:
            if child.type == "herestring_redirect":
                stdin = self._items(child.named_children)
            elif child.type == "file_redirect":
                targets.append(self._target(child))
            elif child.type not in ("variable_assignment", "heredoc_redirect", "comment"):
                words.extend(self.expander.arguments(child))
        printed: list[str] = []
        line = node.start_point[0] + 1 + self.offset
        for argv in combinations(words) if words else []:
            printed.extend(self._invoke(argv, stdin, line))
        return self._written(unique(printed), targets, line)

    def _invoke(self, argv: tuple[str, ...], stdin: Values, line: int) -> Values:
        self.steps += 1
        argv = unwrapped(argv, self.words)
        if not argv:
            return ()
        name = base_name(argv[0])
        if name in self.functions:
            return self._call(name, argv[1:], stdin)
        if name in ("bash", "sh", "eval") and self.depth < DEPTH_LIMIT // 2:
            return self._inner_script(argv, stdin, line)
        if name in ("read", "readarray", "mapfile") or (name == "printf" and "-v" in argv):
            self._fill(name, argv[1:], stdin)
            return ()
        effect = perform(Invocation(argv=argv, stdin=stdin, line=line, vocabulary=self.words))
        self.actions.extend(effect.actions)
        if name in ("cp", "mv", "install"):
            self._copy(argv[1:], line)
        return effect.outputs

    def _inner_script(self, argv: tuple[str, ...], stdin: Values, line: int) -> Values:
        """Read `bash -c TEXT`, `eval TEXT` and a script on standard input."""
        texts = argv[2:3] if "-c" in argv[1:2] else argv[1:] if argv[0] == "eval" else stdin
        self.steps += 20
        before = self.offset
        self.offset = line - 1
        for text in texts[:4]:
            root = None if UNKNOWN in text else syntax_root(text.encode("utf-8", "replace"))
            if root is not None:
                self.run(root, ())
        self.offset = before
        return (UNKNOWN,)

    def _call(self, name: str, arguments: tuple[str, ...], stdin: Values) -> Values:
        body = self.functions[name]
        environment = self.expander.environment
        saved = {key: environment.values.get(key) for key in [str(i) for i in range(1, 10)] + ["@"]}
        for position, argument in enumerate(arguments[:9], start=1):
            environment.values[str(position)] = (argument,)
        environment.values["@"] = unique(arguments)
        # A function that calls itself would double the work at each level.
        self.functions.pop(name)
        printed = self.run(body, stdin)
        self.functions[name] = body
        for key, values in saved.items():
            if values is None:
                environment.values.pop(key, None)
            else:
                environment.values[key] = values
        return printed

    def _fill(self, name: str, arguments: tuple[str, ...], stdin: Values) -> None:
        environment = self.expander.environment
        if name == "printf":
            index = arguments.index("-v")
            rest = arguments[:index] + arguments[index + 2 :]
            environment.values[(*arguments, "", "")[index + 1]] = (printf_text(rest),)
            return
        names = [word for word in arguments if word.isidentifier()]
        rows = unique(row for text in stdin for row in text.split("\n")) or (UNKNOWN,)
        if name == "read" and "-a" in arguments:
            rows = unique(word for row in rows for word in row.split()) or ("",)
        for variable in names:
            environment.values[variable] = rows

    def _copy(self, arguments: tuple[str, ...], line: int) -> None:
        """What was written to a file that is then moved was written to where it goes."""
        paths = [word for word in arguments if not word.startswith("-")]
        if len(paths) != 2:
            return
        self.steps += len(self.actions) // 10
        source, target = paths
        written = [
            action
            for action in self.actions
            if action.kind is ActionKind.WRITE and action.target == source
        ]
        self.actions.extend(
            action
            for old in written
            for action in write_actions(target, [old.text], line=old.line, verb=old.verb)
        )
        if not written:
            self.actions.extend(write_actions(target, [UNKNOWN], line=line))

    def _target(self, node: Node) -> tuple[str, Values]:
        operator = next((c.type for c in node.children if c.type[:1] in "<>&"), "")
        number = next((c for c in node.children if c.type == "file_descriptor"), None)
        if (number is not None and number.text != b"1") or not node.named_children:
            return "", ()
        return operator, self.expander.expand(node.named_children[-1])

    def _written(self, printed: Values, targets: list[tuple[str, Values]], line: int) -> Values:
        for operator, paths in targets:
            if operator in (">", ">>", ">|", "&>", "&>>"):
                for path in paths:
                    verb = "appends to" if ">>" in operator else "writes"
                    self.actions.extend(write_actions(path, printed, line=line, verb=verb))
                printed = ()
        return printed

    def _redirected(self, node: Node, stdin: Values) -> Values:
        body = node.child_by_field_name("body")
        targets: list[tuple[str, Values]] = []
        pipes: list[Node] = []
        for redirect in node.children_by_field_name("redirect"):
            if redirect.type == "herestring_redirect":
                stdin = self._items(redirect.named_children)
            elif redirect.type == "heredoc_redirect":
                stdin = self._here_document(redirect, targets, pipes)
            elif redirect.type == "file_redirect":
                target = self._target(redirect)
                if target[0] == "<":
                    stdin = self._process_output(redirect)
                targets.append(target)
        line = (body or node).start_point[0] + 1 + self.offset
        printed: Values = ()
        if body is not None:
            body = self._all_but_last(body, stdin)
            printed = self.run(body, stdin)
        printed = self._written(printed, targets, line)
        for pipe in pipes:
            printed = self.run(pipe, printed)
        return printed

    def _all_but_last(self, body: Node, stdin: Values) -> Node:
        """Bash redirects only the last command of `a && b > f`; the grammar says all of it."""
        while body.type == "list" and body.named_children:
            for child in body.named_children[:-1]:
                self.run(child, stdin)
            body = body.named_children[-1]
        return body

    def _process_output(self, redirect: Node) -> Values:
        for child in redirect.named_children:
            if child.type == "process_substitution":
                return self._sequence(child.named_children, ()) or (UNKNOWN,)
        return (UNKNOWN,)

    def _here_document(
        self, node: Node, targets: list[tuple[str, Values]], pipes: list[Node]
    ) -> Values:
        text: Values = ("",)
        literal = False
        for child in node.named_children:
            if child.type == "heredoc_start":
                literal = (child.text or b"")[:1] in (b"'", b'"', b"\\")
            elif child.type == "file_redirect":
                targets.append(self._target(child))
            elif child.type == "heredoc_body":
                raw = (child.text or b"").decode("utf-8", "replace")
                text = (raw,) if literal else self.expander.expand(child)
            elif child.type == "pipeline" or child.type == "command":
                pipes.append(child)
        return text

    def _pipeline(self, node: Node, stdin: Values) -> Values:
        for child in node.named_children:
            stdin = self.run(child, stdin)
        return stdin

    # Control flow: every branch counts, and what they assign is joined

    def _branches(self, node: Node, stdin: Values) -> Values:
        before = self.expander.environment
        printed: list[str] = []
        ends: list[Environment] = []
        self.expander.environment = before.copy()
        for child in node.children:
            if child.type in ("elif_clause", "else_clause"):
                ends.append(self.expander.environment)
                self.expander.environment = before.copy()
            if child.is_named:
                printed.extend(self.run(child, stdin))
        joint = self.expander.environment
        has_else = any(child.type == "else_clause" for child in node.children)
        for end in reversed(ends if has_else else [*ends, before]):
            joint.join(end)
        return unique(printed)

    def _for(self, node: Node, stdin: Values) -> Values:
        name = node.child_by_field_name("variable")
        nodes = node.children_by_field_name("value")
        values = self._items(nodes) if nodes else self.expander.environment.get("@")
        values = tuple(value for value in values if value)
        body = node.child_by_field_name("body")
        if name is None or body is None or not values:
            return ()
        before = self.expander.environment.copy()
        self.expander.environment.values[(name.text or b"").decode("utf-8", "replace")] = values
        printed = self.run(body, stdin)
        self.expander.environment.join(before)
        return printed

    def _while(self, node: Node, stdin: Values) -> Values:
        before = self.expander.environment.copy()
        printed = self._sequence(node.named_children, stdin)
        self.expander.environment.join(before)
        return printed

    def _case(self, node: Node, stdin: Values) -> Values:
        before = self.expander.environment
        printed: list[str] = []
        joint = before.copy()
        for item in node.named_children:
            if item.type == "case_item":
                self.expander.environment = before.copy()
                printed.extend(self._sequence(item.named_children[1:], stdin))
                joint.join(self.expander.environment)
        self.expander.environment = joint
        return unique(printed)

    def _define(self, node: Node, stdin: Values) -> Values:
        del stdin
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[(name.text or b"").decode("utf-8", "replace")] = body
        return ()
