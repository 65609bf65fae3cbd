"""``manage.py dream``: the run that was named or an error; what was stored, or what was computed."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from contextgraph.dream_bodies import STAGES
from memory.dream import Stage
from memory.models import DreamPass, DreamStage, Retrieval, Run
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _without_a_model(settings: Any) -> None:
    settings.SIGNALS = ["trace"]


def scored_run(status: str = "finalizing", **fields: Any) -> Run:
    run = make_run(status=status, **fields)
    tip = make_tip(skill=run.skill, external_id=f"tip of {run.external_id}\x1b[2J")
    for number in range(4):
        attempt = make_attempt(run=run, rule_id=f"rule-{number}", outcome=0.0)
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    return run


def dream(*argv: str) -> str:
    out = StringIO()
    call_command("dream", *argv, stdout=out)
    return out.getvalue()


def dream_json(*argv: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dream(*argv, "--json"))
    return found


def test_a_pass_that_was_interrupted_is_finished() -> None:
    run = scored_run()
    told = dream_json(run.external_id)
    assert told["computed"]
    assert [stage["state"] for stage in told["stages"]] == ["done"] * 4
    assert told["pass"]["summary"]["tips"][0]["flag"] == "misleading"
    run.refresh_from_db()
    assert run.status == "done"


def test_without_force_the_stored_report_is_printed_and_nothing_is_computed() -> None:
    run = scored_run()
    first = dream_json(run.external_id)
    Retrieval.objects.filter(run=run).update(outcome_value=1.0)
    second = dream_json(run.external_id)
    assert (second["computed"], second["identical"]) == (False, None)
    assert second["pass"] == first["pass"]
    assert "This is the stored pass 1; --force computes it again." in dream(run.external_id)


def test_force_computes_again_and_says_whether_it_is_the_same() -> None:
    run = scored_run()
    first = dream_json(run.external_id)
    again = dream_json(run.external_id, "--force")
    assert (again["computed"], again["identical"]) == (True, True)
    assert again["pass"] == first["pass"]
    assert "byte-identical to pass 1" in dream(run.external_id, "--force")
    Retrieval.objects.filter(run=run).update(outcome_value=1.0)
    changed = dream_json(run.external_id, "--force")
    assert (changed["identical"], changed["pass"]["number"]) == (False, 4)
    assert changed["pass"]["sha256"] != first["pass"]["sha256"]


def test_a_dry_run_computes_and_keeps_nothing() -> None:
    run = scored_run()
    dream(run.external_id)
    Retrieval.objects.filter(run=run).update(outcome_value=1.0)
    tables = (DreamPass, DreamStage, Run)
    before = [list(model.objects.order_by("pk").values()) for model in tables]
    told = dream_json(run.external_id, "--force", "--dry-run")
    assert (told["identical"], told["pass"]["number"]) == (False, 2)
    assert [list(model.objects.order_by("pk").values()) for model in tables] == before
    assert "Nothing was kept" in dream(run.external_id, "--force", "--dry-run")


def test_a_final_run_without_a_pass_gets_one() -> None:
    run = scored_run(status="done")
    assert dream_json(str(run.pk))["pass"]["number"] == 1


def test_an_unknown_or_empty_run_is_an_error_and_never_another_run() -> None:
    other = scored_run()
    dream(other.external_id)
    with pytest.raises(CommandError, match="nobody"):
        dream("nobody")
    with pytest.raises(CommandError, match="has no attempt"):
        dream(make_run(status="done", external_id="empty").external_id, "--force")
    ignored = make_run(status="done")
    make_attempt(run=ignored)
    with pytest.raises(CommandError, match="has no retrieval"):
        dream(ignored.external_id)
    assert DreamPass.objects.count() == 1


def test_two_skills_with_one_id_must_be_told_apart() -> None:
    for skill in ("stig", "cve"):
        scored_run(skill=skill, external_id="same")
    with pytest.raises(CommandError, match="--skill"):
        dream("same")
    assert dream_json("same", "--skill", "cve")["run"]["skill"] == "cve"


@pytest.mark.parametrize(
    ("status", "mend"),
    [("recording", "agent"), ("ingested", "reap_runs"), ("scoring", "reap_runs")],
)
def test_a_run_that_is_not_scored_yet_is_refused(status: str, mend: str) -> None:
    run = scored_run(status=status)
    with pytest.raises(CommandError, match=f"is {status}.*{mend}"):
        dream(run.external_id, "--force")
    assert not DreamStage.objects.exists()


@pytest.mark.parametrize(("stage", "status"), [("credit", "finalizing"), ("evict", "done")])
def test_a_stage_that_fails_is_named_and_the_exit_is_an_error(
    stage: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scored_run()

    def boom(_run: Run) -> dict[str, Any]:
        raise ValueError("a bad row")

    monkeypatch.setitem(STAGES, Stage(stage), boom)
    with pytest.raises(CommandError, match=f"stage {stage}.*a bad row"):
        dream(run.external_id)
    run.refresh_from_db()
    assert run.status == status


def test_the_terminal_and_the_document_name_the_tip_and_cannot_be_steered() -> None:
    run = scored_run()
    shown, document = dream(run.external_id), dream(run.external_id, "--markdown")
    for text in (shown, document):
        assert f"tip of {run.external_id}\\x1b[2J" in text
        assert "\x1b" not in text
        assert "\\n" not in text
    assert "misleading" in shown
    assert document.startswith("# Dream pass 1 of run")
    with pytest.raises(CommandError):
        dream(run.external_id, "--markdown", "--json")


def test_show_run_says_how_far_the_pass_has_come() -> None:
    run, out = scored_run(), StringIO()
    call_command("show_run", run.external_id, stdout=out)
    assert "dream pass: none was begun" in out.getvalue()
    dream(run.external_id)
    call_command("show_run", run.external_id, stdout=out)
    assert "dream pass 1: evict done in" in out.getvalue()
    assert "last recount kept: pass 1 under adr0019" in out.getvalue()
    out = StringIO()
    call_command("show_run", run.external_id, "--json", stdout=out)
    section = json.loads(out.getvalue())["sections"]["dream"]
    assert [stage["state"] for stage in section["stages"]] == ["done"] * 4
