"""Wherever a verdict is shown, the judge behind it is marked when no calibration covers it; and the
whole of what a judge found about a run can be read in one place."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import Tip
from scoring.model_size import source_name
from scoring.models import Judgement
from tests.calibrations import make_calibration
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from memory.models import Retrieval, Run

pytestmark = pytest.mark.django_db

JUDGE, PROMPT = "judge-70b", "a" * 64
HOSTILE = "Enable \x1b[31mauditd"
CLAIM = {
    "claim": "auditd is enabled", "finding": "done", "quote": "systemctl enable auditd",
    "why": "the command does it", "start": 0, "end": 23, "match": "match",
}  # fmt: skip


def printed(*argv: Any) -> str:
    out = io.StringIO()
    call_command(*map(str, argv), stdout=out)
    return out.getvalue()


def said(text: str) -> str:
    """As one line: the terminal's width is nobody's concern."""
    return " ".join(text.split())


def judged_row(run: Run, label: str = "followed", **fields: Any) -> Retrieval:
    known = Tip.objects.filter(external_id=f"tip-{label}").first()
    tip = known or make_tip(external_id=f"tip-{label}", text=HOSTILE)
    row = make_retrieval(
        attempt=make_attempt(run=run, rule_id=f"rule-{label}", outcome=0.0), tip=tip,
        llm=label == "followed", llm_label=label, llm_source=source_name(JUDGE, PROMPT), emb=0.1,
    )  # fmt: skip
    values = {
        "label": label, "said": label, "followed": label == "followed", "evidence": [CLAIM],
        "requested_model": JUDGE, "prompt_sha256": PROMPT, "reasoning": HOSTILE,
    }  # fmt: skip
    Judgement.objects.create(retrieval=row, **(values | fields))
    return row


@pytest.mark.parametrize("command", ["diff", "doubt"])
def test_a_judge_without_a_calibration_is_marked_beside_its_verdict(command: str) -> None:
    runs = [make_run(external_id=name) for name in ("a", "b")]
    for run in runs:
        judged_row(run)
    argv = {
        "diff": ("diff_runs", runs[0].pk, runs[1].pk, "--rule", "rule-followed"),
        "doubt": ("rows_in_doubt", "--latest"),
    }[command]
    assert "followed (uncalibrated)" in said(printed(*argv))
    as_json = printed(*argv, "--json")
    assert source_name(JUDGE, PROMPT) in as_json
    assert 'uncalibrated": true' in as_json
    make_calibration(JUDGE, PROMPT)
    assert "uncalibrated" not in printed(*argv)
    assert 'uncalibrated": true' not in printed(*argv, "--json")


def test_the_judgements_of_a_run_are_shown_whole_when_asked_for() -> None:
    run = make_run()
    weak = judged_row(run, "not_followed").judgements.get()
    Judgement.objects.create(
        retrieval=weak.retrieval, label="followed", said="followed", followed=True, supersedes=weak,
        requested_model="big-405b", prompt_sha256=PROMPT, tier="high_stakes", evidence=[CLAIM],
        stakes=["against_trace", "unclear"], redactions={"script": {"password": 1}},
        cross_skill=True,
    )  # fmt: skip
    assert "auditd is enabled" not in printed("show_run", run.pk)
    text = printed("show_run", run.pk, "--with", "judgements")
    assert "\x1b" not in text
    text = said(text)
    assert f"tip-not_followed: not followed, by {JUDGE} (default); uncalibrated; superseded" in text
    assert (
        "followed, by big-405b (high_stakes); uncalibrated; a tip of another skill; secrets were "
        "taken out; asked because: against trace, unclear"
    ) in text
    assert (
        "- auditd is enabled: done “systemctl enable auditd” (match); the command does it" in text
    )
    (one, two) = json.loads(printed("show_run", run.pk, "--json"))["sections"]["judgements"][
        "judgements"
    ]
    assert (one["superseded"], two["superseded"]) == (True, False)
    assert one["evidence"] == [CLAIM]
    assert two["stakes"] == ["against_trace", "unclear"]


def test_a_failed_judgement_says_why() -> None:
    run = make_run()
    Judgement.objects.create(
        retrieval=make_retrieval(attempt=make_attempt(run=run)), reason="judge_error",
        error="JudgeTimeout: 30 s", requested_model=JUDGE, prompt_sha256=PROMPT,
    )  # fmt: skip
    text = said(printed("show_run", run.pk, "--with", "judgements"))
    assert "judge error, by judge-70b (default)" in text
    assert "JudgeTimeout: 30 s" in text
    assert "uncalibrated" not in text, "it said nothing that could be trusted or not"


def test_many_judgements_cost_no_more_queries_than_one() -> None:
    counts = []
    for number, rows in enumerate((1, 6)):
        run = make_run(external_id=f"run-{number}")
        for _ in range(rows):
            row = make_retrieval(attempt=make_attempt(run=run))
            Judgement.objects.create(
                retrieval=row, label="followed", said="followed", followed=True,
                requested_model=JUDGE, prompt_sha256=PROMPT,
            )  # fmt: skip
        with CaptureQueriesContext(connection) as queries:
            printed("show_run", run.pk, "--with", "judgements")
        counts.append(len(queries))
    assert counts[0] == counts[1]
