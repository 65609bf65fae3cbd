"""Re-grading: the same input under another ladder, all that hangs on it, a trail, and the way back."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from contextgraph import regrading
from contextgraph.ingest import LogFacts, ingest_document, ingest_records
from contextgraph.outcome_changes import evaluation_of
from contextgraph.regrading import RegradeRefused, regrade, undo
from memory import evidence
from memory.models import (
    Attempt,
    OutcomeRevision,
    Retrieval,
    Run,
    TipEvidence,
)
from scoring.outcomes import Evaluation
from tests.contextgraph.ladders import NAIVE, edited, use_ladder
from tests.contextgraph.regraded_runs import (
    everything,
    finished,
    outcomes,
    summary,
    upstream_run,
)
from tests.contextgraph.run_documents import attempt, correction, run, sha256
from tests.factories import MOMENT

if TYPE_CHECKING:
    from contextgraph.envelope import Record

pytestmark = pytest.mark.django_db(transaction=True)

EXAMPLES = Path(regrading.__file__).parent / "examples"


@pytest.fixture(autouse=True)
def _without_a_model(broker: str, settings: Any) -> None:
    settings.SIGNALS = ["trace", "judge"]


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
    assert sorted(Retrieval.objects.values_list("outcome_value", flat=True)) == [
        -0.2,
        0.0,
        0.0,
        1.0,
    ]
    after = summary(one)
    assert after["tips"][0]["quadrants"] | {"unknown": 0} == {
        "earned": 1, "misleading": 3, "lucky_neighbour": 0, "bystander": 0, "unknown": 0,
    }  # fmt: skip
    assert after["categories"][0]["rules_remediated"]["hits"] == 1
    assert before["categories"][0]["rules_remediated"]["hits"] == 3
    assert evidence.check() == []
    rule = TipEvidence.objects.get(policy="adr0019", level="rule", key="sshd_banner")
    assert float(rule.credit_total) == pytest.approx(-0.1)  # nobody has judged it: half of -0.2
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
    assert (flip["credit_before"], flip["credit_after"]) == (0.5, 0.133333)


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


def test_the_example_runs_come_out_as_they_are(settings: Any) -> None:
    settings.SIGNALS = ["trace"]
    for path in sorted(EXAMPLES.glob("harbor-run-*.jsonl")):
        with path.open("rb") as file:
            [result] = ingest_document(
                file, name=path.name, log_sha256=sha256(path.read_bytes()), skill="stig"
            )
        finished(result.run_id)
    before = everything()
    report = regrade(skill="stig", by="ada")
    assert everything() == before
    assert [one.state for one in report.runs] == ["unchanged", "unchanged"]
    assert sum(one.attempts for one in report.runs) == Attempt.objects.count() > 70
    out = StringIO()
    call_command("regrade", "--skill", "stig", stdout=out)
    assert "Nothing changed: every grade comes out of stig@1 as it is stored." in out.getvalue()


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


SILENT = {
    "passed": False, "failure_mode": "", "evaluator_raw": {"health": "UNHEALTHY:"},
    "evaluator_error": "", "grade_value": 0.3, "grade_confidence": 0.5, "sender_number": None,
}  # fmt: skip
"""No failure mode sent, and one proved by the raw output."""
OTHER = SILENT | {"passed": True, "failure_mode": "clean_failure", "evaluator_raw": None}
LATE = {
    "passed": False, "failure_mode": "rule_still_failing", "evaluator_raw": None,
    "grade_value": None, "grade_confidence": None,
}  # fmt: skip
"""After OTHER, whose own failure mode is no longer what was sent."""


@example(skill="stig", verdicts=[(SILENT, None), (OTHER, LATE)])
@hypothesis_settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
