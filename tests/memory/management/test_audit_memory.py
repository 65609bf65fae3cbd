"""``audit_memory``: a report that can be read in a pipe, parsed from JSON, and trusted on a terminal."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

pytestmark = pytest.mark.django_db

HOSTILE = "append it\x1b[2J\x07 [bold red]now[/] \u202e<script>"


def audit_memory(*args: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("audit_memory", *args, stdout=out)
    return out.getvalue()


@pytest.fixture
def memory() -> None:
    """A misleading tip, a lucky neighbour and a row that nobody could judge, in one run."""
    run = make_run(external_id="run-x")
    failed = make_attempt(run=run, rule_id="rule_a", outcome=0.0)
    passed = make_attempt(run=run, rule_id="rule_b", outcome=1.0)
    make_retrieval(attempt=failed, tip=make_tip(external_id="bad", text=HOSTILE), llm=True, emb=0.8)
    make_retrieval(attempt=passed, tip=make_tip(external_id="lucky"), llm=False, emb=0.7)
    make_retrieval(attempt=passed, tip=make_tip(external_id="cut"), shown=False)


@pytest.mark.usefixtures("memory")
def test_the_report_reads_without_colour_and_every_rate_has_its_n() -> None:
    text = audit_memory()
    assert "\x1b" not in text
    for title in (
        "1. Tip pool",
        "2. Retrieval activity",
        "3. Helpfulness per cohort, by month",
        "4a. Misleading tips",
        "4b. Lucky neighbours",
        "5. Outcomes",
        "6. Stale-confident tips",
        "Signal coverage",
        "Agreement of the signals",
    ):
        assert title in text
    assert (
        "tip bad [strategy] failed when followed 1 of 1 (100%, 21–100), credit +0.00 (n 1)" in text
    )
    assert "· run run-x, rule_a #1: outcome +0.00, said by llm" in text
    assert "tip lucky [strategy] ignored at success 1 of 1 (100%, 21–100)" in text
    assert "not_shown 1" in text


@pytest.mark.usefixtures("memory")
def test_hostile_text_is_shown_but_never_obeyed() -> None:
    text = audit_memory()
    assert "append it\\x1b[2J\\x07 [bold red]now[/] \\u202e<script>" in text
    raw = audit_memory("--json")
    assert raw.isascii()
    assert json.loads(raw)["misleading"][0]["text"] == HOSTILE


@pytest.mark.usefixtures("memory")
def test_the_json_is_the_whole_report_under_the_policy_asked_for() -> None:
    found = json.loads(audit_memory("--json", "--policy", "quadrant", "--limit", "1"))
    assert (found["policy"], found["limit"], found["version"]) == ("quadrant", 1, 1)
    assert found["misleading"][0]["tally"]["credit"] == {"mean": -1.0, "n": 1}
    assert set(found) >= {
        "tip_pool", "activity", "cohorts", "misleading", "lucky_neighbours", "outcomes",
        "stale_confident", "coverage", "agreement",
    }  # fmt: skip


@pytest.mark.usefixtures("memory")
def test_the_scope_is_named_and_kept() -> None:
    make_run(external_id="other", skill="cve")
    assert json.loads(audit_memory("--json", "--run", "run-x"))["scope"]["skill"] == "stig"
    assert json.loads(audit_memory("--json", "--skill", "cve"))["misleading"] == []


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("--run", "nobody"), "'nobody'"),
        (("--run", ""), "no run has the external id or primary key ''"),
        (("--run", "run-y", "--skill", ""), "no run of skill ''"),
        (("--run", "run-y", "--skill", "cve"), "'run-y'"),
        (("--policy", "adr0021"), "adr0021"),
        (("--limit", "0"), "'0' is not a whole number from 1 to"),
        (("--limit", "-1"), "'-1' is not a whole number from 1 to"),
        (("--limit", "many"), "'many' is not a whole number"),
        (("--limit", "9" * 30), "is not a whole number"),
        (("--skill", "typo"), "skill 'typo'; there are: 'stig'"),
        (("--run", "run-\udcff"), "udcff"),
        (("--skill", "\udcff"), "udcff"),
    ],
)
def test_what_cannot_be_audited_is_an_error_that_names_the_key(
    args: tuple[str, ...], named: str
) -> None:
    make_run(external_id="run-y")
    with pytest.raises(CommandError, match=named):
        audit_memory(*args)


@pytest.mark.usefixtures("memory")
def test_a_policy_that_does_not_read_every_signal_has_the_quadrants_credit_beside_its_own() -> None:
    text = audit_memory()
    assert "Credit under this policy reads review, llm, emb, and not trace;" in text
    assert "credit +0.00 (n 1), by quadrants -1.00 (n 1)" in text
    assert "credit by quadrants" in text
    text = audit_memory("--policy", "outcome_only")
    assert "reads no signal, and not review, llm, trace, emb;" in text
    text = audit_memory("--policy", "quadrant")
    assert "Credit under this policy reads review, llm, trace, emb, as every other figure" in text
    assert "by quadrants" not in text


def test_a_policy_that_the_settings_misspell_is_an_error(settings: Any) -> None:
    settings.CREDIT_POLICY = "adr0109"
    with pytest.raises(CommandError, match="no credit policy 'adr0109'; there are: adr0019"):
        audit_memory()


def test_a_superseded_run_is_refused_not_reported_as_empty() -> None:
    run = make_run(superseded_at=MOMENT)
    with pytest.raises(CommandError, match="superseded"):
        audit_memory("--run", str(run.pk))


def test_an_empty_memory_says_so() -> None:
    assert "0 tips: 0 active" in audit_memory()
