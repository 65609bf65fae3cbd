"""``show_run``: the run that was named or an error, in words without colour, safe on a terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests.factories import make_attempt, make_retrieval, make_run, make_tip

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.django_db


def show_run(*args: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("show_run", *args, stdout=out)
    return out.getvalue()


def test_a_run_is_found_by_external_id_or_primary_key() -> None:
    run = make_run(external_id="2026-run")
    assert json.loads(show_run("2026-run", "--json"))["run"]["id"] == run.pk
    assert json.loads(show_run(str(run.pk), "--json"))["run"]["external_id"] == "2026-run"


def test_an_unknown_run_is_an_error_that_names_the_key() -> None:
    make_run()
    with pytest.raises(CommandError, match="'nobody'") as caught:
        show_run("nobody")
    assert caught.value.returncode == 1
    with pytest.raises(CommandError, match="of skill 'cve'"):
        show_run("nobody", "--skill", "cve")


@pytest.mark.parametrize("key", ["run-\udcff", "\ud800", "run\0", "7\udc80"])
def test_a_name_that_no_row_can_hold_is_an_unknown_run(key: str) -> None:
    for args in ((key,), ("run-x", "--skill", key)):
        with pytest.raises(CommandError, match="has the external id or primary key"):
            show_run(*args)


def test_an_external_id_of_two_skills_needs_the_skill() -> None:
    for skill in ("stig", "cve"):
        make_run(external_id="same", skill=skill)
    with pytest.raises(CommandError, match="--skill"):
        show_run("same")
    assert json.loads(show_run("same", "--skill", "cve", "--json"))["run"]["skill"] == "cve"


def test_the_text_says_each_signal_in_words_and_who_decided() -> None:
    run = make_run(external_id="run-x", hazards={"script_cut": 2})
    attempt = make_attempt(run=run, rule_id="rule_a", outcome=0.0, failure_mode="evaluator_gap")
    make_retrieval(attempt=attempt, tip=make_tip(external_id="t1"), llm=True, emb=0.31, rank=1)
    make_retrieval(attempt=attempt, tip=make_tip(external_id="t2"), shown=False, rank=2)
    make_attempt(run=run, rule_id="rule_b", outcome=None, script=None)
    text = show_run("run-x")
    assert "\x1b" not in text
    lines = text.splitlines()
    assert "hazards of the log: script_cut 2" in lines
    assert "rule_a #1: outcome +0.00 at confidence 1.00, evaluator_gap" in lines
    (t1,) = [line.split() for line in lines if " t1 " in line]
    assert t1 == [
        "1",
        "t1",
        "followed",
        "ignored",
        "0.31",
        "–",
        "–",
        "followed",
        "(llm)",
        "misleading",
    ]
    (t2,) = [line for line in lines if "t2 (not shown)" in line]
    assert t2.endswith("not_shown")
    assert "rule_b #1: no outcome (no_outcome)" in lines
    assert "  no script" in lines
    assert "  no tip was retrieved" in lines


def test_the_text_says_the_label_of_the_judge_and_not_only_its_yes_or_no() -> None:
    labels = {
        "followed": True, "contradicted": False, "not_followed": False, "not_applicable": None,
        "unclear": None,
    }  # fmt: skip
    attempt = make_attempt(run=make_run(external_id="run-x"), outcome=0.0)
    for rank, (label, followed) in enumerate(labels.items(), start=1):
        tip = make_tip(external_id=f"t{rank}")
        make_retrieval(attempt=attempt, tip=tip, rank=rank, llm=followed, llm_label=label, emb=0.9)
    text = show_run("run-x")
    rows = [line.split("followed 0.90")[0].split() for line in text.splitlines() if " t" in line]
    assert [row[2:] for row in rows if row[0].isdigit()] == [label.split("_") for label in labels]


def test_hostile_text_cannot_steer_the_terminal() -> None:
    hostile = "t\x1b]0;owned\x07\u202e[red]"
    run = make_run(external_id="run-x", model="m\x1b[2J")
    attempt = make_attempt(
        run=run, rule_id="rule\r\x9b1A", outcome=None, evaluator_error="\x1b[1m\n"
    )
    make_retrieval(
        attempt=attempt,
        tip=make_tip(external_id=hostile),
        trace="violated",
        tip_followed_trace_evidence=[{"text": "writes \x1b[31m/etc/x", "line": 1}],
    )
    for text in (show_run("run-x"), show_run("run-x", "--json")):
        assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(text)
    assert json.loads(show_run("run-x", "--json"))["attempts"][0]["retrievals"][0]["tip"] == hostile
    assert "\\x1b[31m/etc/x (line 1)" in show_run("run-x")


@pytest.mark.django_db(transaction=True)
def test_the_process_exits_with_1_and_names_the_key_on_stderr() -> None:
    tested = urlsplit(os.environ["DATABASE_URL"])._replace(
        path=f"/{connection.settings_dict['NAME']}"
    )
    environ = os.environ | {"DATABASE_URL": tested.geturl()}
    done = subprocess.run(
        [sys.executable, "manage.py", "show_run", b"no-such-run-\xff"],
        cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no-such-run-\\udcff" in done.stderr
    assert "Traceback" not in done.stderr
