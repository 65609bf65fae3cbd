"""What a pass says that was not said before, and the document it is told in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from contextgraph import pipeline
from contextgraph.dream_bodies import STAGES
from memory import eviction
from memory.dream import Stage, run_pass
from memory.dream_report import markdown
from memory.models import DreamPass, DreamStage, Retrieval, Run
from tests.factories import (
    MOMENT,
    make_attempt,
    make_dream_pass,
    make_retrieval,
    make_run,
    make_tip,
)
from tests.memory.test_markdown import HOSTILE, spans

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _without_a_model(settings: Any) -> None:
    settings.SIGNALS = ["trace"]


def dreamed(run: Run) -> DreamPass:
    Run.objects.filter(pk=run.pk).update(status="finalizing")
    assert pipeline.finish(run.pk)
    return last_pass(run)


def last_pass(run: Run) -> DreamPass:
    found = DreamPass.objects.filter(run=run).order_by("-number").first()
    assert found is not None
    return found


def failing_run(tip: Any, rules: int = 4, **fields: Any) -> Run:
    """*tip* is followed into a failure at each rule."""
    run = make_run(**fields)
    for number in range(rules):
        attempt = make_attempt(run=run, rule_id=f"rule-{number}", outcome=0.0)
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    return run


def test_the_first_pass_of_the_first_run_has_nothing_to_compare_with() -> None:
    report = dreamed(failing_run(make_tip())).report
    assert (report["since_last_pass"], report["since_last_run"]) == (None, None)
    assert report["sweep"]["sweep"] is None


def test_it_says_what_changed_since_the_last_pass_of_the_run() -> None:
    tip = make_tip(external_id="t1")
    run = failing_run(tip)
    dreamed(run)
    Retrieval.objects.filter(run=run).update(outcome_value=1.0)
    assert pipeline.recount(run.pk)
    since = last_pass(run).report["since_last_pass"]
    assert (since["pass"], since["run"]["external_id"]) == (1, run.external_id)
    assert since["flags"] == [
        {"tip": "t1", "tip_id": tip.pk, "before": "misleading", "after": "earned"}
    ]
    assert since["credit"] == [
        {"tip": "t1", "tip_id": tip.pk, "before": 0.0, "after": 1.0, "change": 1.0}
    ]
    assert [category["category"] for category in since["categories"]] == []


def test_it_says_what_changed_since_the_skills_run_before() -> None:
    tip = make_tip(external_id="t1")
    before = failing_run(tip, rules=6)
    dreamed(before)
    dreamed(failing_run(make_tip(skill="other"), skill="other"))
    now = make_run()
    for number in range(6):
        attempt = make_attempt(run=now, rule_id=f"rule-{number}", outcome=1.0)
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    report = dreamed(now).report
    assert report["since_last_pass"] is None
    since = report["since_last_run"]
    assert since["run"]["external_id"] == before.external_id
    assert [flag["after"] for flag in since["flags"]] == ["earned"]
    assert since["categories"] == [{"category": "ssh", "before": -1.0, "after": 1.0, "change": 2.0}]


def test_the_document_tells_all_of_it_and_is_the_same_each_time() -> None:
    tip = make_tip(external_id="t1", text="Append the line to /etc/fstab")
    run = failing_run(tip)
    kept = dreamed(run)
    told = markdown(kept)
    assert f"# Dream pass 1 of run `{run.external_id}`" in told
    assert "## Misleading" in told
    assert "| misleading | 1 |" in told
    assert "`Append the line to /etc/fstab`" in told
    assert "0 of 4 (0%, 0–49)" in told
    assert "No sweep" in told
    kept.refresh_from_db()
    assert markdown(kept) == told
    Retrieval.objects.filter(run=run).update(outcome_value=1.0)
    pipeline.recount(run.pk)
    told = markdown(last_pass(run))
    assert "## Since the last pass of this run" in told
    assert "tip `t1` was misleading, now earned" in told


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_stranger_can_make_markdown(text: str) -> None:
    tip = make_tip(external_id=text, text=text)
    run = make_run(external_id=text)
    for number in range(4):
        attempt = make_attempt(run=run, rule_id=f"rule-{number}", outcome=0.0, category=text)
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    dreamed(run)
    plain = markdown(dreamed_twice_in(text))
    for line in [*markdown(last_pass(run)).splitlines(), *plain.splitlines()]:
        bare = line
        for span in spans(line):
            bare = bare.replace(span, "")
        assert not any(mark in bare for mark in ("[", "](", "<", ">", "http", "www.", "@"))
        if line.startswith("|"):
            assert line.count("|") == bare.count("|"), "a cell ended early"
    headings = [line for line in plain.splitlines() if line.startswith("#")]
    assert all(line.startswith(("# Dream pass", "## ")) for line in headings)
    assert "\x1b" not in plain
    assert "\u202e" not in plain


def dreamed_twice_in(skill: str) -> DreamPass:
    """A pass of a skill with a hostile name, whose tips changed their word."""
    tip = make_tip(external_id=skill, text=skill, skill=skill)
    run = failing_run(tip, skill=skill, external_id=skill)
    dreamed(run)
    Retrieval.objects.filter(run=run).update(outcome_value=1.0)
    pipeline.recount(run.pk)
    return last_pass(run)


def test_a_pass_of_an_older_version_can_still_be_compared_and_told() -> None:
    tip = make_tip()
    run = failing_run(tip)
    kept = dreamed(run)
    old = kept.summary | {"version": 1}
    for entry in old["tips"]:
        del entry["flag"], entry["visits"]
    DreamPass.objects.filter(pk=kept.pk).update(summary=old, report={})
    assert "Dream pass 1" in markdown(last_pass(run))
    assert pipeline.recount(run.pk)
    assert last_pass(run).number == 2
    assert last_pass(run).report["since_last_pass"]["flags"] == []


def test_a_sweep_that_failed_is_told() -> None:
    kept = dreamed(failing_run(make_tip()))
    kept.report |= {"sweep": None, "sweep_error": "ValueError: `bad` | row"}
    assert "Not done: `` ValueError" not in markdown(kept)
    assert "ValueError: `bad` | row" in markdown(kept)
    kept.report |= {"sweep": {"sweep": 7, "retired": 2, "caught": 3, "active": 40, "note": ""}}
    assert "Sweep 7 retired 2 tips of 3" in markdown(kept)
    assert markdown(make_dream_pass(summary=kept.summary)).count("## Eviction") == 1


def test_a_sweep_that_was_made_at_a_second_try_is_told_by_the_kept_report() -> None:
    tip = make_tip(created_at=MOMENT - timedelta(days=30))
    run = failing_run(tip, rules=12, status="finalizing")
    # killed when all but the eviction was done; the reaper then finishes the same pass
    run_pass(run.pk, stages={**STAGES, Stage.EVICT: lambda _run: 1 / 0})
    before = last_pass(run)
    assert (before.report["sweep"], tip.changes.count()) == (None, 0)
    assert "ZeroDivisionError" in before.report["sweep_error"]
    assert pipeline.finish(run.pk)
    assert tip.changes.count() == 1
    assert pipeline.recount(run.pk, force=True)
    after = last_pass(run)
    assert (after.pk, after.summary) == (before.pk, before.summary)
    assert (after.report["sweep"]["retired"], after.report["sweep_error"]) == (1, "")
    rest = before.report.keys() - {"sweep", "sweep_error"}
    assert {key: after.report[key] for key in rest} == {key: before.report[key] for key in rest}
    assert "retired 1 tips" in markdown(after)
    # from then on it stays, whatever becomes of the sweep
    eviction.undo(after.report["sweep"]["sweep"], by="ann")
    assert pipeline.recount(run.pk, force=True)
    assert last_pass(run).report == after.report


def test_a_sweep_that_a_run_missed_is_not_made_once_it_was_final(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tip = make_tip(created_at=MOMENT - timedelta(days=30))
    run = failing_run(tip, rules=12)
    with monkeypatch.context() as patch:
        patch.setitem(STAGES, Stage.EVICT, lambda _run: 1 / 0)
        before = dreamed(run)
    assert pipeline.recount(run.pk, force=True)
    assert last_pass(run).report == before.report
    assert "ZeroDivisionError" in markdown(last_pass(run))
    told = DreamStage.objects.get(run=run, stage="evict").detail
    assert (told["sweep"], told["note"]) == (None, eviction.FINAL_BEFORE)
    assert tip.changes.count() == 0
