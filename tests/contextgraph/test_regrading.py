"""Re-grading: the same input under another ladder, all that hangs on it, a trail, and the way back."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from contextgraph import pipeline, regrading
from contextgraph.envelope import Record
from contextgraph.ingest import LogFacts, ingest_document, ingest_records
from contextgraph.outcome_changes import evaluation_of
from contextgraph.regrading import RegradeRefused, regrade, undo
from contextgraph.run_rows import RunWriter
from contextgraph.skills import load_skill
from memory import evidence
from memory.models import (
    Attempt,
    DreamPass,
    OutcomeRevision,
    Retrieval,
    Run,
    RunEvidence,
    Tip,
    TipEvidence,
)
from memory.querysets import UnknownRun
from scoring.models import Signal
from scoring.outcomes import Evaluation, grade
from tests.contextgraph.ladders import NAIVE, edited, use_ladder
from tests.contextgraph.run_documents import attempt, correction, retrieval, run, sha256, tip
from tests.contextgraph.test_pipeline import use_judge
from tests.factories import MOMENT, make_run
from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db(transaction=True)

EXAMPLES = Path(regrading.__file__).parent / "examples"
TIP = "Write the line: echo 'option on' to /etc/app.conf"
SCRIPT = "echo 'option on' > /etc/app.conf\n"


@pytest.fixture(autouse=True)
def _without_a_model(broker: str, settings: Any) -> None:
    settings.SIGNALS = ["trace", "judge"]


def stored(*records: Record, external_id: str = "night-1") -> Run:
    """A run that went the whole way."""
    body = run(*records, external_id=external_id)
    [result] = ingest_records(lambda: body, log=LogFacts())
    return finished(result.run_id)


def finished(run_id: int) -> Run:
    for _ in range(6):
        pipeline.reap(inline=True, impatient=True)
        if (found := Run.objects.get(pk=run_id)).status == "done":
            return found
    pytest.fail(f"still {found.status}")


def broken_app(rule_id: str = "sshd_banner", **fields: Any) -> Record:
    """The application died, and upstream's evaluator read that as healthy."""
    raw = {"health": "UNHEALTHY: app\n- web: down", "health_ok": True, "rule_check": "Result pass"}
    return attempt(rule_id, script=SCRIPT, passed=True, evaluator_raw=raw, **fields)


def failed_password(number: int = 1, **fields: Any) -> Record:
    """The rule failed, and its id holds "pass"."""
    raw = {"health": "HEALTHY: app", "rule_check": "accounts_password_minlen = FAIL"}
    return attempt(
        "accounts_password_minlen",
        number=number,
        script=SCRIPT,
        passed=True,
        evaluator_raw=raw,
        **fields,
    )


def honest(rule_id: str = "sshd_port", **fields: Any) -> Record:
    raw = {"health": "HEALTHY: app", "rule_check": "Result pass"}
    return attempt(rule_id, script=SCRIPT, passed=True, evaluator_raw=raw, **fields)


def upstream_run(external_id: str = "night-1") -> Run:
    return stored(
        tip("t1", TIP),
        broken_app(),
        failed_password(),
        failed_password(2),
        honest(),
        external_id=external_id,
    )


def outcomes() -> dict[str, tuple[float | None, str, str]]:
    rows = Attempt.objects.order_by("rule_id", "number")
    return {
        f"{row.rule_id} #{row.number}": (row.outcome_value, row.failure_mode, row.outcome_grader)
        for row in rows
    }


TABLES = (Run, Attempt, Retrieval, Tip, RunEvidence, TipEvidence, DreamPass, OutcomeRevision)


def everything() -> list[list[dict[str, Any]]]:
    return [list(model._base_manager.order_by("pk").values()) for model in TABLES]


def summary(one: Run) -> dict[str, Any]:
    last = DreamPass.objects.filter(run=one).order_by("-number").first()
    assert last is not None
    found: dict[str, Any] = last.summary
    return found


# --- Upstream's two substring bugs ----------------------------------------------------------------


def test_a_mended_grader_changes_outcomes_and_every_derived_number_and_leaves_a_trail(
    settings: Any, tmp_path: Path
) -> None:
    product = settings.PROMPTS_DIR
    use_ladder(settings, tmp_path, NAIVE)
    one = upstream_run()
    assert {value for value, _, _ in outcomes().values()} == {1.0}
    before = summary(one)
    assert before["tips"][0]["quadrants"]["earned"] == 4
    settings.PROMPTS_DIR = product
    report = regrade(skill="stig", by="ada").as_dict()
    assert outcomes() == {
        "accounts_password_minlen #1": (0.0, "rule_still_failing", "stig@1"),
        "accounts_password_minlen #2": (0.0, "rule_still_failing", "stig@1"),
        "sshd_banner #1": (-0.2, "health_failure", "stig@1"),
        "sshd_port #1": (1.0, "", "stig@1"),
    }
    assert sorted(Retrieval.objects.values_list("outcome_value", flat=True)) == [-0.2, 0.0, 0.0, 1.0]
    after = summary(one)
    assert after["tips"][0]["quadrants"] | {"unknown": 0} == {
        "earned": 1, "misleading": 3, "lucky_neighbour": 0, "bystander": 0, "unknown": 0,
    }  # fmt: skip
    assert after["categories"][0]["rules_remediated"]["hits"] == 1
    assert before["categories"][0]["rules_remediated"]["hits"] == 3
    assert evidence.check() == []
    rule = TipEvidence.objects.get(policy="adr0019", level="rule", key="sshd_banner")
    assert float(rule.credit_total) == pytest.approx(-0.2)
    revisions = OutcomeRevision.objects.order_by("attempt__rule_id", "attempt__number")
    assert [(r.cause, r.by, r.old_value, r.new_value, r.new_failure_mode) for r in revisions] == [
        ("regrade", "ada", 1.0, 0.0, "rule_still_failing"),
        ("regrade", "ada", 1.0, 0.0, "rule_still_failing"),
        ("regrade", "ada", 1.0, -0.2, "health_failure"),
    ]
    assert {(r.old_grader, r.new_grader, r.old_evaluator) for r in revisions} == {
        ("stig@0", "stig@1", None)
    }
    assert (report["attempts"], report["revised"], report["confirmed"]) == (4, 3, 1)
    assert report["categories"] == [
        {
            "category": "app",
            "before": {"mean": 1.0, "n": 4},
            "after": {"mean": 0.2, "n": 4},
            "change": -0.8,
        }
    ]
    assert [(each["value_after"], each["attempts"]) for each in report["changes"]] == [
        (0.0, 2),
        (-0.2, 1),
    ]
    [flip] = report["tips"]
    assert (flip["tip"], flip["flag_before"], flip["flag_after"]) == ("t1", "earned", "untested")
    assert flip["credit_before"] == 1.0


def test_a_dry_run_gives_the_same_report_and_changes_nothing(settings: Any, tmp_path: Path) -> None:
    product = settings.PROMPTS_DIR
    use_ladder(settings, tmp_path, NAIVE)
    for external_id in ("night-1", "night-2"):
        upstream_run(external_id)
    settings.PROMPTS_DIR = product
    before = everything()
    told = regrade(skill="stig", by="ada", dry_run=True).as_dict()
    assert everything() == before
    done = regrade(skill="stig", by="ada").as_dict()
    assert done["revised"] == 6
    assert done["tips"] != []
    same = {"dry_run": None, "batch": None}
    assert told | same == done | same


def test_undo_gives_back_every_number_and_the_next_one_reaches_further(
    settings: Any, tmp_path: Path
) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    one = upstream_run()
    columns = [name for name in Retrieval.objects.values()[0] if name != "llm_retry_at"]
    rows = [list(Retrieval.objects.order_by("pk").values(*columns)), summary(one)]
    sums = list(TipEvidence.objects.order_by("policy", "level", "key").values_list("credit_total"))
    first = outcomes()
    use_ladder(settings, tmp_path, edited())
    regrade(skill="stig", by="ada")
    second = outcomes()
    use_ladder(settings, tmp_path, edited(('"1"', '"2"'), ("-0.2", "-0.7")))
    regrade(skill="stig", by="ada")
    third = outcomes()
    assert third["sshd_banner #1"] == (-0.7, "health_failure", "stig@2")
    report = undo(skill="stig", by="bob")
    assert (report.revised, report.not_done) == (1, [])
    # grades that were only confirmed keep the name of the ladder that confirmed them
    assert {key: value[:2] for key, value in outcomes().items()} == {
        key: value[:2] for key, value in second.items()
    }
    assert undo(skill="stig", by="bob", run="night-1").revised == 3
    assert {key: value[:2] for key, value in outcomes().items()} == {
        key: value[:2] for key, value in first.items()
    }
    assert [list(Retrieval.objects.order_by("pk").values(*columns)), summary(one)] == rows
    assert sums == list(
        TipEvidence.objects.order_by("policy", "level", "key").values_list("credit_total")
    )
    assert evidence.check() == []
    with pytest.raises(RegradeRefused, match="could be taken back"):
        undo(skill="stig", by="bob")
    causes = OutcomeRevision.objects.filter(attempt__rule_id="sshd_banner").order_by("number")
    assert [(r.number, r.cause) for r in causes] == [
        (1, "regrade"), (2, "regrade"), (3, "undo"), (4, "undo"),
    ]  # fmt: skip


def test_undo_leaves_a_run_in_which_something_later_stands(settings: Any, tmp_path: Path) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    for external_id in ("night-1", "night-2"):
        upstream_run(external_id)
    use_ladder(settings, tmp_path, edited())
    regrade(skill="stig", by="ada", run="night-1")
    use_ladder(settings, tmp_path, edited(('"1"', '"2"'), ("-0.2", "-0.7")))
    regrade(skill="stig", by="ada", run="night-2")
    regrade(skill="stig", by="ada", run="night-1")
    report = undo(skill="stig", by="bob")
    assert [(one.external_id, one.revised) for one in report.runs] == [("night-1", 1)]
    report = undo(skill="stig", by="bob")
    assert [(one.external_id, one.revised) for one in report.runs] == [("night-2", 3)]


# --- The same input -------------------------------------------------------------------------------


def example_runs(*, inline: bool) -> list[Run]:
    found = []
    for path in sorted(EXAMPLES.glob("harbor-run-*.jsonl")):
        with path.open("rb") as file:
            [result] = ingest_document(file, name=path.name, log_sha256=sha256(path.read_bytes()))
        found.append(finished(result.run_id) if inline else Run.objects.get(pk=result.run_id))
    return found


def test_the_example_runs_come_out_as_they_are(settings: Any) -> None:
    settings.SIGNALS = ["trace"]
    runs = example_runs(inline=True)
    before = everything()
    report = regrade(skill="stig", by="ada")
    assert everything() == before
    assert {one.state for one in report.runs} == {"unchanged"}
    assert sum(one.attempts for one in report.runs) == Attempt.objects.count() > 70
    out = StringIO()
    call_command("regrade", "--skill", "stig", stdout=out)
    assert "Nothing changed: every grade comes out of stig@1 as it is stored." in out.getvalue()
    assert len(runs) == 2


WORD = st.sampled_from(
    ["", "health_failure", "rule_still_failing", "clean_failure", "evaluator_error", "NEEDS_REBOOT"]
)
RAW = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "health": st.sampled_from(["HEALTHY: a", "UNHEALTHY:", "unreadable", ""]),
        "rule_check": st.sampled_from(["Result pass", "x_password = FAIL", "Result error", "pass"]),
        "summary": st.sampled_from(["eval tool error: ssh", "fine", 3]),
    },
)
GRADE = st.none() | st.sampled_from([-1.0, -0.2, 0.0, 0.3, 1.0])
UNIT = st.none() | st.sampled_from([0.0, 0.5, 1.0])
VERDICTS = st.fixed_dictionaries(
    {
        "passed": st.sampled_from([True, False, None]),
        "failure_mode": WORD,
        "evaluator_raw": RAW,
        "evaluator_error": st.sampled_from(["", "ssh: lost"]),
        "grade_value": GRADE,
        "grade_confidence": UNIT,
        "sender_number": st.none() | st.integers(1, 5),
    }
)
CORRECTIONS = st.none() | st.fixed_dictionaries(
    {
        "passed": st.booleans(),
        "failure_mode": WORD,
        "evaluator_raw": RAW,
        "grade_value": GRADE,
        "grade_confidence": UNIT,
    }
)


@hypothesis_settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    skill=st.sampled_from(["stig", "another skill"]),
    verdicts=st.lists(st.tuples(VERDICTS, CORRECTIONS), min_size=1, max_size=4),
)
def test_the_grader_gets_what_it_got(
    monkeypatch: pytest.MonkeyPatch, skill: str, verdicts: list[tuple[Any, Any]]
) -> None:
    """Whatever was sent, and corrected: the rows give the evaluation that was graded last."""
    given_last: dict[str, Evaluation] = {}
    Retrieval.objects.all().delete()
    Attempt.objects.all().delete()
    Run.objects.all().delete()
    records: list[Record] = []
    for number, (verdict, late) in enumerate(verdicts):
        name = f"rule_{number}"
        records.append(attempt(name, retrievals=(), **verdict))
        values, at = verdict, verdict["sender_number"] or 1
        if late is not None:
            records.append(correction(name, **late))
            raw = late["evaluator_raw"]
            values = late | {
                "evaluator_raw": verdict["evaluator_raw"] if raw is None else raw,
                "evaluator_error": "",
            }
        given_last[name] = Evaluation(
            number=at,
            passed=values["passed"],
            failure_mode=values["failure_mode"],
            raw=values["evaluator_raw"],
            error=values["evaluator_error"],
            sender_value=values["grade_value"],
            sender_confidence=values["grade_confidence"],
        )
    body = run(*records)
    body[0] = body[0].model_copy(update={"skill": skill})
    ingest_records(lambda: body, log=LogFacts())
    Run.objects.update(status="done", done_at=MOMENT)
    found = {row.rule_id: evaluation_of(row) for row in Attempt.objects.all()}
    assert found == given_last
    before = list(Attempt.objects.order_by("pk").values())
    report = regrade(skill=skill, by="ada")
    assert list(Attempt.objects.order_by("pk").values()) == before
    assert (report.revised, report.confirmed) == (0, 0)
    assert not OutcomeRevision.objects.exists()


def test_another_version_with_the_same_grades_moves_the_name_only(
    settings: Any, tmp_path: Path
) -> None:
    one = upstream_run()
    passes = one.dream_number
    use_ladder(settings, tmp_path, edited(('"1"', '"1.1"')))
    report = regrade(skill="stig", by="ada")
    assert (report.revised, report.confirmed) == (0, 4)
    assert {grader for _, _, grader in outcomes().values()} == {"stig@1.1"}
    assert not OutcomeRevision.objects.exists()
    one.refresh_from_db()
    assert (one.status, one.dream_number) == ("done", passes)


def test_a_ladder_that_was_edited_without_a_new_version_is_told(
    settings: Any, tmp_path: Path
) -> None:
    upstream_run()
    use_ladder(settings, tmp_path, edited(("-0.2", "-0.7")))
    out = StringIO()
    call_command("regrade", "--skill", "stig", stdout=out)
    assert "1 grades changed under one and the same name stig@1" in out.getvalue()
    assert outcomes()["sshd_banner #1"][0] == -0.7


# --- Outcomes that come and go --------------------------------------------------------------------

PENDING = ('pending_modes = ["needs_reboot"]', "pending_modes = []")


def test_rows_that_gain_an_outcome_are_judged(settings: Any, tmp_path: Path) -> None:
    with JudgeServer() as server:
        use_judge(settings, server)
        one = stored(
            tip("t1", TIP),
            attempt("boot", script=SCRIPT, passed=False, failure_mode="needs_reboot"),
            attempt("cut", script=None, passed=False, failure_mode="needs_reboot"),
            honest(),
        )
        row = Retrieval.objects.get(rule_id="boot")
        assert (row.llm_reason, row.tip_followed_llm) == ("no_outcome", None)
        use_ladder(settings, tmp_path, edited(('"1"', '"2"'), PENDING))
        report = regrade(skill="stig", by="ada")
        assert report.as_dict()["to_judge"] == 1
        one.refresh_from_db()
        assert one.status == "scoring"
        assert evidence.check() == []
        finished(one.pk)
        row.refresh_from_db()
        assert (row.outcome_value, row.llm_reason) == (0.0, "")
        assert row.tip_followed_llm is not None
        assert Retrieval.objects.get(rule_id="cut").llm_reason == "no_script"
        assert summary(one)["totals"]["judged"] == 2
        assert evidence.check() == []


def test_without_a_judge_such_rows_are_skipped_and_the_run_stays_final(
    settings: Any, tmp_path: Path
) -> None:
    one = stored(
        tip("t1", TIP),
        attempt("boot", script=SCRIPT, passed=False, failure_mode="needs_reboot"),
    )
    use_ladder(settings, tmp_path, edited(('"1"', '"2"'), PENDING))
    regrade(skill="stig", by="ada")
    row = Retrieval.objects.get()
    assert (row.outcome_value, row.llm_reason, row.llm_retry_at) == (0.0, "skipped", None)
    one.refresh_from_db()
    assert one.status == "done"
    assert summary(one)["tips"][0]["quadrants"]["misleading"] == 1


def test_rows_that_lose_their_outcome_keep_their_labels_and_leave_the_credit(
    settings: Any, tmp_path: Path
) -> None:
    one = stored(tip("t1", TIP), honest(), attempt("other", script=SCRIPT, failure_mode="lost"))
    Retrieval.objects.filter(rule_id="sshd_port").update(
        tip_followed_llm=True, llm_reason="", llm_source="m@0", tip_followed_computed_at=MOMENT
    )
    Retrieval.objects.filter(rule_id="other").update(llm_reason="judge_error", llm_retry_at=MOMENT)
    Attempt.objects.filter(rule_id="sshd_port").update(failure_mode="lost")
    use_ladder(settings, tmp_path, edited(('"1"', '"2"'), ('"evaluator_error"', '"lost"')))
    report = regrade(skill="stig", by="ada")
    assert (report.revised, report.as_dict()["without_outcome"]) == (2, 1)
    kept, open_ = (Retrieval.objects.get(rule_id=rule) for rule in ("sshd_port", "other"))
    assert (kept.tip_followed_llm, kept.llm_reason, kept.outcome_value) == (True, "", None)
    assert (open_.llm_reason, open_.llm_retry_at, open_.outcome_value) == ("no_outcome", None, None)
    assert summary(one)["tips"][0]["credit"] == {"mean": None, "n": 0}
    assert evidence.check() == []


# --- Runs -----------------------------------------------------------------------------------------


def test_a_run_that_is_not_final_is_left_alone_and_named(settings: Any, tmp_path: Path) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    upstream_run("night-1")
    waiting = upstream_run("night-2")
    Run.objects.filter(pk=waiting.pk).update(status="scoring")
    recording = make_run(status="recording", external_id="night-3")
    use_ladder(settings, tmp_path, edited())
    out = StringIO()
    with pytest.raises(CommandError, match=r"2 of 3 runs were not done, first night-3"):
        call_command("regrade", "--skill", "stig", "--json", stdout=out)
    told = {one["external_id"]: one for one in json.loads(out.getvalue())["runs"]}
    assert {name: one["state"] for name, one in told.items()} == {
        "night-1": "changed", "night-2": "skipped", "night-3": "skipped",
    }  # fmt: skip
    assert "reap_runs" in told["night-2"]["why"]
    assert "agent" in told["night-3"]["why"]
    assert not OutcomeRevision.objects.filter(attempt__run__in=[waiting, recording]).exists()


def test_a_kill_between_two_runs_leaves_whole_runs_and_the_next_call_goes_on(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    runs = [upstream_run(f"night-{number}") for number in (1, 2)]
    use_ladder(settings, tmp_path, edited())

    def killed(done: int, _total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regrade(skill="stig", by="ada", progress=killed)
    states = list(Run.objects.order_by("pk").values_list("status", flat=True))
    assert states == ["finalizing", "done"]
    assert OutcomeRevision.objects.count() == 3
    report = regrade(skill="stig", by="ada")
    assert [one.revised for one in report.runs] == [0, 3]
    assert set(Run.objects.values_list("status", flat=True)) == {"done"}
    assert [summary(one)["tips"][0]["quadrants"]["misleading"] for one in runs] == [3, 3]
    assert evidence.check() == []


def test_an_error_in_the_middle_of_a_run_takes_back_the_whole_run(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    upstream_run()
    use_ladder(settings, tmp_path, edited())
    monkeypatch.setattr(regrading, "ATTEMPTS_AT_ONCE", 1)
    before, calls = everything(), []

    def dies(evaluation: Evaluation, skill: Any) -> Any:
        calls.append(evaluation)
        if len(calls) == 4:
            raise RuntimeError("killed here")
        return grade(evaluation, skill)

    monkeypatch.setattr(regrading, "grade", dies)
    with pytest.raises(RuntimeError, match="killed here"):
        regrade(skill="stig", by="ada")
    assert everything() == before


def test_a_dream_pass_that_fails_is_named_and_made_good_by_the_reaper(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    one = upstream_run()
    use_ladder(settings, tmp_path, edited())
    with monkeypatch.context() as broken:
        broken.setattr("memory.dream_stages.summarise", lambda *_a, **_k: 1 / 0)
        report = regrade(skill="stig", by="ada")
    assert [(r.state, "ZeroDivisionError" in r.why) for r in report.not_done] == [("failed", True)]
    finished(one.pk)
    assert summary(one)["tips"][0]["quadrants"]["misleading"] == 3


def test_other_skills_and_superseded_revisions_are_not_touched(
    settings: Any, tmp_path: Path
) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    one = upstream_run()
    body = run(tip("t1", TIP), broken_app(), honest("another_rule"))
    [result] = ingest_records(lambda: body, log=LogFacts(), revise=True)
    finished(result.run_id)
    use_ladder(settings, tmp_path, edited())
    with pytest.raises(RegradeRefused, match="superseded"):
        regrade(skill="stig", by="ada", run=str(one.pk))
    report = regrade(skill="stig", by="ada")
    assert [(run.id, run.revised) for run in report.runs] == [(result.run_id, 1)]
    with pytest.raises(UnknownRun):
        regrade(skill="cve", by="ada", run="night-1")


def test_a_tip_that_was_saved_from_an_attempt_follows_its_grade(
    settings: Any, tmp_path: Path
) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    born = {"source_run_id": "night-1", "source_rule_id": "sshd_banner", "source_attempt": 1}
    ours = born | {"outcome_at_source_value": 1.0, "outcome_at_source_confidence": 1.0}
    theirs = born | {"outcome_at_source_value": 0.5, "outcome_at_source_confidence": 1.0}
    stored(tip("t1", TIP, **ours), tip("t2", "Another", **theirs), broken_app())
    use_ladder(settings, tmp_path, edited())
    regrade(skill="stig", by="ada")
    values = dict(Tip.objects.values_list("external_id", "outcome_at_source_value"))
    assert values == {"t1": -0.2, "t2": 0.5}
    undo(skill="stig", by="ada")
    assert Tip.objects.get(external_id="t1").outcome_at_source_value == 1.0


def test_statements_do_not_grow_with_the_attempts(
    settings: Any, tmp_path: Path, django_assert_max_num_queries: Any
) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    sizes = []
    for size in (3, 60):
        external_id = f"night-{size}"
        many = [failed_password(n, retrievals=(retrieval("t1"),)) for n in range(1, size + 1)]
        stored(tip("t1", TIP), *many, external_id=external_id)
    use_ladder(settings, tmp_path, edited())
    for size in (3, 60):
        connection.queries_log.clear()
        with django_assert_max_num_queries(200) as captured:
            assert regrade(skill="stig", by="ada", run=f"night-{size}").revised == size
        sizes.append(len(captured))
    assert abs(sizes[0] - sizes[1]) <= 2


def test_nobody_is_no_author_and_an_unknown_skill_is_an_error(settings: Any) -> None:
    upstream_run()
    with pytest.raises(CommandError, match="names nobody"):
        call_command("regrade", "--skill", "stig", "--by", " ")
    with pytest.raises(CommandError, match="nothing is stored about a skill"):
        call_command("regrade", "--skill", "unknown")
    with pytest.raises(CommandError, match="no run of skill"):
        call_command("regrade", "--skill", "stig", "--run", "unknown")
    with pytest.raises(CommandError, match="could be taken back"):
        call_command("regrade", "--skill", "stig", "--undo")
    assert load_skill(settings.PROMPTS_DIR, "stig").grading.version == "1"


def test_hostile_names_cannot_steer_the_terminal(settings: Any, tmp_path: Path) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    stored(tip("t\x1b[2J", TIP), broken_app(retrievals=(retrieval("t\x1b[2J"),), category="c\x1b[2J"))
    use_ladder(settings, tmp_path, edited())
    out = StringIO()
    call_command("regrade", "--skill", "stig", "--dry-run", stdout=out)
    assert "\x1b" not in out.getvalue()
    assert "\\x1b[2J" in out.getvalue()
    assert "Nothing was changed (--dry-run)." in out.getvalue()


def test_the_signals_of_a_regraded_run_are_as_they_were(settings: Any, tmp_path: Path) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    upstream_run()
    columns = ("tip_followed_trace", "tip_followed_trace_verdict", "llm_reason", "trace_reason")
    before = list(Retrieval.objects.order_by("pk").values(*columns))
    use_ladder(settings, tmp_path, edited())
    regrade(skill="stig", by="ada")
    assert list(Retrieval.objects.order_by("pk").values(*columns)) == before
    assert pipeline.enabled(Signal.TRACE)
    assert RunWriter is not None
