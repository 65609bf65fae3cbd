"""No text ends the process: the grammar's C scanner is kept away from what it cannot look up."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scoring.trace import Verdict, trace

PROBE = """
from scoring.trace import trace
for text in {texts!r}:
    for script in ("echo {" + text, "echo ${" + text, "cat <<" + text, text + "=1", "# " + text):
        trace(tip="Run `systemctl enable sshd`.", script=script)
"""
TEXTS = ["\U0010ffff", "\U000f0000x", "\U0001f600", "\u4e2d", "\ufffd", "\u201cq\u201d"]


@pytest.mark.parametrize("attempt", range(4))
def test_the_highest_characters_do_not_end_the_process(attempt: int) -> None:
    """A wild read kills only some processes, so several are asked."""
    code = PROBE.replace("{texts!r}", repr(TEXTS * (attempt + 1)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


def test_a_script_with_foreign_comments_is_read_all_the_same() -> None:
    script = "# включить службу — 有効\nsystemctl enable --now sshd\n"
    result = trace(tip="Run `systemctl enable --now sshd`.", script=script)
    assert result.verdict is Verdict.FOLLOWED
