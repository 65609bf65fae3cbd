"""Scoring again: what is cleared, what stays, and what is refused."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from contextgraph import pipeline
from memory.models import Retrieval, Run
from scoring import model_size
from scoring.embed_step import ENCODER_SHA256
from scoring.models import Judgement, Signal
from scoring.rescoring import Chosen, sources
from scoring.trace import TRACE_VERSION
from tests.contextgraph.test_pipeline import sweep_until_done, use_judge
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip
from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _judge_named(broker: str, settings: Any) -> None:
    """Every signal is enabled; nothing is computed here."""
    settings.JUDGE_BASE_URL, settings.JUDGE_MODEL = "http://127.0.0.1:1/v1", "m"


def final_run(**fields: Any) -> Run:
    return make_run(status="done", **fields)


def row_of(run: Run, **fields: Any) -> Retrieval:
    return make_retrieval(attempt=make_attempt(run=run), **fields)


def answered(run: Run) -> Retrieval:
    return row_of(run, llm=True, emb=0.7, trace="followed", review=False)


def failed(run: Run) -> Retrieval:
    return row_of(
        run,
        llm_reason="judge_error",
        llm_tries=4,
        emb_reason="embedding_error",
        trace_reason="trace_error",
        tip_followed_computed_at=MOMENT,
    )


def labels(row: Retrieval) -> tuple[object, ...]:
    row.refresh_from_db()
    return row.tip_followed_llm, row.tip_followed_emb, row.tip_followed_trace


def reasons(row: Retrieval) -> tuple[str, ...]:
    row.refresh_from_db()
    return row.llm_reason, row.emb_reason, row.trace_reason


ALL = pipeline.MACHINE_SIGNALS


def test_every_row_that_can_have_a_signal_gets_it_again() -> None:
    run = final_run()
    good, bad = answered(run), failed(run)
    abstained = row_of(run, llm=False, emb=0.1, trace="abstained")
    unshown = row_of(run, shown=False)
    Judgement.objects.create(
        retrieval=good, followed=True, requested_model="m", prompt_sha256="0" * 64
    )
    assert pipeline.rescore(run.pk, ALL) == 9
    run.refresh_from_db()
    assert (run.status, run.scoring_round) == ("scoring", 1)
    for row in (good, bad, abstained):
        assert labels(row) == (None, None, None)
        assert reasons(row) == ("", "", "")
        assert (row.llm_tries, row.tip_followed_computed_at) == (0, None)
    assert reasons(unshown) == ("not_shown",) * 3
    assert good.tip_followed_review is False
    assert good.judgements.count() == 1
    spans = run.score_batches.filter(signal="trace").values_list("first_id", "last_id")
    assert list(spans) == [(good.pk, abstained.pk)]


def test_failed_only_leaves_answers_alone() -> None:
    run = final_run()
    good, bad = answered(run), failed(run)
    abstained = row_of(run, llm=False, emb=0.1, trace="abstained")
    assert pipeline.rescore(run.pk, ALL, chosen=Chosen(only_failed=True)) == 3
    assert labels(good) == (True, 0.7, 1.0)
    assert good.tip_followed_computed_at == MOMENT
    assert reasons(abstained) == ("", "", "trace_abstained")
    assert (reasons(bad), bad.llm_tries) == (("", "", ""), 0)


def test_only_the_signals_that_are_named_are_touched() -> None:
    run = final_run()
    good = answered(run)
    assert pipeline.rescore(run.pk, (Signal.JUDGE,)) == 1
    assert labels(good) == (None, 0.7, 1.0)
    assert good.tip_followed_computed_at == MOMENT
    assert set(run.score_batches.values_list("signal", flat=True)) == {"judge"}


def test_a_run_with_nothing_to_do_stays_final() -> None:
    run = final_run()
    answered(run)
    assert pipeline.rescore(run.pk, ALL, chosen=Chosen(only_failed=True)) == 0
    run.refresh_from_db()
    assert (run.status, run.scoring_round) == ("done", 0)


def test_a_superseded_revision_is_not_judged_again() -> None:
    run = final_run(superseded_at=MOMENT)
    row = answered(run)
    assert pipeline.rescore(run.pk, (Signal.JUDGE,)) == 0
    assert labels(row) == (True, 0.7, 1.0)
    assert pipeline.rescore(run.pk, (Signal.JUDGE, Signal.TRACE)) == 1


def test_an_open_run_and_a_signal_that_is_off_are_refused_and_nothing_is_cleared(
    settings: Any,
) -> None:
    run, waiting = final_run(), make_run()
    rows = [answered(run), answered(waiting)]
    with pytest.raises(pipeline.RescoreRefused, match="not final"):
        pipeline.rescore(waiting.pk, ALL)
    settings.JUDGE_BASE_URL = ""
    with pytest.raises(pipeline.RescoreRefused, match="judge"):
        pipeline.rescore(run.pk, ALL)
    assert [labels(row) for row in rows] == [(True, 0.7, 1.0)] * 2


def call(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("rescore", *arguments, "--json", stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_the_command_takes_the_final_runs_of_a_skill() -> None:
    runs = [final_run(), final_run(), final_run(skill="cve"), make_run()]
    for run in runs:
        failed(run)
    found = call("--all", "--skill", "stig", "--failed-only", "--signal", "judge,trace")
    assert [(one["id"], one["answers"]) for one in found["runs"]] == [
        (run.pk, 2) for run in runs[:2]
    ]
    states = list(Run.objects.order_by("pk").values_list("status", flat=True))
    assert states == ["scoring", "scoring", "done", "ingested"]


def test_a_dry_run_counts_and_changes_nothing() -> None:
    run = final_run()
    row = answered(run)
    assert call(run.external_id, "--dry-run")["runs"][0]["answers"] == 3
    run.refresh_from_db()
    assert (run.status, run.scoring_round) == ("done", 0)
    assert labels(row) == (True, 0.7, 1.0)


def test_a_refused_run_is_named_stops_no_other_and_is_an_error() -> None:
    waiting, run = make_run(external_id="w"), final_run(external_id="f")
    for one in (waiting, run):
        failed(one)
    out = StringIO()
    with pytest.raises(CommandError, match="1 of 2 runs were refused"):
        call_command("rescore", "w", "f", stdout=out)
    assert "stig/w: refused: run" in out.getvalue()
    assert "1 of 2 runs went to scoring again for trace, embed, judge: 3 answers" in out.getvalue()
    run.refresh_from_db()
    assert run.status == "scoring"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name runs"),
        (["known", "--all"], "name runs"),
        (["known", "unknown"], "no run has"),
        (["known", "--signal", "judgement"], "no signal judgement"),
    ],
)
def test_a_command_that_makes_no_sense_changes_nothing(arguments: list[str], message: str) -> None:
    run = final_run(external_id="known")
    failed(run)
    with pytest.raises(CommandError, match=message):
        call(*arguments)
    run.refresh_from_db()
    assert run.status == "done"


def test_the_command_names_a_signal_that_is_off(settings: Any) -> None:
    settings.JUDGE_BASE_URL = ""
    run = final_run()
    failed(run)
    with pytest.raises(CommandError, match="JUDGE_BASE_URL"):
        call(run.external_id, "--signal", "judge")
    assert call(run.external_id)["signals"] == ["trace", "embed"]


def test_a_text_that_a_later_run_brought_makes_a_row_computable() -> None:
    run = final_run()
    row = row_of(run, trace_reason="tip_text_unknown", shown_sha256="")
    assert pipeline.rescore(run.pk, (Signal.TRACE,), dry_run=True) == 0
    Retrieval.objects.filter(pk=row.pk).update(shown_sha256="0" * 64)
    assert pipeline.rescore(run.pk, (Signal.TRACE,), dry_run=True) == 1


# --- Chosen rows ----------------------------------------------------------------------------------


def fresh(run: Run, **fields: Any) -> Retrieval:
    """A row that was answered by what is in use here."""
    [judge] = sources(run.skill, Signal.JUDGE)
    now = {
        "llm_source": judge,
        "emb_source": ENCODER_SHA256[:16],
        "tip_followed_trace_version": TRACE_VERSION,
    }
    return row_of(run, llm=True, emb=0.7, trace="followed", **(now | fields))


def test_an_answer_of_what_is_in_use_is_not_stale() -> None:
    run = final_run()
    fresh(run)
    failed(run)
    row_of(run, shown=False)
    assert pipeline.rescore(run.pk, ALL, chosen=Chosen(stale=True)) == 0


@pytest.mark.parametrize(
    ("signal", "column", "value"),
    [
        (Signal.JUDGE, "llm_source", "another-judge@0"),
        (Signal.EMBED, "emb_source", "another-encoder"),
        (Signal.TRACE, "tip_followed_trace_version", "0"),
    ],
)
def test_an_answer_of_another_source_is_stale(signal: Signal, column: str, value: str) -> None:
    run = final_run()
    kept, old = fresh(run), fresh(run, **{column: value})
    found = call("--stale", "--dry-run")["runs"][0]
    assert found["answers"] == 1
    assert found["why"][signal] == {f"answered by {value}": 1}
    assert pipeline.rescore(run.pk, ALL, chosen=Chosen(stale=True)) == 1
    assert labels(kept) == (True, 0.7, 1.0)
    assert labels(old).count(None) == 1
    assert list(run.score_batches.values_list("signal", flat=True)) == [signal]


def test_an_abstention_is_stale_as_any_answer_is() -> None:
    run = final_run()
    unclear = {"tip_followed_llm": None, "llm_label": "unclear", "llm_reason": "unclear"}
    abstained = {"tip_followed_trace": None, "trace_reason": "trace_abstained"}
    old = fresh(
        run,
        llm_source="another-judge@0",
        tip_followed_trace_version="0",
        tip_followed_trace_verdict="abstained",
        **unclear,
        **abstained,
    )
    assert pipeline.rescore(run.pk, ALL, chosen=Chosen(stale=True)) == 2
    assert reasons(old) == ("", "", "")


def test_the_stronger_judge_of_the_settings_is_in_use_too(settings: Any) -> None:
    settings.JUDGE_HIGH_STAKES_BASE_URL = settings.JUDGE_BASE_URL
    settings.JUDGE_HIGH_STAKES_MODEL = "strong"
    run = final_run()
    every_day, strong = sources("stig", Signal.JUDGE)
    row_of(run, llm=True, llm_source=strong)
    row_of(run, llm=True, llm_source=every_day)
    assert pipeline.rescore(run.pk, (Signal.JUDGE,), chosen=Chosen(stale=True)) == 0
    settings.JUDGE_HIGH_STAKES_MODEL = "stronger"
    assert pipeline.rescore(run.pk, (Signal.JUDGE,), chosen=Chosen(stale=True)) == 1


def test_the_name_of_a_judge_is_cut_as_it_is_on_the_rows(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(model_size, "NAME_AT_MOST", 3)
    settings.JUDGE_MODEL = "judge-with-a-name"
    [name] = sources("stig", Signal.JUDGE)
    assert name.startswith("jud@")


def test_a_new_prompt_makes_the_judgements_of_its_skill_stale(settings: Any, tmp_path: Any) -> None:
    runs = [final_run(), final_run(skill="cve")]
    for run in runs:
        fresh(run)
    shutil.copytree(settings.PROMPTS_DIR, tmp_path / "prompts")
    settings.PROMPTS_DIR = tmp_path / "prompts"
    prompt = tmp_path / "prompts" / "stig" / "tip_follow_judge.md"
    prompt.write_text(prompt.read_text() + "\n", encoding="utf-8")
    found = call("--stale", "--dry-run")["runs"]
    assert [one["answers"] for one in found] == [1, 0]
    prompt.write_text("no prompt", encoding="utf-8")
    settings.PROMPTS_DIR = tmp_path / "prompts" / ".." / "prompts"
    with pytest.raises(CommandError, match="1 of 2 runs were refused"):
        call("--stale")
    assert not Run.objects.filter(status="scoring").exists()


def test_rule_tip_and_time_choose_rows() -> None:
    run = final_run()
    tip = make_tip(external_id="t/1")
    rows = [
        answered(run),
        row_of(run, llm=True, tip=tip),
        row_of(run, llm=True, retrieved_at=run.started_at - timedelta(days=2)),
    ]
    judge = ("--signal", "judge", "--dry-run")
    assert call(*judge, "--rule", rows[0].rule_id)["runs"][0]["answers"] == 1
    assert call(*judge, "--tip", "stig/t/1")["runs"][0]["answers"] == 1
    assert call(*judge, "--tip", str(tip.pk), "--rule", "other")["runs"][0]["answers"] == 0
    day_before = (run.started_at - timedelta(days=1)).isoformat()
    assert call(*judge, "--since", day_before)["runs"][0]["answers"] == 2
    assert call(*judge, "--since", "2999-01-01")["runs"][0]["answers"] == 0
    assert (
        call(run.external_id, "--signal", "judge", "--tip", "stig/t/1")["runs"][0]["answers"] == 1
    )
    assert [labels(row)[0] for row in rows] == [True, None, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tip", "stig/unknown"], "no tip"),
        (["--since", "yesterday"], "is no time such as"),
        (["--stale", "--failed-only"], "not allowed with"),
        (["--rule", "a\x00b"], "no stored rule"),
    ],
)
def test_a_choice_that_makes_no_sense_is_an_error(arguments: list[str], message: str) -> None:
    run = final_run()
    row = answered(run)
    with pytest.raises(CommandError, match=message):
        call(*arguments)
    assert labels(row) == (True, 0.7, 1.0)


def test_the_table_says_who_had_answered_and_cannot_be_steered() -> None:
    run = final_run(external_id="r\x1b[2J")
    answered(run)
    Retrieval.objects.update(llm_source="judge\x1b[2J@0")
    failed(run)
    out = StringIO()
    call_command("rescore", "--all", "--dry-run", stdout=out)
    said = out.getvalue()
    assert "\x1b" not in said
    assert "answered by judge\\x1b[2J@0" in said
    assert "unanswered: judge_error" in said
    assert "1 of 1 runs would go to scoring again for trace, embed, judge: 6 answers" in said


def test_what_a_scoring_changed_can_be_asked_afterwards(settings: Any) -> None:
    settings.SIGNALS = ["judge"]
    with JudgeServer() as server:
        use_judge(settings, server)
        run = make_run()
        script = "echo 'Banner /etc/issue.net' > /etc/ssh/sshd_config.d/10-banner.conf\n"
        attempt = make_attempt(run=run, script=script)
        for rank in (1, 2):
            make_retrieval(attempt=attempt, tip=make_tip(text=f"Set banner {rank}"), rank=rank)
        sweep_until_done(run)
        first = {row.pk: row.llm_label for row in run.retrievals.all()}
        assert call(run.external_id, "--changes")["runs"][0]["compared"] == 0
        call(run.external_id)
        sweep_until_done(run)
    again = call(run.external_id, "--changes")["runs"][0]
    assert (again["compared"], again["changed"]) == (2, 0)
    row = run.retrievals.order_by("pk").first()
    assert row is not None
    other = Judgement.objects.create(
        retrieval=row, label="contradicted", followed=False, requested_model="m",
        prompt_sha256="0" * 64,
    )  # fmt: skip
    out = StringIO()
    call_command("rescore", run.external_id, "--changes", stdout=out)
    assert "2 rows were judged more than once, 1 of them have another label now" in out.getvalue()
    Judgement.objects.create(
        retrieval=row, label=first[row.pk], followed=None if first[row.pk] not in _YES_NO else
        first[row.pk] == "followed", reason="" if first[row.pk] in _YES_NO else first[row.pk],
        requested_model="strong", prompt_sha256="0" * 64, supersedes=other,
    )  # fmt: skip
    assert call(run.external_id, "--changes")["runs"][0]["changed"] == 0


_YES_NO = ("followed", "not_followed", "contradicted")
