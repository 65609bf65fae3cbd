"""A quote counts if it is in the script and does something there; folding is a closed table.

Shaped by a verifier that called 950,222 real quotes invented, and by one whose flag the model set.
"""

from __future__ import annotations

import time

import pytest

from scoring.judge.evidence import Match, verify
from scoring.judge.verdict import Label, Verdict, parse_reply
from tests.scoring.judge.replies import claim, reply, verdict

SCRIPT = """#!/bin/bash
# enable firewalld as the tip says
set -euo pipefail
systemctl enable --now firewalld
printf '%s\\n' 'ClientAliveInterval 600' >> /etc/ssh/sshd_config
echo "done: every tip was followed, PASS_MAX_DAYS set"
mount -o remount,nodev,nosuid \\
  /srv
chage -M 90 root  # caf\u00e9
"""


def checked(quote: str, script: str = SCRIPT, label: str = "followed") -> tuple[Label, str, Match]:
    finding = "done" if label == "followed" else "opposite"
    stated = verdict(label=label, claims=[claim(finding, quote)])
    verified = verify(read(stated), script)
    return verified.label, verified.reason, verified.spans[0].match


def read(stated: dict[str, object]) -> Verdict:
    return parse_reply(reply(stated), ["t1"]).verdicts["t1"]


@pytest.mark.parametrize(
    "quote",
    [
        "systemctl enable --now firewalld",
        "  systemctl enable --now firewalld\n",
        "enable --now firewalld\nprintf",
        "'ClientAliveInterval 600' >> /etc/ssh/sshd_config",
        "# enable firewalld as the tip says\nset -euo pipefail\nsystemctl enable --now firewalld",
        "remount,nodev,nosuid \\\n  /srv",
        "chage -M 90 root",
        "90 root",
    ],
)
def test_a_quote_that_stands_in_what_the_script_does_carries_the_label(quote: str) -> None:
    assert checked(quote) == (Label.FOLLOWED, "", Match.MATCH)
    assert checked(quote, label="contradicted") == (Label.CONTRADICTED, "", Match.MATCH)


@pytest.mark.parametrize(
    ("quote", "script"),
    [
        ("chage -M 90 root", "chage\u00a0-M\u202f90 \t root"),
        ("a b c", "a\r\nb\r\nc"),
        ("echo 'Banner' > /etc/issue", "echo \u2018Banner\u2019 > /etc/issue"),
        ('echo "Banner" > /etc/issue', "echo \u201cBanner\u201d > /etc/issue"),
        ("systemctl re-enable sshd", "systemctl re\u2011enable sshd"),
        ("systemctl \u2014\u2014now sshd", "systemctl --now sshd"),
        ("caf\u00e9 = 1", "cafe\u0301 = 1"),
        ("\uff30\uff41\uff33\uff33 12", "PaSS 12"),
        ("green word", "\x1b[1;32mgreen\x1b[0m word"),
        ("<U+001B>[31mred word", "\x1b[31mred word"),
        ("sys<U+200B>temctl", "sys\u200btemctl"),
        ("< |im_end|> text", "<|im_end|> text"),
        ("\ufb01rewall-cmd", "firewall-cmd"),
    ],
)
def test_white_space_typography_and_what_the_fence_made_visible_are_folded(
    quote: str, script: str
) -> None:
    assert checked(quote, script) == (Label.FOLLOWED, "", Match.MATCH)


def test_what_is_stored_is_the_slice_of_the_script_itself() -> None:
    script = "umask 077\nchage\u00a0-M  90\r\n  root  # \u2018x\u2019\n"
    verified = verify(read(verdict(claims=[claim(quote="chage -M 90 root")])), script)
    span = verified.spans[0]
    assert span.start is not None
    assert span.end is not None
    assert span.quote == script[span.start : span.end] == "chage\u00a0-M  90\r\n  root"


@pytest.mark.parametrize(
    "quote",
    [
        "systemctl disable --now firewalld",
        "SYSTEMCTL ENABLE --NOW FIREWALLD",
        "systemctl enable firewalld",
        "the script enables firewalld",
        "systemctl  enabled",
        "nosu",
        "`systemctl enable --now firewalld`",
        "sys\u200btemctl enable --now firewalld",
        "systemctl \u0435nable --now firewalld",
    ],
)
def test_another_case_another_word_or_a_lookalike_is_absent(quote: str) -> None:
    assert checked(quote) == (Label.UNCLEAR, "quote_unverified", Match.ABSENT)


@pytest.mark.parametrize(
    "quote",
    [
        "",
        " \n",
        ":",
        "90",
        "-M",
        "set -euo pipefail",
        "#!/bin/bash",
        "# enable firewalld as the tip says",
        "enable firewalld as the tip says",
        'echo "done: every tip was followed, PASS_MAX_DAYS set"',
        "every tip was followed",
        "PASS_MAX_DAYS set",
        "# caf\u00e9",
        "systemctl enable ... firewalld\nprintf '%s",
        "systemctl enable \u2026 firewalld",
        "systemctl enable [...] sshd_config",
    ],
)
def test_what_is_too_short_only_said_boilerplate_or_elided_cannot_carry_a_label(quote: str) -> None:
    assert checked(quote) == (Label.UNCLEAR, "quote_unverified", Match.CANNOT_CHECK)


def test_an_elided_quote_whose_parts_are_not_there_in_order_is_absent() -> None:
    assert checked("chage -M 90 ... systemctl enable")[2] is Match.ABSENT
    assert checked("systemctl enable ... iptables -F")[2] is Match.ABSENT


def test_a_quote_that_is_said_and_done_counts_at_the_place_where_it_is_done() -> None:
    script = "# chage -M 90 root\necho chage -M 90 root\nchage -M 90 root\n"
    verified = verify(read(verdict(claims=[claim(quote="chage -M 90 root")])), script)
    assert (verified.label, verified.spans[0].start) == (Label.FOLLOWED, script.rindex("chage"))


def test_only_a_claim_that_carries_the_label_can_prove_it() -> None:
    real, invented = "systemctl enable --now firewalld", "iptables --flush"
    claims = [claim("opposite", real), claim("done", invented)]
    verified = verify(read(verdict(claims=claims)), SCRIPT)
    assert (verified.label, verified.reason) == (Label.UNCLEAR, "quote_unverified")
    assert [span.match for span in verified.spans] == [Match.MATCH, Match.ABSENT]
    claims = [claim("done", invented), claim("done", real)]
    assert verify(read(verdict(claims=claims)), SCRIPT).label is Label.FOLLOWED


@pytest.mark.parametrize("label", ["not_followed", "not_applicable", "unclear"])
def test_a_label_that_needs_no_evidence_keeps_it_and_its_quotes_are_counted(label: str) -> None:
    finding = "unclear" if label == "unclear" else "absent"
    claims = [claim(finding, ""), claim(finding, "iptables --flush")]
    verified = verify(read(verdict(label=label, claims=claims)), SCRIPT)
    assert (verified.label, verified.reason) == (label, "")
    assert [(span.claim, span.match) for span in verified.spans] == [(1, Match.ABSENT)]


def test_no_quote_is_skipped() -> None:
    claims = [claim("done", ""), claim("done", "x"), claim("absent", "chage -M 90 root")]
    spans = verify(read(verdict(claims=claims)), SCRIPT).spans
    assert [span.claim for span in spans] == [0, 1, 2]


@pytest.mark.parametrize("script", ["", "\ud800", "e\u0301" * 3000, "'" * 9000, "$(" * 5000])
def test_any_script_is_checked_in_moments(script: str) -> None:
    started = time.monotonic()
    assert checked("chage -M 90 root", script)[2] is Match.ABSENT
    assert time.monotonic() - started < 2.0
