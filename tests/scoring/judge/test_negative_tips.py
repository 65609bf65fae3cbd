"""Tips that warn, and the other cases whose label is a matter of definition: one table, checked.

Each row says which label the prompts ask for, and what becomes of ``tip_followed_llm``. The row's
reply is one that the product accepts; the same checklist under the label that careless judges give is
either refused or counts as something else. Every skill's prompt states the rule that decides.
Shaped by "not applicable" counted as "rejected", and by warnings that were heeded without the
alternative and counted as followed.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from scoring.judge.evidence import verify
from scoring.judge.prompt import PromptLibrary
from scoring.judge.verdict import followed_of, parse_reply
from tests.scoring.judge.replies import claim, reply, verdict

PROMPTS = Path(__file__).resolve().parents[3] / "prompts"
SKILLS = ["cve", "default", "detection", "stig"]


class Case(NamedTuple):
    """Script, checklist (finding and quote), label, tip_followed_llm, and the rule of the prompts."""

    script: str
    claims: list[tuple[str, str]]
    label: str
    followed: bool | None
    rule: str


APPEND = "echo 'MACs hmac-sha2-512' >> /etc/ssh/sshd_config"
POLICY = "update-crypto-policies --set FIPS"
BOTH = f"{APPEND}\n{POLICY}"
WARNS_THAT = "the script does A: contradicted, also if it does B as well"
LEAVES = "it leaves A and does not do B, though it works on the same thing: not_followed"
OTHER_WAY = "no B is named, and it does the same task in a clearly different way: followed"
NOT_THERE = "it does not work on that task at all: not_applicable"
STEPS = "If only the preparation or the smaller part was done: not_followed"

CASES = {
    "A failed, use B: does A again": Case(
        APPEND, [("absent", ""), ("opposite", APPEND)], "contradicted", False, WARNS_THAT
    ),
    "A failed, use B: does B": Case(
        POLICY, [("done", POLICY)], "followed", True, "it leaves A and does B: followed"
    ),
    "A failed, use B: does neither, works on the same thing": Case(
        "sed -i '/^MACs/d' /etc/ssh/sshd_config",
        [("absent", ""), ("done", "sed -i '/^MACs/d' /etc/ssh/sshd_config")],
        "not_followed",
        False,
        LEAVES,
    ),
    "A failed, use B: does both": Case(
        BOTH, [("done", POLICY), ("opposite", APPEND)], "contradicted", False, WARNS_THAT
    ),
    "A failed, nothing named: does A again": Case(
        APPEND, [("opposite", APPEND)], "contradicted", False, WARNS_THAT
    ),
    "A failed, nothing named: does the task in another way": Case(
        POLICY, [("done", POLICY)], "followed", True, OTHER_WAY
    ),
    "A failed, nothing named: works on something else": Case(
        "dnf -y remove telnet", [("absent", "")], "not_applicable", None, NOT_THERE
    ),
    "do not do A: does A": Case(APPEND, [("opposite", APPEND)], "contradicted", False, WARNS_THAT),
    "do not do A: does not touch it": Case(
        "dnf -y remove telnet", [("absent", "")], "not_applicable", None, NOT_THERE
    ),
    "the same, to another file": Case(
        "echo 'umask 077' >> /etc/bashrc",
        [("absent", "echo 'umask 077' >> /etc/bashrc")],
        "not_followed",
        False,
        "is another object",
    ),
    "two steps: the main one only": Case(
        "dnf -y install chrony",
        [("done", "dnf -y install chrony"), ("absent", "")],
        "followed",
        True,
        "the main step, the one that brings about the result, decides",
    ),
    "two steps: the smaller one only": Case(
        "cp /etc/chrony.conf /root/",
        [("absent", ""), ("done", "cp /etc/chrony.conf /root/")],
        "not_followed",
        False,
        STEPS,
    ),
    "more than the tip asks for": Case(
        "dnf -y install aide && rpm -V aide",
        [("done", "dnf -y install aide")],
        "followed",
        True,
        "more steps around it do no harm",
    ),
    "the reverse": Case(
        "systemctl disable --now firewalld",
        [("opposite", "systemctl disable --now firewalld")],
        "contradicted",
        False,
        "Direction counts",
    ),
    "done and undone": Case(
        "setenforce 1\nsetenforce 0",
        [("opposite", "setenforce 0")],
        "contradicted",
        False,
        "done and then undone in the same script is opposite",
    ),
    "a condition that does not hold": Case(
        "dnf -y install aide",
        [("absent", "")],
        "not_applicable",
        None,
        "the condition that the tip names does not hold",
    ),
    "irrelevant": Case(
        "dnf -y install aide",
        [("absent", "")],
        "not_applicable",
        None,
        "the script does nothing that the tip is about",
    ),
    "vague, and the main act decides": Case(
        "dnf -y remove telnet",
        [("done", "dnf -y remove telnet")],
        "followed",
        True,
        "A vague tip is measured by the main thing that the script does",
    ),
    "vague, and nothing decides": Case(
        "dnf -y remove telnet",
        [("unclear", "")],
        "unclear",
        None,
        "if even that does not decide, unclear",
    ),
    "restates what the task asks for anyway": Case(
        "sysctl -w net.ipv4.tcp_syncookies=1",
        [("done", "sysctl -w net.ipv4.tcp_syncookies=1")],
        "followed",
        True,
        "if the task asks for the same thing as the tip, a script that does it has followed the tip",
    ),
    "the same advice twice": Case(
        POLICY,
        [("done", POLICY)],
        "followed",
        True,
        "two tips that give the same advice get the same label",
    ),
    "said, not done": Case(
        f"# {POLICY}\necho '{POLICY}'", [("absent", "")], "not_followed", False, "does nothing"
    ),
}


def stated(case: Case, label: str | None = None) -> str:
    claims = [claim(finding, quote) for finding, quote in case.claims]
    return reply(verdict(label=label or case.label, claims=claims))


@pytest.mark.parametrize("name", CASES)
def test_the_case_has_one_label_and_one_value(name: str) -> None:
    case = CASES[name]
    verified = verify(parse_reply(stated(case), ["t1"]).verdicts["t1"], case.script)
    assert (verified.label, verified.reason) == (case.label, "")
    assert followed_of(verified.label) is case.followed


@pytest.mark.parametrize("name", CASES)
def test_the_careless_label_on_the_same_checklist_is_refused_or_loses_its_value(name: str) -> None:
    case = CASES[name]
    findings = {finding for finding, _ in case.claims}
    if case.followed is True:
        careless = ["contradicted", "not_applicable"]
    else:
        careless = ["followed"] if "done" not in findings else []
    for label in careless:
        assert "t1" in parse_reply(stated(case, label), ["t1"]).refused


@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize("name", CASES)
def test_the_prompt_of_every_skill_states_the_rule(skill: str, name: str) -> None:
    system = " ".join(PromptLibrary(PROMPTS).for_skill(skill).system.split())
    rule = {"does nothing": "Only what would run counts"}.get(CASES[name].rule, CASES[name].rule)
    assert rule in system


def test_a_script_that_only_says_it_cannot_be_called_followed() -> None:
    case = CASES["said, not done"]
    for quote in (POLICY, f"# {POLICY}", f"echo '{POLICY}'"):
        said = reply(verdict(claims=[claim("done", quote)]))
        verified = verify(parse_reply(said, ["t1"]).verdicts["t1"], case.script)
        assert (verified.label, verified.reason) == ("unclear", "quote_unverified")
