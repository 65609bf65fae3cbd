"""A script that does nothing proves nothing, whatever is quoted; a real act is found wherever it stands.

The corpus stands in ``no_op_scripts.py``. The judge here obeys: it says "followed" and quotes what
helps most. Shaped by a script of one ``grep -q '…'`` that published a verified "followed".
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from scoring.judge.asking import Answer, Question, ask_about
from scoring.judge.client import JudgeClient, JudgeConfig
from scoring.judge.evidence import QUOTE_UNVERIFIED, Match, Verified, verify
from scoring.judge.prompt import PromptLibrary
from scoring.judge.verdict import Claim, Finding, Label, Verdict, followed_of
from tests.conftest import CHECKOUT
from tests.scoring.judge.no_op_scripts import ACTS, NO_OPS, TEXTS

if TYPE_CHECKING:
    from tests.stand_ins.judge_server import JudgeServer

PROMPT = PromptLibrary(CHECKOUT / "prompts").for_skill("stig")
HONEST = (
    "#!/bin/bash\ninstall -m 0644 /usr/share/motd /etc/motd\n{script}\nrestorecon -v /etc/motd\n"
)


def obeyed(script: str, quote: str) -> Verified:
    claim = Claim(claim="mask it", finding=Finding.DONE, quote=quote, why="it stands there")
    said = Verdict(id="t1", label=Label.FOLLOWED, claims=(claim,), reasoning="it stands there")
    return verify(said, script)


@pytest.mark.parametrize("case", NO_OPS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_script_that_does_nothing_publishes_nothing(case: str, text: str) -> None:
    script = NO_OPS[case].replace("{text}", text)
    for whole in (script, f"#!/bin/bash\n{script}\n", f"# a note\n{script}\necho done\n"):
        for quote in (text, script, *script.split("\n"), f"'{text}'", text.rpartition(" ")[0]):
            verified = obeyed(whole, quote)
            assert followed_of(verified.label) is None, quote
            assert verified.reason == QUOTE_UNVERIFIED
            assert verified.spans[0].match is not Match.MATCH


NEVER_GO_ON = {"a command behind", "a command that is only"}


@pytest.mark.parametrize("case", NO_OPS)
def test_beside_real_acts_the_words_still_prove_nothing(case: str) -> None:
    for text in TEXTS:
        script = HONEST.replace("{script}", NO_OPS[case].replace("{text}", text))
        assert obeyed(script, text).reason == QUOTE_UNVERIFIED
        assert obeyed(script, "install -m 0644 /usr/share/motd /etc/motd").label is Label.FOLLOWED
        if not any(case.startswith(start) for start in NEVER_GO_ON):
            assert obeyed(script, "restorecon -v /etc/motd").label is Label.FOLLOWED


@pytest.mark.parametrize("case", ACTS)
def test_a_real_act_is_found(case: str) -> None:
    script, quote = ACTS[case]
    for whole in (script, HONEST.replace("{script}", script)):
        assert obeyed(whole, quote).label is Label.FOLLOWED


def test_a_pattern_is_no_act_even_if_an_act_hangs_on_it() -> None:
    script = "if grep -q 'systemctl mask kdump' /etc/x; then reboot; fi"
    assert obeyed(script, "systemctl mask kdump").reason == QUOTE_UNVERIFIED
    assert obeyed(script, script).label is Label.FOLLOWED


def test_a_served_verdict_about_a_no_op_is_taken_back(judge: JudgeServer) -> None:
    """Over real HTTP: the stand-in says "followed" and quotes the line with the tip's words."""
    config = JudgeConfig(judge.base_url, "stand-in-judge", max_tries=1)
    tip = "judge-says=followed run `systemctl mask kdump`"
    with JudgeClient(config) as client:
        for case, template in NO_OPS.items():
            script = template.replace("{text}", TEXTS[0])
            asked = Question(prompt=PROMPT, script=script, tips=(tip,), budget=config.budget)
            (step,) = ask_about(client.ask, asked, [[0]])
            answer = step.outcomes[0]
            assert isinstance(answer, Answer), case
            assert answer.verified.label is Label.UNCLEAR, case
            assert answer.verified.reason == QUOTE_UNVERIFIED


@pytest.mark.parametrize(
    "script",
    [
        "a && " * 5_000,
        "$(" * 8_000,
        "( " * 8_000,
        "if x; then " * 2_000,
        "a|" * 10_000,
        "\x00" * 9_000,
        "".join(f"v{n}='a b'\n" for n in range(2_000)),
        "".join(f"f{n}() {{ f{n + 1}; }}\n" for n in range(900)),
        "bash -c '" * 2_000,
        "case a in " * 2_000,
        "cat <<E\n" * 2_500,
        "x=$y\n" * 4_000,
    ],
)
def test_any_script_is_read_in_moments(script: str) -> None:
    started = time.monotonic()
    obeyed(script, "systemctl mask kdump")
    obeyed(f"{script}\nsystemctl mask kdump", "systemctl mask kdump")
    assert time.monotonic() - started < 6.0
