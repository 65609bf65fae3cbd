"""What a script only says is told apart from what it does, in shell, Python, Sigma and SQL.

Shaped by attempts that announce every tip in an echo, and by here-documents that write real files.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.judge.inert import outside, read_script

if TYPE_CHECKING:
    from types import FrameType

SAID = "said only"
DONE = "done here"

SAYS = {
    "a comment": f"# {SAID}",
    "a comment behind a command": f"ls /tmp # {SAID}",
    "a comment behind a quote that closes": f"x='\n' # {SAID}",
    "a comment in a file that is written": f"cat > /etc/x <<EOF\n# {SAID}\nEOF",
    "an echo": f"echo {SAID}",
    "an echo in a branch": f"if true; then echo {SAID}; fi",
    "an echo in a case": f"case $1 in a) echo {SAID} ;; esac",
    "an echo in a group": f"{{ echo {SAID}; ls; }}",
    "an echo over lines": f'echo "one\n{SAID}"',
    "a printf to the error output": f"printf '{SAID}' >&2",
    "an echo to nowhere": f"echo {SAID} > /dev/null 2>&1",
    "an echo whose errors are written": f"echo {SAID} 2> /tmp/errors",
    "an echo after a substitution": f"echo $(date | cut -c1) {SAID}",
    "an echo into cat": f"echo {SAID} | cat",
    "a log line": f"logger -t agent {SAID}",
    "a colon": f": {SAID}",
    "a document for nobody": f": <<'EOF'\n{SAID}\nEOF",
    "a document that is shown": f"cat <<EOF\n{SAID}\nEOF",
    "prose in a variable that is never read": f'NOTE="all is {SAID} now"',
    "a docstring": f'"""{SAID}\nmore"""\nimport os',
    "a print of Python": f'    print("{SAID}")',
    "a console message": f'console.log("{SAID}")',
    "a comment of SQL": f"-- {SAID}\nSELECT 1",
    "a description": f"title: x\ndescription: |\n  rule\n  {SAID}\nlevel: low",
}

DOES = {
    "a command": f"set-thing '{DONE}'",
    "an echo into a file": f"echo '{DONE}' >> /etc/x",
    "an echo through tee": f"echo '{DONE}' | sudo tee /etc/x",
    "an echo into a program": f"echo '{DONE}' | chpasswd",
    "a group into a file": f"{{ echo '{DONE}'; echo b; }} > /etc/x",
    "a loop into a file": f"for i in 1 2; do echo '{DONE}'; done >> /etc/x",
    "a subshell into a pipe": f"(echo '{DONE}') | tee /etc/x",
    "a branch into a file": f"if a; then echo '{DONE}'; fi > /etc/x",
    "a document that is written": f"cat > /etc/x <<'EOF'\n{DONE}\nEOF",
    "a document through tee": f"cat <<EOF | tee /etc/x\n{DONE}\nEOF",
    "a substitution": f"x=$(echo '{DONE}')\nuse \"$x\"",
    "a variable that is read": f'X="it is {DONE} now"\nuse "$X"',
    "a pattern with a hash": f"sed -i 's/ # {DONE}/x/' f",
    "a parameter with a hash": f"x=${{1#a}} y '{DONE}'",
    "after an echo": f"echo a && put '{DONE}'",
    "behind a here-string": f"tee /etc/x <<< '{DONE}'",
}


def silent(script: str, text: str) -> bool:
    start = script.index(text)
    return not read_script(script).acting(start, start + len(text))


@pytest.mark.parametrize("case", SAYS)
def test_what_is_only_said_is_no_act(case: str) -> None:
    assert silent(SAYS[case], SAID)


@pytest.mark.parametrize("case", DOES)
def test_what_is_written_or_run_is_an_act(case: str) -> None:
    assert not silent(DOES[case], DONE)
    assert not silent(f"# note\necho hello\n{DOES[case]}\necho bye\n", DONE)


PIECES = [
    "echo a", " > f", " | ", "cat <<EOF\n", "EOF\n", "'", '"', "`", "$(", "(", ")", "{ ", " }", "\n",
    "\\", "#", " # x", "; ", "if a; then ", "fi", "for i in b; do ", "done", "&&", "<<<", '"""', "x=",
]  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40).map("".join))
def test_any_text_gives_sorted_disjoint_stretches_inside_it(script: str) -> None:
    spans = read_script(script).inert
    flat = [place for span in spans for place in span]
    assert flat == sorted(flat)
    assert all(0 <= start < end <= len(script) for start, end in spans)
    kept = sum(end - start for start, end in outside(spans, 0, len(script)))
    assert kept + sum(end - start for start, end in spans) == len(script)


GROWS = {
    "a variable that is set and said again and again": "a=b; echo $a\n",
    "functions that nothing calls": "f{i}(){{ g{i}; }}\n",
    "functions that call each other, from the last": "f{i}(){{ f{j}; }}\n",
    "a target that is given again and again": "V=/dev/null; echo a > $V\n",
}


def calls_to_read(script: str) -> int:
    """How many calls of Python functions it takes to read a script: work, on any machine."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        read_script(script)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", GROWS)
def test_twice_the_script_is_twice_the_work(case: str) -> None:
    def script(lines: int) -> str:
        body = "".join(GROWS[case].format(i=i, j=i - 1) for i in range(1, lines + 1))
        return body + f"f{lines}\n" * ("{j}" in GROWS[case])

    assert calls_to_read(script(200)) < 2.6 * calls_to_read(script(100))
