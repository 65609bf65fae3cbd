"""Late verdicts: entered or refused line by line, derived numbers that follow, and the way back."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from contextgraph import late_outcomes, pipeline
from contextgraph.agent import memory_store
from contextgraph.envelope import OutcomeCorrection
from contextgraph.ingest import LogFacts, ingest_records
from contextgraph.late_outcomes import LateOutcomeRefused, record_late_outcome
from contextgraph.regrading import regrade, undo
from memory import evidence
from memory.models import Attempt, OutcomeRevision, Retrieval, Run
from tests.contextgraph.regraded_runs import SCRIPT, TIP, everything, finished, honest, summary
from tests.contextgraph.run_documents import attempt, run, tip
from tests.contextgraph.test_pipeline import use_judge
from tests.factories import MOMENT
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _without_a_model(broker: str, settings: Any) -> None:
    settings.SIGNALS = ["trace", "judge"]


def posted(external_id: str = "night-1", *, numbers: tuple[int, ...] = (1,)) -> Run:
    """A run whose rule "boot" waits for a reboot; stored, not yet scored."""
    waiting = [
        attempt(
            "boot",
            number=number,
            script=SCRIPT,
            passed=False,
            failure_mode="needs_reboot",
            evaluator_raw={"summary": "reboot first"},
        )
        for number in numbers
    ]
    body = run(tip("t1", TIP), *waiting, honest(), external_id=external_id)
    [result] = ingest_records(lambda: body, log=LogFacts())
    return Run.objects.get(pk=result.run_id)


def line(run: str = "night-1", **fields: Any) -> dict[str, Any]:
    values = {"skill": "stig", "run": run, "rule_id": "boot", "number": 1, "passed": True}
    return values | fields


def enter(folder: Path, *lines: Any, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """The report, whether or not the command ended with an error."""
    path = folder / "late.jsonl"
    path.write_bytes(
        b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines)
    )
    out = StringIO()
    try:
        call_command("late_outcomes", str(path), "--by", "ada", "--json", *options, stdout=out)
    except CommandError as error:
        return json.loads(out.getvalue()) | {"error": str(error)}
    return json.loads(out.getvalue()) | {"error": ""}


def row() -> Retrieval:
    return Retrieval.objects.select_related("attempt").get(rule_id="boot")


# --- Entered --------------------------------------------------------------------------------------


def test_a_late_verdict_is_graded_credited_and_leaves_what_it_replaced(tmp_path: Path) -> None:
    one = finished(posted().pk)
    assert summary(one)["tips"][0]["quadrants"]["earned"] == 1
    told = enter(tmp_path, line(evaluator_raw={"health": "HEALTHY"}))
    assert (told["entered"], told["recounted"], told["error"]) == (1, [one.pk], "")
    found = row()
    assert (found.outcome_value, found.llm_reason) == (1.0, "skipped")
    stored = found.attempt
    assert (stored.passed, stored.failure_mode, stored.outcome_reason) == (True, "", "")
    assert stored.evaluator_raw == {"health": "HEALTHY"}
    revision = OutcomeRevision.objects.get()
    assert (revision.cause, revision.by, revision.old_value, revision.old_reason) == (
        "late_outcome", "ada", None, "no_outcome",
    )  # fmt: skip
    assert revision.old_evaluator == {
        "passed": False,
        "evaluator_raw": {"summary": "reboot first"},
        "evaluator_error": "",
        "sender_grade_value": None,
        "sender_grade_confidence": None,
        "sender_failure_mode": "needs_reboot",
    }
    one.refresh_from_db()
    assert one.status == "done"
    assert summary(one)["tips"][0]["quadrants"]["earned"] == 2
    assert evidence.check() == []


def test_a_late_verdict_is_graded_again_like_any_other(tmp_path: Path) -> None:
    one = finished(posted().pk)
    enter(tmp_path, line(passed=False, failure_mode="health_failure", grade_confidence=0.5))
    before = everything()
    assert regrade(skill="stig", by="bob").revised == 0
    assert everything() == before
    assert (row().outcome_value, row().outcome_confidence) == (-0.2, 0.5)
    assert one.pk == row().run_id


def test_undo_gives_back_the_evaluators_words_and_keeps_the_verdict_in_the_trail(
    tmp_path: Path,
) -> None:
    one = finished(posted().pk)
    columns = (
        "passed",
        "evaluator_raw",
        "failure_mode",
        "outcome_value",
        "outcome_reason",
        "extra",
    )
    before = [list(Attempt.objects.order_by("pk").values(*columns)), summary(one)]
    enter(tmp_path, line(evaluator_raw={"health": "UNHEALTHY"}, failure_mode="clean_failure"))
    assert row().outcome_value == -0.2
    undo(skill="stig", by="bob", run="night-1")
    assert [list(Attempt.objects.order_by("pk").values(*columns)), summary(one)] == before
    assert row().llm_reason == "no_outcome"
    last = OutcomeRevision.objects.get(cause="undo")
    assert last.old_evaluator["evaluator_raw"] == {"health": "UNHEALTHY"}
    assert last.old_evaluator["sender_failure_mode"] == "clean_failure"
    assert regrade(skill="stig", by="bob").revised == 0


def test_the_same_file_again_changes_nothing(tmp_path: Path) -> None:
    finished(posted().pk)
    given = line(evaluator_raw={"n": 1.0, "big": 1e300, "text": "a\x00b"}, grade_value=0.25)
    assert enter(tmp_path, given)["entered"] == 1
    before = everything()
    told = enter(tmp_path, given)
    assert (told["entered"], told["unchanged"], told["recounted"]) == (0, 1, [])
    assert everything() == before


def test_the_verdicts_of_a_run_are_one_dream_pass_and_the_last_of_an_attempt_stands(
    tmp_path: Path,
) -> None:
    one = finished(posted(numbers=(1, 2, 3)).pk)
    lines = [line(number=n) for n in (1, 2, 3)] + [line(number=1, passed=False)]
    told = enter(tmp_path, *lines)
    assert told["entered"] == 4
    numbers = OutcomeRevision.objects.filter(attempt__number=1).values_list("number", "new_value")
    assert list(numbers) == [(1, 1.0), (2, 0.0)]
    assert sorted(Retrieval.objects.values_list("outcome_value", flat=True)) == [0.0, 0.8, 0.8, 1.0]
    assert summary(one)["tips"][0]["visits"]["known"] == 2
    assert undo(skill="stig", by="bob").revised == 3
    assert set(Retrieval.objects.filter(rule_id="boot").values_list("outcome_value")) == {(None,)}


def test_lines_of_many_runs_may_come_in_any_order(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(late_outcomes, "LINES_AT_ONCE", 2)
    runs = [finished(posted(name, numbers=(1, 2, 3)).pk) for name in ("night-1", "night-2")]
    lines = [line(name, number=n) for n in (3, 1, 2) for name in ("night-1", "night-2")]
    lines += [line("night-1", number=n, passed=False) for n in (1, 2, 3)]
    told = enter(tmp_path, *lines)
    assert (told["entered"], sorted(told["recounted"])) == (9, [one.pk for one in runs])
    values = Retrieval.objects.filter(rule_id="boot").order_by("run_id", "attempt__number")
    assert list(values.values_list("outcome_value", flat=True)) == [0.0, 0.0, 0.0, 1.0, 0.8, 0.8]
    assert evidence.check() == []


def test_a_dry_run_reports_and_changes_nothing(tmp_path: Path) -> None:
    finished(posted().pk)
    before = everything()
    told = enter(tmp_path, line(), line(rule_id="unknown"), options=("--dry-run",))
    assert (told["entered"], told["dry_run"], len(told["refused"])) == (1, True, 1)
    assert everything() == before


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    finished(posted().pk)
    path = tmp_path / "late.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line()).encode() + b"\n\n"))
    out = StringIO()
    call_command("late_outcomes", str(path), stdout=out)
    assert "1 lines: 1 entered, 0 said what is stored, 0 refused" in out.getvalue()


# --- Refused --------------------------------------------------------------------------------------

REFUSED = [
    (b"{", "no JSON"),
    (b"\xff\xfe{}", "no JSON"),
    (b"null", "null"),
    (b"[1]", "a mapping is needed here"),
    (b"[" * 100_000, "no JSON"),
    (line(number=0), "number: Input should be greater than or equal to 1"),
    (line(number=2), "has no attempt boot #2: it has #1"),
    (line(number=2**40), "has no attempt"),
    (line(rule_id="unknown"), "it has none of that rule"),
    (line(rule_id="a\x00"), "has no attempt"),
    (line(run="unknown"), "there is no run 'unknown' of skill 'stig'"),
    (line(skill="cve"), "there is no run 'night-1' of skill 'cve'"),
    (line(skill=""), "skill: String should have at least 1 character"),
    (line(passed=None), "passed: Input should be a valid boolean"),
    (line(grade_value=2.0), "grade_value: Input should be less than or equal to 1"),
    (line(failuremode="x"), "unknown fields: 'failuremode'"),
    (line(failure_mode="x" * 501), "failure_mode: String should have at most 500 characters"),
    ({"skill": "stig"}, "rule_id: Field required"),
]


def test_refused_lines_are_named_stop_no_other_and_can_be_tried_again(tmp_path: Path) -> None:
    finished(posted().pk)
    rejects = tmp_path / "again.jsonl"
    lines = [one for one, _ in REFUSED]
    told = enter(tmp_path, *lines[:9], line(), *lines[9:], options=("--rejects", str(rejects)))
    assert (told["entered"], told["lines"]) == (1, len(REFUSED) + 1)
    found = sorted(told["refused"], key=lambda one: one["line"])
    assert [one["line"] for one in found] == [n for n in range(1, len(REFUSED) + 2) if n != 10]
    for (_, cause), one in zip(REFUSED, found, strict=True):
        assert cause in one["cause"]
        assert one["mend"]
    assert told["error"].startswith(f"{len(REFUSED)} of {len(REFUSED) + 1} lines were refused")
    kept = rejects.read_bytes().splitlines()
    assert sorted(kept) == sorted(
        one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines
    )
    assert row().outcome_value == 1.0


def test_rejects_become_good_when_the_cause_is_gone(tmp_path: Path) -> None:
    rejects = tmp_path / "again.jsonl"
    enter(tmp_path, line(), options=("--rejects", str(rejects)))
    finished(posted().pk)
    out = StringIO()
    call_command("late_outcomes", str(rejects), stdout=out)
    assert "1 entered" in out.getvalue()


def test_no_file_is_overwritten_and_one_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "late.jsonl"
    with pytest.raises(CommandError, match="No such file"):
        call_command("late_outcomes", str(path))
    path.write_text("{}")
    with pytest.raises(CommandError, match="is there already"):
        call_command("late_outcomes", str(path), "--rejects", str(path))
    assert path.read_text() == "{}"


def test_hostile_words_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "late.jsonl"
    path.write_text(json.dumps(line(run="\x1b[2J")))
    out = StringIO()
    with pytest.raises(CommandError) as error:
        call_command("late_outcomes", str(path), stdout=out)
    assert "\x1b[2J" not in out.getvalue() + str(error.value)
    assert "\\x1b[2J" in str(error.value)


def test_a_superseded_revision_takes_no_verdict() -> None:
    old = finished(posted().pk)
    body = run(tip("t1", TIP), honest())
    ingest_records(lambda: body, log=LogFacts(), revise=True)
    waiting = Attempt.objects.get(run=old, rule_id="boot")
    with pytest.raises(LateOutcomeRefused, match="superseded"):
        record_late_outcome(waiting.pk, OutcomeCorrection(**_only(waiting)), by="ada")


def _only(one: Attempt, **fields: Any) -> dict[str, Any]:
    return {"rule_id": one.rule_id, "number": one.number, "passed": True} | fields


# --- Runs on their way ----------------------------------------------------------------------------


def test_a_run_that_waits_takes_the_verdict_and_its_pass_reads_it(tmp_path: Path) -> None:
    one = posted()
    told = enter(tmp_path, line())
    assert (told["entered"], told["recounted"]) == (1, [])
    assert (row().outcome_value, row().llm_reason) == (1.0, "")
    one.refresh_from_db()
    assert one.status == "ingested"
    finished(one.pk)
    assert summary(one)["tips"][0]["quadrants"]["earned"] == 2


def test_a_row_that_became_judgeable_during_a_round_is_judged_after_it(
    settings: Any, tmp_path: Path
) -> None:
    with JudgeServer() as server:
        use_judge(settings, server)
        one = posted()
        pipeline.dispatch(one.pk)
        enter(tmp_path, line())
        found = row()
        assert (found.llm_reason, found.tip_followed_llm) == ("skipped", None)
        assert found.llm_retry_at is not None
        finished(one.pk)
        for _ in range(4):
            pipeline.reap(inline=True, impatient=True)
        found.refresh_from_db()
        one.refresh_from_db()
        assert (one.status, found.llm_reason) == ("done", "")
        assert found.tip_followed_llm is not None
        assert summary(one)["totals"]["judged"] == 2
        assert evidence.check() == []


def test_a_pass_that_has_counted_already_is_begun_anew(tmp_path: Path) -> None:
    one = finished(posted().pk)
    Run.objects.filter(pk=one.pk).update(status="finalizing")
    told = enter(tmp_path, line())
    assert told["recounted"] == [one.pk]
    one.refresh_from_db()
    assert (one.status, one.dream_number) == ("done", 2)
    assert summary(one)["tips"][0]["quadrants"]["earned"] == 2


def test_a_recorded_attempt_takes_a_verdict_when_its_agent_has_saved_it(tmp_path: Path) -> None:
    store = memory_store("stig")
    handle = store.start_run("night-1", started_at=MOMENT - timedelta(days=1))
    got = store.retrieve(handle, "boot")
    told = enter(tmp_path, line())
    assert "its agent has not saved it" in told["error"]
    store.save_attempt(
        handle, "boot", number=got.attempt_number, script=SCRIPT, passed=None, deferred=True
    )
    assert enter(tmp_path, line())["entered"] == 1
    stored = Attempt.objects.get()
    assert (stored.outcome_value, stored.run.status) == (1.0, "recording")
    store.end_run(handle)
    assert Attempt.objects.get().outcome_value == 1.0


# --- One attempt ----------------------------------------------------------------------------------


def test_one_verdict_by_the_python_door() -> None:
    one = finished(posted().pk)
    waiting = Attempt.objects.get(rule_id="boot")
    verdict = OutcomeCorrection(**_only(waiting))
    assert record_late_outcome(waiting.pk, verdict, by="ada")
    assert not record_late_outcome(waiting.pk, verdict, by="ada")
    assert summary(one)["tips"][0]["quadrants"]["earned"] == 2
    assert OutcomeRevision.objects.count() == 1
    other = OutcomeCorrection(**_only(waiting, number=2))
    with pytest.raises(LateOutcomeRefused, match="is boot #1, not boot #2"):
        record_late_outcome(waiting.pk, other, by="ada")
    with pytest.raises(LateOutcomeRefused, match="no attempt with primary key"):
        record_late_outcome(10**9, verdict, by="ada")


def test_a_verdict_that_cannot_be_credited_is_not_entered(monkeypatch: Any) -> None:
    finished(posted().pk)
    waiting = Attempt.objects.get(rule_id="boot")
    before = everything()
    monkeypatch.setattr(evidence, "refresh", lambda _ids: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        record_late_outcome(waiting.pk, OutcomeCorrection(**_only(waiting)), by="ada")
    assert everything() == before
    assert not transaction.get_connection().in_atomic_block
