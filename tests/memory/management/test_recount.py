"""``recount``: what differs is named and mended, ``--check`` changes nothing, hostile keys stay text."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from memory import evidence
from memory.credit import POLICIES
from memory.models import RunEvidence, TipEvidence
from tests.factories import make_attempt, make_retrieval, make_run

pytestmark = pytest.mark.django_db

HOSTILE = "rule\x1b[2J [bold red]x[/] \u202e"


def recount(*args: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("recount", *args, stdout=out)
    return out.getvalue()


@pytest.fixture
def uncounted() -> None:
    """A final run whose evidence was never made."""
    run = make_run(status="done")
    make_retrieval(attempt=make_attempt(run=run, rule_id=HOSTILE), llm=True)


def refused(*args: str) -> tuple[str, str]:
    """What it prints and what it says when it exits with status 1."""
    out = io.StringIO()
    with pytest.raises(CommandError) as caught:
        call_command("recount", *args, stdout=out)
    assert caught.value.returncode == 1
    return out.getvalue(), str(caught.value)


@pytest.mark.usefixtures("uncounted")
def test_a_check_names_the_first_keys_and_the_mend_and_changes_nothing() -> None:
    printed, message = refused("--check")
    assert "run_evidence" in printed
    assert "no row" in printed
    for text in (printed, message):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "rule\\x1b[2J [bold red]x[/]" in text.replace("\n", "")
    assert message.startswith("the evidence differs from its rows, first in run_evidence (run_id=")
    assert "manage.py recount" in message
    assert not RunEvidence.objects.exists()


@pytest.mark.usefixtures("uncounted")
def test_a_recount_makes_the_check_pass() -> None:
    policies = len(POLICIES)
    assert f"1 runs counted; sums that had to be changed: {policies} of runs" in recount()
    assert "is what the rows add up to" in recount("--check")
    assert json.loads(recount("--check", "--json")) == {"ok": True, "differences": []}
    assert json.loads(recount("--json")) == {"runs": 1, "run_rows": 0, "tip_rows": 0}


@pytest.mark.usefixtures("uncounted")
def test_json_says_which_sums_differ() -> None:
    recount()
    TipEvidence.objects.filter(level="skill", policy="adr0019").update(credit_total="0.25")
    printed, _ = refused("--check", "--json")
    report: dict[str, Any] = json.loads(printed)
    (difference,) = report["differences"]
    assert not report["ok"]
    assert difference["key"]["level"] == "skill"
    assert difference["stored"] == {"credit_total": "0.250000000000"}
    assert difference["wanted"] == {"credit_total": "1.000000000000"}


@pytest.mark.usefixtures("uncounted")
def test_an_unknown_skill_is_an_error_that_names_those_there_are() -> None:
    for arguments in (("--skill", "nope"), ("--check", "--skill", "no\ud800pe")):
        _, message = refused(*arguments)
        assert "there are: 'stig'" in message


def test_another_skill_is_left_alone() -> None:
    for skill in ("stig", "cve"):
        run = make_run(skill=skill, status="done")
        make_retrieval(attempt=make_attempt(run=run))
    recount("--skill", "cve")
    assert set(TipEvidence.objects.values_list("skill", flat=True)) == {"cve"}
    refused("--check")
    with transaction.atomic():
        assert evidence.check(skill="cve") == []
