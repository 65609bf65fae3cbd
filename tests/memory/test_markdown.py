"""Hostile text in Markdown: read back by a Markdown parser, it is nothing but text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.markdown import EMPTY, cell, code, table
from memory.terminal import visible

HOSTILE = [
    "# heading\n## another",
    "[link](javascript:alert(1)) ![image](http://evil/x.png)",
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "``` fence\ninside\n```",
    "`` ` ``` a | b | c",
    "`",
    "ends with a backslash\\",
    r"a \| b \\| c",
    "@somebody #12 http://evil.example www.evil.example",
    "| --- | --- |",
    "\u202e\x1b[2Jreversed",
    "- item\n1. item\n> quote\n---",
]


def spans(line: str) -> list[str]:
    """The code spans of one line, as CommonMark finds them: equal runs of backticks, from the left."""
    found, place = [], 0
    while opened := re.compile(r"`+").search(line, place):
        fence = opened.group()
        closed = re.compile(rf"(?<!`){fence}(?!`)").search(line, opened.end())
        if closed is None:
            place = opened.end()
            continue
        inner = line[opened.end() : closed.start()]
        if inner.startswith(" ") and inner.endswith(" ") and inner.strip():
            inner = inner[1:-1]
        found.append(inner)
        place = closed.end()
    return found


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_one_code_span_on_one_line(text: str) -> None:
    assert "\n" not in code(text)
    assert spans(code(text)) == [visible(text).strip()]


@given(st.text(max_size=200))
def test_any_text_is_one_code_span(text: str) -> None:
    shown = code(text)
    assert shown == EMPTY if not visible(text).strip() else spans(shown) == [visible(text).strip()]
    assert spans(f"before {shown} after") == spans(shown)


@given(st.text(max_size=200))
def test_a_cell_never_ends_its_column(text: str) -> None:
    (line,) = table(("a", "b"), [(cell(text), "x")])[2:]
    assert line.count("|") == 3
    assert "\n" not in line


def test_a_long_text_is_cut_inside_the_span() -> None:
    assert code("x" * 50, limit=10) == "`xxxxxxxxx…`"
