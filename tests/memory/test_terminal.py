"""Nothing that a stranger wrote can steer the operator's terminal."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.terminal import console_for, plain, visible


@given(text=st.text())
def test_no_control_character_survives(text: str) -> None:
    shown = visible(text)
    assert not [char for char in shown if unicodedata.category(char)[0] == "C"]
    assert len(shown.splitlines()) <= 1


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("two\nlines\r\n", "two\\nlines\\r\\n"),
        ("abc\u202egpj", "abc\\u202egpj"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone \ud800", "lone \\ud800"),
        ("plain é 漢 ✓ [bold]", "plain é 漢 ✓ [bold]"),
    ],
)
def test_escapes_are_shown_as_they_would_be_written(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


def test_blocks_keep_their_lines_and_long_texts_are_cut() -> None:
    assert visible("a\n\tb\r", lines=True) == "a\n\tb\\r"
    assert visible("abcdef", limit=4) == "abc…"
    assert visible("abcd", limit=4) == "abcd"


def test_a_pipe_gets_plain_text_and_markup_stays_text() -> None:
    stream = io.StringIO()
    console_for(stream).print(plain("[red]not markup[/red] :smile: \x1b[31m"))
    assert stream.getvalue() == "[red]not markup[/red] :smile: \\x1b[31m\n"
