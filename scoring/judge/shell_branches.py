"""Cuts the branches of ``if`` and ``case`` out of a shell's syntax tree.

Guarantees: pure; every statement of the construct comes out once, in order. A branch of ``case`` is
called unreached only if subject and patterns are written out and cannot match.

It does not judge conditions (``scoring.judge.shell_flow`` does). Shaped by ``case a in b)``.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from scoring.judge.shell_commands import bare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

Branch = tuple[list["Node"], list["Node"]]
Item = tuple["Node", list["Node"], bool]


def branches_of(node: Node) -> Iterator[Branch]:
    """Yield condition and body of every branch of an ``if_statement``; no condition: else."""
    condition: list[Node] = []
    body: list[Node] = []
    later: list[Node] = []
    part = condition
    for child in node.children[1:]:
        if child.type in {"elif_clause", "else_clause"}:
            later.append(child)
        elif child.type == "then":
            part = body
        elif child.is_named:
            part.append(child)
    yield condition, body
    for clause in later:
        if clause.type == "else_clause":
            yield [], [child for child in clause.children if child.is_named]
        else:
            yield from branches_of(clause)


def case_of(node: Node, script: str) -> tuple[tuple[int, int], list[Item]]:
    """Return the place of ``case … in``; of every item its node, statements and whether it is reached."""
    subject = node.child_by_field_name("value")
    written = _written(subject, script) if subject is not None else None
    header_end = next((c.end_byte for c in node.children if c.type == "in"), node.start_byte)
    items: list[Item] = []
    decided = False
    for item in (child for child in node.children if child.type == "case_item"):
        patterns = item.children_by_field_name("value")
        inside = [child for child in item.children if child.is_named and child not in patterns]
        matches = [_matches(written, pattern, script) for pattern in patterns]
        reached = not decided and not (matches and all(match is False for match in matches))
        items.append((item, inside, reached))
        falls = any(child.type in {";&", ";;&"} for child in item.children)
        written = None if falls else written
        decided = decided or (not falls and any(match is True for match in matches))
    return (node.start_byte, header_end), items


def _written(node: Node, script: str) -> str | None:
    text = script[node.start_byte : node.end_byte]
    return None if "$" in text or "`" in text else bare(text)


def _matches(subject: str | None, pattern: Node, script: str) -> bool | None:
    text = script[pattern.start_byte : pattern.end_byte]
    if text == "*":
        return True
    if subject is None or "$" in text or "`" in text or "(" in text:
        return None
    return fnmatchcase(subject, bare(text))
