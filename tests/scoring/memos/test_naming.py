"""Names of strangers in memos: whatever they hold, the gate reads them as names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.memos.facts import Snapshot, fact
from scoring.memos.gate import check
from scoring.memos.naming import NAME_CHARS, TEXT_CHARS, Shown, clean, quoted

ANY = st.text(max_size=120)
FIGURES = st.from_regex(r"[0-9]{1,4}( times|%|)", fullmatch=True)


def passes(name: str) -> bool:
    """Whether a figure about ``name`` passes the gate, and the name itself does not count as one."""
    label = f"times `{name}` was followed"
    snapshot = Snapshot("run", "run-1", None, (fact(label, "count", 5),))
    return check(f"- {label}: 5 [F1]", snapshot).passed


@given(st.lists(ANY | FIGURES, max_size=6))
def test_any_names_can_stand_in_a_memo_and_stay_apart(raw: list[str]) -> None:
    shown = Shown()
    names = {name: shown.name("tip", name) for name in raw}
    assert all(shown.name("tip", name) == names[name] for name in raw)
    assert len({name.casefold() for name in names.values()}) == len(names)
    for name in names.values():
        assert len(name) <= NAME_CHARS
        assert passes(name), name


@pytest.mark.parametrize("name", ["42", "17 times", "ten", "5%", "101"])
def test_a_name_that_is_a_figure_gets_the_word_for_its_kind(name: str) -> None:
    assert Shown().name("tip", name) == f"tip {name}"


@pytest.mark.parametrize("name", ["sshd_login_grace_time", "RHEL-09-411010", "tip-3", "stig/run 7"])
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert Shown().name("rule", name) == name


def test_names_that_are_alike_are_told_apart() -> None:
    shown = Shown()
    names = [shown.name("tip", raw) for raw in ("Tip", "tip", "tip ", "t\u200bip", "TIP")]
    assert len({name.casefold() for name in names}) == 5
    assert names[0] == "Tip"


def test_a_long_name_is_cut_and_keeps_apart_from_one_with_the_same_beginning() -> None:
    shown = Shown()
    one, two = (shown.name("rule", "x" * 400 + end) for end in "ab")
    assert one != two
    assert one[:40] == two[:40] == "x" * 40


@given(ANY)
def test_cleaning_leaves_one_line_without_what_ends_a_name(text: str) -> None:
    shown = clean(text)
    assert not set(shown) & set("`[]\n\r\t")
    assert shown == clean(shown)
    assert len(quoted(text)) <= TEXT_CHARS


def test_a_quoted_text_is_cut_with_a_sign() -> None:
    assert quoted("word " * 200).endswith("…")
    assert quoted("`rm -rf` [now]\n\u202eend") == "'rm -rf' (now) \\u202eend"
