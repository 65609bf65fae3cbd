"""Re-grading: rows that gain or lose their outcome, runs that are not final, kills, the command."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from contextgraph import regrading
from contextgraph.ingest import LogFacts, ingest_document, ingest_records
from contextgraph.regrading import RegradeRefused, regrade, undo
from contextgraph.skills import load_skill
from memory import evidence
from memory.models import (
    Attempt,
    OutcomeRevision,
    Retrieval,
    Run,
    Tip,
)
from memory.querysets import UnknownRun
from scoring.outcomes import Evaluation, grade
from tests.contextgraph.ladders import NAIVE, edited, use_ladder
from tests.contextgraph.regraded_runs import (
    SCRIPT,
    TIP,
    broken_app,
    everything,
    failed_password,
    finished,
    honest,
    stored,
    summary,
    upstream_run,
)
from tests.contextgraph.run_documents import attempt, retrieval, run, sha256, tip
from tests.contextgraph.test_pipeline import use_judge
from tests.factories import MOMENT, make_run
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _without_a_model(broker: str, settings: Any) -> None:
    settings.SIGNALS = ["trace", "judge"]


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
    stored(
        tip("t\x1b[2J", TIP), broken_app(retrievals=(retrieval("t\x1b[2J"),), category="c\x1b[2J")
    )
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


def test_two_at_once_do_the_work_once(settings: Any, tmp_path: Path) -> None:
    use_ladder(settings, tmp_path, NAIVE)
    runs = [upstream_run(f"night-{number}") for number in (1, 2)]
    use_ladder(settings, tmp_path, edited())
    start = threading.Barrier(2)

    def work() -> int:
        start.wait()
        try:
            return regrade(skill="stig", by="ada").revised
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        revised = [one.result() for one in [pool.submit(work), pool.submit(work)]]
    assert sum(revised) == OutcomeRevision.objects.count() == 6
    assert set(Run.objects.values_list("status", flat=True)) == {"done"}
    assert [summary(one)["tips"][0]["quadrants"]["misleading"] for one in runs] == [3, 3]
    assert evidence.check() == []


def test_a_real_run_comes_out_as_it_is(shared_data: Path) -> None:
    path = shared_data / "stig_rhel9_run.jsonl"
    with path.open("rb") as file:
        results = ingest_document(
            file, name=path.name, log_sha256=sha256(path.read_bytes()), skill="stig"
        )
    Run.objects.update(status="done", done_at=MOMENT)
    report = regrade(skill="stig", by="ada")
    assert (report.revised, report.confirmed, report.not_done) == (0, 0, [])
    assert sum(run.attempts for run in report.runs) == Attempt.objects.count() > 100
    assert len(results) == len(report.runs)
