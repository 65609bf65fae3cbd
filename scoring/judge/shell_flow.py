"""Follows a shell script's syntax tree: what acts, what only shows or looks, what is never run.

Guarantees: `read_shell` is pure and total. Output is followed through pipes, groups, loops,
functions, ``exec`` and here-documents to see whether it goes anywhere; branches behind constant
tests, lines behind ``exit``, functions that nothing calls and variables that are only shown do
nothing; a look counts if an act hangs on it, and then from its first character on. What is nested
too deep, or cannot be parsed at all, does nothing: no real script is like that.

It runs nothing: what hangs on values that only a run would know counts as done. Shaped by commands
behind ``if false``, and by functions whose echo was written to a file by their caller.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from scoring.judge.shell_branches import branches_of, case_of
from scoring.judge.shell_commands import Kind, truth_of_test
from scoring.judge.shell_simple import SimpleCommands
from scoring.judge.shell_state import (
    Flow,
    Known,
    Output,
    Places,
    ShellReading,
    Variable,
    one_byte_a_character,
    span_of,
)
from scoring.trace.syntax import syntax_root

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node

MAX_DEPTH: Final = 100
"""Levels of nesting that are looked into."""
_MAX_ROUNDS: Final = 8
_LEAVES_LOOP: Final = re.compile(r"\b(?:break|return|exit)\b")


def read_shell(script: str) -> ShellReading:
    """Read ``script``; offsets are in code points."""
    source = one_byte_a_character(script)
    root = syntax_root(source.encode())
    if root is None:
        return ShellReading(silent=[(0, len(script))])
    known, places = Known(), Places(script)
    for _ in range(_MAX_ROUNDS):  # what is called or unused is known only behind a walk
        walk = _Walk(script, source, known, places)
        walk.program(root)
        found = walk.found()
        if found == known:
            break
        known = found
    return walk.reading


class _Walk(SimpleCommands):
    """One round over the tree."""

    def program(self, root: Node) -> None:
        """Walk the statements, then the functions that they call."""
        self.sequence(root.children, goes=False)
        self.settle()
        walked: set[str] = set()
        for _ in range(MAX_DEPTH):
            waiting = self.calls(walked) or self.named_in_acts(walked)
            if not waiting:
                break
            while waiting:
                for name in waiting:
                    walked.add(name)
                    self._function(name)
                self.settle()
                waiting = self.calls(walked)
        for name in self.functions.keys() - walked:
            self.silence(self.functions[name])

    def _function(self, name: str) -> None:
        goes = self.called.get(name, False) or self.before.called.get(name, False)
        for node in self.functions[name]:
            self._in_function += 1
            flow = self.run(node.children[-1], goes=goes)
            self._in_function -= 1
            if flow.does:
                self.acting.add(name)
            elif not flow.asks:
                self.idle.append((span_of(node), flow.looks))
            self.looked[name] = self.looked.get(name, ()) + flow.looks

    def sequence(self, nodes: Iterable[Node], *, goes: bool) -> Flow:
        """Walk statements that follow each other."""
        flow = Flow()
        guards: tuple[tuple[int, int], ...] = ()
        for node in nodes:
            if not node.is_named:
                continue
            if node.type == "comment" or flow.ends:
                self.silence([node])
                continue
            one = self.run(node, goes=goes if flow.output is None else flow.output)
            if one.does:
                self.reading.whole += guards
            guards = guards + one.looks if one.leaves else () if one.does else guards
            flow = flow.then(one, ends=self._ends_sequence(node, one))
        return flow

    def _ends_sequence(self, node: Node, one: Flow) -> bool:
        if node.next_sibling is not None and node.next_sibling.type == "&":
            return False
        failed = node.type in {"command", "test_command"} and one.truth is False
        return one.ends or (self.errexit and failed and self._in_condition == 0)

    def run(self, node: Node, *, goes: bool, output: Output = Output()) -> Flow:  # noqa: B008
        """Walk one statement; ``goes``: whether its output goes somewhere."""
        self._depth += 1
        flow = self._statement(node, goes, output) if self._depth <= MAX_DEPTH else Flow()
        self._depth -= 1
        if not (flow.does or flow.asks):
            self.idle.append((span_of(node), flow.looks))
        self.flows[span_of(node)] = flow
        return flow

    def _statement(self, node: Node, goes: bool, output: Output) -> Flow:  # noqa: FBT001
        match node.type:
            case "command":
                return self.simple(node, goes, output)
            case "redirected_statement":
                return self._redirected(node, goes, output)
            case "pipeline":
                return self._pipeline([one for one in node.children if one.is_named], goes, output)
            case "list":
                left, operator, right = node.children[0], node.children[1:-1], node.children[-1]
                flow = self.run(left, goes=goes)
                return self._joined(flow, operator[0].type if operator else "", right, goes, output)
            case "variable_assignment" | "variable_assignments" | "declaration_command":
                return self.assignments(node)
            case "function_definition" if all(one.type != "ERROR" for one in node.children):
                self.functions.setdefault(self.text(node.children_by_field_name("name")[0]), [])
                self.functions[self.text(node.children_by_field_name("name")[0])].append(node)
                return Flow(asks=True)
            case _:
                return self._compound(node, output.of(goes), output)

    def _compound(self, node: Node, goes: bool, output: Output) -> Flow:  # noqa: FBT001
        match node.type:
            case "test_command":
                truth = truth_of_test(self.text(node))
                return self.look(node, self.substitutions(node, goes=goes), Kind.LOOKS, truth)
            case "negated_command":
                flow = self.run(node.children[-1], goes=goes, output=output)
                return replace(flow, truth=None if flow.truth is None else not flow.truth)
            case "if_statement":
                return self._if(node, goes)
            case "while_statement":
                return self._while(node, goes)
            case "for_statement" | "c_style_for_statement":
                return self._for(node, goes)
            case "case_statement":
                return self._case(node, goes)
            case "subshell":
                return self.sequence(node.children, goes=goes).contained()
            case "compound_statement" if self.text(node).startswith("(("):
                return Flow(truth=truth_of_test(self.text(node)))
            case _:
                return self._other(node, goes)

    def _other(self, node: Node, goes: bool) -> Flow:  # noqa: FBT001
        """Braces; and what the grammar could not read, piece by piece."""
        if node.type in {"compound_statement", "do_group"}:
            return self.sequence(node.children, goes=goes)
        if node.child_count == 0:
            return Flow(asks=True)  # a word that is no command: no judgement
        children = list(node.children)
        for number, child in enumerate(children):
            if child.type in {"if", "while", "elif"}:
                flow = self.sequence(children[number + 1 : number + 2], goes=goes)
                if flow.truth is False:
                    self.silence(children[number + 1 :])
                    children = children[:number]
                    break
        return replace(self.sequence(children, goes=goes), asks=True)

    # --- Redirections, pipes, lists ---------------------------------------------------------------

    def _redirected(self, node: Node, goes: bool, outer: Output) -> Flow:  # noqa: FBT001
        body = node.child_by_field_name("body")
        redirects = [one for one in node.children if one.is_named and one != body]
        output = self.output_of(redirects, goes).within(outer)
        if body is None:
            return Flow(does=output.to is not None or not output.texts)
        onward, operator, behind = self.heredoc_tail(redirects)
        if onward:
            flow = self._pipeline([body, *onward], goes, output, first=True)
        else:
            flow = self.run(body, goes=goes, output=output)
        if flow.does:
            self.reading.commands.append(span_of(node))
        else:  # what follows on the line may act
            self.idle += [(span_of(text), flow.looks) for text in output.texts]
        if behind is None:
            return flow
        return self._joined(flow, operator, behind, goes, outer)

    def _pipeline(
        self,
        stages: list[Node],
        goes: bool,  # noqa: FBT001
        output: Output,
        *,
        first: bool = False,
    ) -> Flow:
        """Walk the stages from the last to the first; ``output`` belongs to the last (or ``first``)."""
        flow, sink = Flow(), goes
        for number, stage in reversed(list(enumerate(stages))):
            own = output if number == (0 if first else len(stages) - 1) else Output()
            one = self.run(stage, goes=sink, output=own)
            head = stage
            while head.type in {"list", "redirected_statement"} and head.children:
                head = head.children[0]
            sink = self.flows.get(span_of(head), one).takes
            truth = one.truth if number == len(stages) - 1 else flow.truth
            flow = replace(
                flow.then(one.contained(), ends=False),
                truth=truth,
                takes=sink,
                looks=one.looks + flow.looks,
            )
        return replace(flow, leaves=False)

    def _joined(
        self,
        left: Flow,
        operator: str,
        right: Node,
        goes: bool,  # noqa: FBT001
        output: Output,
    ) -> Flow:
        """``left`` && or || ``right``."""
        both = operator == "&&"
        certain = left.truth is both and left.truth is not None
        if left.ends or (left.truth is not None and not certain):
            self.silence([right])
            return left
        flow = self.run(right, goes=goes if left.output is None else left.output, output=output)
        looks = flow.looks if flow.does else left.looks + flow.looks
        if flow.does:
            self.reading.whole += left.looks
        truth = flow.truth if certain or flow.truth is (not both) else None
        joined = left.then(flow, ends=certain and flow.ends)
        return replace(joined, truth=truth, looks=looks)

    # --- Branches and loops -----------------------------------------------------------------------

    def _if(self, node: Node, goes: bool) -> Flow:  # noqa: FBT001
        total, asked = Flow(), Flow()
        blocked, all_end = False, True
        for condition, body in branches_of(node):
            if blocked:
                self.silence([*condition, *body])
                continue
            found = self._condition(condition, goes)
            asked = asked.then(found, ends=False)
            if condition and found.truth is False:
                self.silence(body)
                continue
            blocked = not condition or found.truth is True
            inside = self.sequence(body, goes=goes)
            all_end = all_end and inside.ends
            total = total.then(inside, ends=False)
        return self._hanging(asked, total, ends=blocked and all_end)

    def _condition(self, nodes: list[Node], goes: bool) -> Flow:  # noqa: FBT001
        self._in_condition += 1
        flow = self.sequence(nodes, goes=goes)
        self._in_condition -= 1
        return flow

    def _hanging(self, asked: Flow, inside: Flow, *, ends: bool = False) -> Flow:
        """A body that hangs on looks: they count if it acts."""
        if inside.does:
            self.reading.whole += asked.looks
        looks = inside.looks if inside.does else asked.looks + inside.looks
        joined = replace(asked.then(inside, ends=ends), looks=looks, truth=None)
        return replace(joined, takes=joined.does)

    def _while(self, node: Node, goes: bool) -> Flow:  # noqa: FBT001
        body = node.child_by_field_name("body") or node.children[-1]
        until = node.children[0].type == "until"
        condition = [one for one in node.children[1:] if one != body]
        asked = self._condition(condition, goes)
        if asked.truth is until and asked.truth is not None:
            self.silence([body])
            return replace(asked, truth=None)
        inside = self.run(body, goes=goes).contained()
        forever = asked.truth is not None and not _LEAVES_LOOP.search(self.text(body))
        return self._hanging(asked, inside, ends=forever)

    def _for(self, node: Node, goes: bool) -> Flow:  # noqa: FBT001
        body = node.child_by_field_name("body") or node.children[-1]
        values = node.children_by_field_name("value")
        asked = Flow()
        if values:
            name = self.text(node.child_by_field_name("variable") or node.children[1])
            place = (values[0].start_byte, values[-1].end_byte)
            inner = self.substitutions(node, goes=True, but=body)
            asked = replace(inner, looks=(), asks=False)
            self.variables.append(Variable(name, place, self.script[slice(*place)], open_=False))
            if place in self.before.unused:
                self.reading.silent.append(place)
        elif any(self.text(child) == "in" for child in node.children):  # over nothing
            self.silence([body])
            return Flow()
        return self._hanging(asked, self.run(body, goes=goes).contained())

    def _case(self, node: Node, goes: bool) -> Flow:  # noqa: FBT001
        header, items = case_of(node, self.script)
        inside = Flow()
        for item, statements, reached in items:
            if not reached:
                self.silence([item])
                continue
            one = self.sequence(statements, goes=goes)
            if not (one.does or one.asks):
                self.idle.append((span_of(item), one.looks))
            inside = inside.then(one, ends=False)
        return self._hanging(Flow(looks=(header,)), inside)
