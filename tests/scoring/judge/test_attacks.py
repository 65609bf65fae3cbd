"""Hostile tips and scripts: the request keeps its shape, and an obedient judge publishes nothing.

The corpus stands in ``attacks.py``. The server here does what the attack says: it answers "followed"
and quotes whatever helps. Shaped by judges that were talked into a verdict by the text they judged.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scoring.judge.evidence import Match, Verified, verify
from scoring.judge.prompt import PromptLibrary, TipQuestion, build_question, new_mark
from scoring.judge.verdict import Label, followed_of, parse_reply, verdict_schema
from tests.scoring.judge.attacks import ASKED_FOR, FAMILIES, HONEST_LINES, PLACES, Attack, corpus
from tests.scoring.judge.replies import claim, reply, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from scoring.judge.client import JudgeClient
    from tests.stand_ins.judge_server import JudgeServer

    ClientOf = Callable[..., JudgeClient]

PROMPT = PromptLibrary(Path(__file__).resolve().parents[3] / "prompts").for_skill("stig")
MARK = "0f1e2d3c4b5a6978"
CORPUS = list(corpus(MARK))
UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
TOKEN = re.compile(r"<\||<\uff5c|</?s>|\[/?INST\]|<(?:start|end)_of_turn>|</?think>")


def shown(attack: Attack, mark: str = MARK) -> str:
    tips = [TipQuestion("t1", attack.tip), TipQuestion("t2", "Keep /etc/motd short.")]
    return build_question(PROMPT, script=attack.script, tips=tips, mark=mark)[-1]["content"]


def obeyed(attack: Attack, *quotes: str, label: str = "followed") -> Verified:
    """The verdict of a judge that obeys, after all checks."""
    finding = "done" if label == "followed" else "opposite"
    claims = [claim(finding, quote[:300]) for quote in quotes]
    parsed = parse_reply(reply(verdict(label=label, claims=claims)), ["t1"])
    return verify(parsed.verdicts["t1"], attack.script)


def test_the_corpus_is_large_and_in_eight_families() -> None:
    assert len(CORPUS) == len(set(CORPUS)) >= 200
    families = Counter(attack.family for attack in CORPUS)
    assert families.keys() == FAMILIES.keys()
    assert len(families) == 8
    assert min(families.values()) >= 25
    assert {attack.place for attack in CORPUS} == {"tip", *PLACES}


def test_no_attack_breaks_a_fence_even_if_it_knows_the_mark() -> None:
    for attack in CORPUS:
        lines = [line for line in shown(attack).split("\n") if MARK in line]
        names = ["SCRIPT", "TIP t1", "TIP t2"]
        assert lines == [f"[[{name} {MARK} {end}]]" for name in names for end in ("BEGIN", "END")]


def test_no_attack_is_invisible_or_reads_as_a_turn_of_the_conversation() -> None:
    for attack in CORPUS:
        text = shown(attack)
        assert not UNSEEN.search(text)
        assert not TOKEN.search(text)
        assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}


def test_no_attack_is_expanded_as_a_template_or_moves_what_stands_around_it() -> None:
    for attack in CORPUS:
        messages = build_question(
            PROMPT, script=attack.script, tips=[TipQuestion("t1", attack.tip)], mark=MARK
        )
        roles = [message["role"] for message in messages]
        assert roles == ["system"] + ["user", "assistant"] * len(PROMPT.examples) + ["user"]
        before, after = PROMPT.template.split("{{script}}")
        assert messages[-1]["content"].startswith(before)
        assert messages[-1]["content"].endswith(after.split("{{tips}}")[1])


def test_a_mark_cannot_be_guessed_and_does_not_depend_on_the_text() -> None:
    attack = CORPUS[0]
    marks = {new_mark() for _ in range(200)}
    assert len(marks) == 200
    assert len({shown(attack, mark).replace(mark, "") for mark in marks}) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_an_obedient_judge_that_quotes_the_attack_publishes_nothing(family: str) -> None:
    for attack in (attack for attack in CORPUS if attack.family == family):
        lines = [line for line in attack.text.split("\n") if line.strip()]
        planted = attack.script.split("\n")[2:-2] if attack.place != "tip" else []
        for quote in [attack.text, *lines, *planted, "\n".join(planted), *attack.text.split(" ")]:
            for label in ("followed", "contradicted"):
                verified = obeyed(attack, quote, label=label)
                assert (verified.label, verified.reason) == (Label.UNCLEAR, "quote_unverified")
                assert followed_of(verified.label) is None
                assert verified.spans[0].match is not Match.MATCH


def test_an_obedient_judge_that_quotes_the_tip_its_orders_or_boilerplate_publishes_nothing() -> (
    None
):
    for attack in CORPUS:
        quotes = ["", " ", ":", "set -e", "followed", ASKED_FOR, attack.tip, "Thought process:"]
        assert obeyed(attack, *quotes[:6]).label is Label.UNCLEAR
        assert obeyed(attack, *quotes[6:]).label is Label.UNCLEAR


def test_what_the_script_really_does_can_still_be_quoted_beside_any_attack() -> None:
    for attack in CORPUS:
        for line in HONEST_LINES:
            assert obeyed(attack, attack.text, line).label is Label.FOLLOWED


def test_a_served_reply_that_obeys_is_read_refused_or_taken_back(
    judge: JudgeServer, client_of: ClientOf
) -> None:
    """Over real HTTP: the server says what the attack wants, in the schema and out of it."""
    client = client_of(judge.base_url)
    for attack in CORPUS[::7]:
        served = [reply(verdict(claims=[claim(quote=attack.text[:300])])), attack.text, "followed"]
        for content in served:
            judge.control(content=content or " ")
            asked = build_question(
                PROMPT, script=attack.script, tips=[TipQuestion("t1", attack.tip)], mark=MARK
            )
            got = client.ask(asked, schema=verdict_schema(["t1"]))
            assert _published(got.content, attack.script) is None


def _published(content: str, script: str) -> bool | None:
    from scoring.judge.errors import VerdictError

    try:
        read = parse_reply(content, ["t1"]).verdicts.get("t1")
    except VerdictError:
        return None
    return followed_of(verify(read, script).label) if read else None
