"""Reading tips: what they prescribe, what they forbid, and what is only said."""

from __future__ import annotations

import time

import pytest

from scoring.trace import parse_tip
from scoring.trace.prose import Polarity, clauses


def terms(tip: str, polarity: Polarity) -> list[str]:
    """The terms of a tip's requirements of one polarity."""
    return [item.term for item in parse_tip(tip).requirements if item.polarity is polarity]


@pytest.mark.parametrize(
    ("tip", "prescribed", "forbidden"),
    [
        ("Use `a --b` instead of `c --d`.", ["a --b"], ["c --d"]),
        ("Use `a --b` rather than /etc/c.", ["a --b"], ["/etc/c"]),
        ("Avoid `c --d` and use `a --b`.", ["a --b"], ["c --d"]),
        ("Don't run `c --d`; run `a --b`.", ["a --b"], ["c --d"]),
        ("Never edit /etc/c, edit /etc/a.", ["/etc/a"], ["/etc/c"]),
        ("`c --d` failed; use `a --b`.", ["a --b"], ["c --d"]),
        ("`c --d` fails because it skips /etc/e. Use `a --b`.", ["a --b"], ["c --d"]),
        ("Attempt 3 failed by editing /etc/c; switch to `a --b`.", ["a --b"], ["/etc/c"]),
        ("I tried `c --d` but it did not work, so use `a --b`.", ["a --b"], ["c --d"]),
        ("`c --d` was reverted at boot. `a --b` must be run.", ["a --b"], ["c --d"]),
        ("`c --d` disappears on restart, use `a --b`.", ["a --b"], ["c --d"]),
        ("Do not apply `c --d`; use `a --b`.", ["a --b"], ["c --d"]),
        ("Stop editing /etc/c.", [], ["/etc/c"]),
        ("Attempted `a --b`; worked.", ["a --b"], []),
        ("Set `a = 1`, not `a = 2`.", ["a = 1"], ["a = 2"]),
    ],
)
def test_polarity_follows_the_phrasing(
    tip: str, prescribed: list[str], forbidden: list[str]
) -> None:
    assert terms(tip, Polarity.PRESCRIBES) == prescribed
    assert terms(tip, Polarity.FORBIDS) == forbidden


def test_a_negation_ends_at_the_clause() -> None:
    found = clauses("Do not edit A or change B; use C")
    assert [(part.polarity, part.text.strip(" ;")) for part in found] == [
        (Polarity.FORBIDS, "Do not edit A or change B"),
        (Polarity.PRESCRIBES, "use C"),
    ]


def test_a_marker_inside_quotes_marks_nothing() -> None:
    assert [part.polarity for part in clauses('Write "do not enter" to /etc/sign')] == [
        Polarity.PRESCRIBES
    ]


def test_a_goal_with_not_forbids_nothing() -> None:
    tip = "Configure the host to not allow IPv4 forwarding by editing /etc/net.conf"
    assert terms(tip, Polarity.FORBIDS) == []
    assert terms(tip, Polarity.PRESCRIBES) == ["/etc/net.conf"]


def test_lines_take_the_files_of_the_sentence_before_them() -> None:
    tip = (
        'Add the line to "/etc/a.conf" or a file in "/etc/a.d":\n\nKey value\n\n'
        'Then in "/etc/b.conf":\n\nOther = 1'
    )
    assert [(item.term, item.paths) for item in parse_tip(tip).requirements] == [
        ("Key value", ("/etc/a.conf", "/etc/a.d")),
        ("Other = 1", ("/etc/b.conf",)),
    ]


@pytest.mark.parametrize(
    "tip",
    [
        "Check it:\n\n$ sudo grep key /etc/x",
        "$ systemctl status printd",
        "$ sudo rpm -q lynx",
        "Think before you act.",
        "",
        "Note: this matters.",
    ],
)
def test_checks_and_plain_words_ask_for_nothing(tip: str) -> None:
    assert parse_tip(tip).requirements == ()


def test_the_output_shown_under_a_command_is_no_content() -> None:
    tip = "Run it:\n\n$ sudo aide --init\n\nExample output:\n\nentries=86833\nMD5 : abc\n"
    assert terms(tip, Polarity.PRESCRIBES) == ["aide --init"]


def test_a_file_opened_in_an_editor_takes_the_lines_below() -> None:
    tip = "Create it:\n\n$ sudo vi /etc/x.pol\n\nAdd the following lines:\n\nkey = 1\n"
    assert ("key = 1", ("/etc/x.pol",)) in [(i.term, i.paths) for i in parse_tip(tip).requirements]


def test_short_english_words_may_be_names() -> None:
    tip = 'Write to "/etc/modprobe.d/can.conf":\n\ninstall can /bin/false'
    assert terms(tip, Polarity.PRESCRIBES) == ["install can /bin/false"]


def test_a_cut_tip_loses_its_halved_word() -> None:
    assert terms("Run `a --b`, then edit /etc/some_fi…", Polarity.PRESCRIBES) == ["a --b"]


@pytest.mark.parametrize(
    "piece", ["\0", '"', "`a", "/a", "a.", "a_", "not ", "failed ", "--a-", "a = ", "[", " ", "A. "]
)
def test_hostile_tips_are_read_in_bounded_time(piece: str) -> None:
    started = time.monotonic()
    parse_tip(piece * 100_000)
    assert time.monotonic() - started < 5
