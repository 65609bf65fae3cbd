"""Reading scripts: what counts as an action, and what garbage may cost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.trace.actions import UNKNOWN, ActionKind
from scoring.trace.modes import modes_agree
from scoring.trace.shell import parse_script
from scoring.trace.stream_edit import literal_substitution, sed_edits


def written(script: str) -> list[tuple[str, str]]:
    """The (file, line) pairs that a script writes."""
    actions = parse_script(script).actions
    return [(a.target, a.text) for a in actions if a.kind is ActionKind.WRITE]


def erased(script: str) -> list[tuple[str, str]]:
    """The (file, text) pairs that a script removes."""
    actions = parse_script(script).actions
    return [(a.target, a.text) for a in actions if a.kind is ActionKind.ERASE]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a=1; f=/etc/x\necho \"k=$a\" >> $f", [("/etc/x", "k=1")]),
        ("echo -e 'a\\nb' > /x", [("/x", "a"), ("/x", "b")]),
        ("{ echo a; echo b; } > /x", [("/x", "a"), ("/x", "b")]),
        ("test -f /x && echo a >> /x", [("/x", "a")]),
        ("cat <<'E' > /x\n$a\nE", [("/x", "$a")]),
        ("v=1\ncat <<E | sudo tee /x >/dev/null\nk $v\nE", [("/x", "k 1")]),
        ("for f in /a /b; do echo k >> $f; done", [("/a", "k"), ("/b", "k")]),
        ("fs=(/a /b)\nfor f in \"${fs[@]}\"; do echo k >> \"$f\"; done", [("/a", "k"), ("/b", "k")]),
        ("for f in $(echo '/a /b'); do echo k >> $f; done", [("/a", "k"), ("/b", "k")]),
        ("if x; then f=/a; else f=/b; fi\necho k > $f", [("/b", "k"), ("/a", "k")]),
        ("put() { echo \"$1=$2\" >> /x; }\nput k v", [("/x", "k=v")]),
        ("k=$(sed 's/[\\^=]*//g' <<< '^key=')\necho $k > /x", [("/x", "key")]),
        ("x=a; x+=b\necho $x > /x", [("/x", "ab")]),
        ("echo ${v:-d} ${w//a/b} > /x", [("/x", f"d {UNKNOWN}")]),
        ("echo $(date) > /x", [("/x", UNKNOWN)]),
        ("sed -i '$ a\\k=v' /x", [("/x", "k=v")]),
        ("sed -i -E 's/^(\\s*mask\\s*)[0-7]+/\\1077/' /x", [("/x", "mask 077")]),
        ("sysctl -w a.b=1", [("", "a.b=1")]),
        ("crudini --set /x main k v", [("/x", "k = v")]),
        ("echo a > /n; mv /n /x", [("/n", "a"), ("/x", "a")]),
        ("bash -c 'echo a > /x'", [("/x", "a")]),
        ("eval \"echo a > /x\"", [("/x", "a")]),
        ("ls /etc | while read -r f; do echo k > /x; done", [("/x", "k")]),
    ],
)  # fmt: skip
def test_what_a_script_writes_is_found_however_it_is_written(
    script: str, expected: list[tuple[str, str]]
) -> None:
    assert written(script) == expected


@pytest.mark.parametrize(
    "script",
    [
        "# echo a > /x",
        "echo a",
        "grep a /x",
        "echo a >&2",
        "ls 2> /dev/null",
        "cat /x",
        "f() { echo a > /x; }",
        "sed 's/a/b/' /x",
        "[[ -f /x ]]",
    ],
)
def test_printing_reading_and_defining_are_no_writes(script: str) -> None:
    assert written(script) == []


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("sed -i '/^key/d' /x", [("/x", "key")]),
        ("sed -i 's/^key/#&/' /x", [("/x", "key")]),
        ("sed -i '/key/ s/^/# /' /x", [("/x", "key")]),
        ("sed -i -E 's/(a.*) key=?[0-9]*(.*)/\\1\\2/' /x", [("/x", "key")]),
        ("find /d -name '*.conf' -exec sed -i '/key/d' {} +", [("/d/*.conf", "key")]),
        ("find /d -name '*.conf' -print0 | xargs -0 sed -i '/key/d'", [("/d/*.conf", "key")]),
        ("sudo rm -f /x", [("/x", "")]),
    ],
)
def test_deleting_and_commenting_out_are_removals(
    script: str, expected: list[tuple[str, str]]
) -> None:
    assert erased(script) == expected


def test_actions_carry_the_line_they_stand_on() -> None:
    actions = parse_script("true\n\nsystemctl mask a.service\n").actions
    assert [(a.verb, a.target, a.line) for a in actions if a.kind is ActionKind.SERVICE] == [
        ("mask", "a", 3)
    ]


def test_an_unclosed_quote_does_not_hide_the_lines_around_it() -> None:
    script = "systemctl enable a\necho 'never closed\nsystemctl enable b\n"
    assert "a" in [a.target for a in parse_script(script).actions]


def test_a_function_that_calls_itself_ends() -> None:
    assert parse_script("f() { f; echo a > /x; f; }\nf\n").complete


@pytest.mark.parametrize(
    "script",
    [
        "\0" * 1_000_000,
        "a|" * 50_000,
        "(" * 50_000,
        "$(" * 50_000,
        "if a; then\n" * 20_000,
        "echo 'x\n" * 100_000,
        "x=$x$x\n" * 20_000,
        "echo a > /x\ncp /x /y\ncp /y /x\n" * 5_000,
        "sed -i '" + "s/a*b*/c/;" * 50_000 + "' /x",
        "f() { g; g; }\ng() { f; f; }\n" + "f\n" * 5_000,
    ],
    ids=[
        "nul",
        "pipes",
        "brackets",
        "substitutions",
        "ifs",
        "quotes",
        "doubling",
        "copies",
        "sed",
        "calls",
    ],
)
def test_hostile_scripts_are_read_in_bounded_time(script: str) -> None:
    started = time.monotonic()
    parse_script(script)
    assert time.monotonic() - started < 20


def test_a_script_beyond_the_limit_is_marked_incomplete() -> None:
    assert not parse_script("echo a > /x\n" * 60_000).complete


@pytest.mark.parametrize(
    ("program", "text", "expected"),
    [
        ("s/[\\^=]*//g", "^a=b", "ab"),
        ("s|/|\\/|g", "a/b/c", "a\\/b\\/c".replace("\\", "")),
        ("s/a/b/", "aa", "ba"),
        ("s/a.*/b/", "aa", None),
        ("s/a/b/;s/c/d/", "aa", None),
        ("y/a/b/", "aa", None),
    ],
)
def test_only_plain_substitutions_are_computed(
    program: str, text: str, expected: str | None
) -> None:
    assert literal_substitution(program, text) == expected


@settings(max_examples=200, deadline=None)
@given(
    program=st.text(alphabet="s/|adic\\()[]{}*+?.^$&1; \n#g'", max_size=60), extended=st.booleans()
)
def test_any_sed_program_can_be_read(program: str, extended: bool) -> None:
    for edit in sed_edits(program, extended=extended):
        assert edit.written or edit.removed


@pytest.mark.parametrize(
    ("wanted", "given_mode", "agrees"),
    [
        ("0644", "644", True),
        ("0755", "u-s,g-ws,o-wt", True),
        ("0600", "u-xs,g-xwrs,o-xwrt", True),
        ("0750", "u-s,g-w-s,o=-", True),
        ("0600", "0644", False),
        ("0600", "g+w", False),
        ("0600", "nonsense", False),
        ("a+t", "+t", True),
    ],
)
def test_modes_compare_by_bits(wanted: str, given_mode: str, agrees: bool) -> None:
    assert (modes_agree(wanted, given_mode) == 1.0) is agrees
