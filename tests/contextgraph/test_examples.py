"""The bundled runs: what is committed is what the sources say, and the story can be found in it."""

from __future__ import annotations

import json
import shutil
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import tree_sitter_bash
from sklearn.metrics import roc_auc_score
from tree_sitter import Language, Parser

from contextgraph.envelope import AttemptEntry, OutcomeCorrection, RunFooter, RunHeader, TipEntry
from contextgraph.examples import EXPECTED, HERE, RUN_LOGS
from contextgraph.examples.build import BuiltRun, Label, build_runs, old_grade, write_logs
from contextgraph.examples.event_log import LOGGER_CUT
from contextgraph.examples.story import Story, StoryError, load_story
from contextgraph.runlogs import open_run_log
from contextgraph.skills import load_skill
from scoring.outcomes import Evaluation, Outcome, grade
from scoring.trace import trace

if TYPE_CHECKING:
    from pathlib import Path

    from contextgraph.envelope import Record

RUN_1, RUN_2 = "harbor-run-01", "harbor-run-02"
WRONG_TIPS = ["101", "102", "103", "104", "105"]
UNSCORED = {"not_shown", "undecidable", "no_outcome"}


@cache
def story() -> Story:
    return load_story()


@cache
def built() -> dict[str, BuiltRun]:
    return {run.id: run for run in build_runs()}


@cache
def records(run: str) -> tuple[Record, ...]:
    """The committed log as the reader understands it."""
    with (HERE / f"{run}.jsonl").open("rb") as stream:
        return tuple(open_run_log(stream).records())


@cache
def events(run: str) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in built()[run].text.splitlines())


def attempts(run: str) -> dict[tuple[str, int], AttemptEntry]:
    found = [record for record in records(run) if isinstance(record, AttemptEntry)]
    return {(entry.rule_id, entry.number): entry for entry in found}


def footer(run: str) -> RunFooter:
    return next(record for record in records(run) if isinstance(record, RunFooter))


def expected() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads(EXPECTED.read_text(encoding="utf-8"))["retrievals"]
    return rows


def expected_id(row: dict[str, Any]) -> str:
    return f"{row['run']}-{row['rule']}-{row['attempt']}-{row['quadrant']}"


def label_of(run: str, rule: str, attempt: int, tip: int) -> Label:
    wanted = (run, rule, attempt, tip)
    return next(
        one for one in built()[run].labels if (one.run, one.rule, one.attempt, one.tip) == wanted
    )


def grade_of(run: str, rule: str, number: int) -> Outcome:
    """The product's own grade, late verdicts included."""
    entry = attempts(run)[rule, number]
    late = [r for r in records(run) if isinstance(r, OutcomeCorrection) and r.rule_id == rule]
    passed, raw = entry.passed, entry.evaluator_raw
    if late and late[-1].number == number:
        passed, raw = late[-1].passed, late[-1].evaluator_raw
    evaluation = Evaluation(
        number=entry.sender_number or entry.number,
        passed=passed,
        failure_mode=entry.failure_mode,
        raw=raw,
        error=entry.evaluator_error,
    )
    return grade(evaluation, load_skill(HERE.parents[1] / "prompts", "stig"))


@pytest.mark.parametrize("path", RUN_LOGS, ids=lambda path: path.stem)
def test_the_committed_log_is_what_the_sources_build(path: Path, tmp_path: Path) -> None:
    rebuilt = {one.name: one for one in write_logs(tmp_path)}
    assert path.read_bytes() == rebuilt[path.name].read_bytes()
    assert path.stat().st_size < 300_000


def test_a_run_is_a_small_job_with_every_kind_of_end() -> None:
    for run in (RUN_1, RUN_2):
        rows = attempts(run)
        assert 36 <= len(rows) <= 44
        assert 12 <= len({rule for rule, _ in rows}) <= 15
        assert 4 <= len({entry.category for entry in rows.values()}) <= 5
        values = {grade_of(run, rule, number).value for rule, number in rows}
        assert {1.0, 0.8, 0.5, 0.0} <= values
        assert any(event["event_type"] == "escalated" for event in events(run))
    assert -0.2 in {grade_of(RUN_1, rule, number).value for rule, number in attempts(RUN_1)}


def test_the_second_run_follows_the_first_by_a_month_with_the_same_model() -> None:
    first, second = (
        next(r for r in records(run) if isinstance(r, RunHeader)) for run in (RUN_1, RUN_2)
    )
    assert (first.external_id, second.external_id) == (RUN_1, RUN_2)
    assert first.skill == second.skill == "stig"
    assert 27 <= (second.started_at - first.started_at).days <= 31
    assert footer(RUN_1).model == footer(RUN_2).model == "example/worker-8b"


def test_every_script_is_shell_that_a_grammar_accepts() -> None:
    parser = Parser(Language(tree_sitter_bash.language()))
    scripts = {row.script for rows in story().attempts.values() for row in rows if row.script}
    assert len(scripts) > 70
    broken = [text for text in scripts if parser.parse(text.encode()).root_node.has_error]
    assert broken == []
    assert all(3 <= len(text.splitlines()) <= 20 for text in scripts)


def test_no_prompt_holds_a_tip_that_was_not_yet_learnt() -> None:
    known: set[int] = set()
    for run in (RUN_1, RUN_2):
        for event in events(run):
            data = event["data"]
            if event["event_type"] == "tip_added":
                known.add(data["tip_id"])
            for tip in data.get("v2_tips_loaded", ()):
                assert tip["tip_id"] in known, (run, data["rule_id"], data["attempt"])


def test_prompts_hold_five_tips_and_fewer_where_memory_is_cold() -> None:
    sizes = [len(entry.retrievals) for entry in attempts(RUN_1).values()]
    assert max(sizes) == 5
    assert min(sizes) < 5
    assert {len(entry.retrievals) for entry in attempts(RUN_2).values()} == {5}


def test_an_evaluation_names_neither_rule_nor_attempt_and_keeps_its_raw_signals() -> None:
    signals = {"health", "health_ok", "rule_check", "rule_ok", "journal", "journal_clean"}
    for run in (RUN_1, RUN_2):
        for event in events(run):
            if event["event_type"] != "evaluation":
                continue
            data = event["data"]
            assert not {"rule_id", "attempt"} & data.keys()
            assert signals <= data.keys() or data["summary"].startswith("eval tool error")


def test_the_author_s_labels_stay_out_of_the_logs() -> None:
    for run in built().values():
        assert '"follows"' not in run.text
        assert '"unclear"' not in run.text


def test_the_same_five_tips_stand_in_the_same_order_in_a_lucky_and_in_a_failed_run() -> None:
    rule = "sshd_login_grace_time"
    for run, number in ((RUN_1, 2), (RUN_2, 1), (RUN_2, 5)):
        entry = attempts(run)[rule, number]
        assert [retrieval.tip for retrieval in entry.retrievals] == WRONG_TIPS
    assert attempts(RUN_1)[rule, 2].passed is True
    failed = [entry for (name, _), entry in attempts(RUN_2).items() if name == rule]
    assert len(failed) == 5
    assert {entry.failure_mode for entry in failed} == {"evaluator_gap"}


def test_luck_ranks_two_wrong_tips_above_the_right_one() -> None:
    ranked = [r.tip for r in attempts(RUN_2)["accounts_umask_strict", 1].retrievals]
    assert ranked[:3] == ["421", "422", "423"]


def test_the_recovery_tip_is_learnt_from_the_health_failure() -> None:
    order = [
        (event["event_type"], event["data"].get("tip_id"), event["data"].get("failure_mode"))
        for event in events(RUN_1)
    ]
    learnt = order.index(("tip_added", 502, None))
    assert order.index(("evaluation", None, "health_failure")) < learnt
    data = events(RUN_1)[learnt]["data"]
    assert data["phase"] == "failure_reflection"
    assert data["outcome_at_source_value"] == pytest.approx(-0.2)


def test_the_reader_meets_the_hazards_that_were_put_in_and_no_other() -> None:
    assert footer(RUN_1).hazards == {
        "attempt_without_script": 1,
        "call_capped": 1,
        "evaluator_exception": 1,
        "script_cut": 1,
        "tips_dropped": 1,
    }
    assert footer(RUN_2).hazards == {}
    assert [key for key, entry in attempts(RUN_2).items() if entry.apply_failed] == [
        ("sshd_login_grace_time", 4)
    ]
    assert not any(entry.apply_failed for entry in attempts(RUN_1).values())


def test_a_tip_that_is_too_long_for_the_prompt_is_shown_cut() -> None:
    seen = {r.tip: r for entry in attempts(RUN_2).values() for r in entry.retrievals if r.shown_cut}
    assert seen.keys() == {"423"}
    text = next(r.text for r in records(RUN_1) if isinstance(r, TipEntry) and r.tip == "423")
    assert text != seen["423"].shown_text
    assert text.startswith(seen["423"].shown_text or "?")


def test_the_cut_script_ends_where_the_old_logger_stopped() -> None:
    entry = attempts(RUN_1)["accounts_faillock_limits", 2]
    whole = story().attempts[1, "accounts_faillock_limits"][1].script
    assert entry.script_truncated
    assert entry.script is not None
    assert whole is not None
    assert len(entry.script) == LOGGER_CUT
    assert whole.startswith(entry.script)
    assert "faillock.conf" not in entry.script  # what decides comes after the cut


def test_an_evaluator_that_raised_gives_no_outcome() -> None:
    assert attempts(RUN_1)["auditd_space_left_alert", 2].evaluator_error
    assert grade_of(RUN_1, "auditd_space_left_alert", 2).value is None


@pytest.mark.parametrize(("run", "number"), [(RUN_1, 2), (RUN_2, 1)])
def test_a_verdict_after_the_reboot_corrects_the_attempt(run: str, number: int) -> None:
    entry = attempts(run)["kernel_boot_audit_arg", number]
    assert entry.deferred
    assert entry.passed is None
    late = [record for record in records(run) if isinstance(record, OutcomeCorrection)]
    assert [(one.rule_id, one.number, one.passed) for one in late] == [
        ("kernel_boot_audit_arg", number, True)
    ]


def test_the_second_log_names_older_tips_by_id_only() -> None:
    described = {record.tip for record in records(RUN_2) if isinstance(record, TipEntry)}
    retrieved = {r.tip for entry in attempts(RUN_2).values() for r in entry.retrievals}
    assert retrieved - described
    assert all(r.shown_text for entry in attempts(RUN_2).values() for r in entry.retrievals)


@pytest.mark.parametrize("row", expected(), ids=expected_id)
def test_the_logs_hold_what_the_audit_is_expected_to_find(row: dict[str, Any]) -> None:
    run, rule, number = row["run"], row["rule"], row["attempt"]
    entry = attempts(run)[rule, number]
    outcome = grade_of(run, rule, number).value
    assert outcome == (pytest.approx(row["outcome"]) if "outcome" in row else None)
    retrieved = {retrieval.tip: retrieval for retrieval in entry.retrievals}
    assert {str(tip) for tip in row["tips"]} <= retrieved.keys()
    if row["quadrant"] == "not_shown":
        assert not any(retrieval.shown for retrieval in entry.retrievals)
    elif row["quadrant"] == "undecidable":
        assert entry.script is None or entry.script_truncated
    elif row["quadrant"] != "no_outcome":
        assert outcome is not None
        follows = {label_of(run, rule, number, tip).followed for tip in row["tips"]}
        assert follows == {row["quadrant"] in {"earned", "misleading"}}
        assert (outcome > 0) == (row["quadrant"] in {"earned", "lucky_neighbour"})


def test_the_action_trace_agrees_with_the_author_on_most_notable_retrievals() -> None:
    verdicts = [
        (trace(tip=label.shown_text, script=label.script).verdict == "followed", label.followed)
        for row in expected()
        if row["quadrant"] not in UNSCORED
        for label in (label_of(row["run"], row["rule"], row["attempt"], t) for t in row["tips"])
    ]
    agreed = sum(said == meant for said, meant in verdicts)
    assert agreed / len(verdicts) >= 0.9, f"{agreed} of {len(verdicts)}"


def test_the_action_trace_tells_followed_from_ignored_over_all_retrievals() -> None:
    labels = [one for run in built().values() for one in run.labels if one.followed is not None]
    results = [trace(tip=one.shown_text, script=one.script) for one in labels]
    auc = roc_auc_score(
        [one.followed for one in labels],
        [0.5 if result.score is None else result.score for result in results],
    )
    assert auc >= 0.97
    believed = [
        bool(one.followed)
        for one, r in zip(labels, results, strict=True)
        if r.verdict == "followed"
    ]
    assert sum(believed) / len(believed) >= 0.85, f"{sum(believed)} of {len(believed)}"
    assert sum(believed) / sum(bool(one.followed) for one in labels) >= 0.85


def sources_with(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """A copy of the source files with one text replaced."""
    for path in HERE.glob("harbor_*.toml"):
        shutil.copy(path, tmp_path / path.name)
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("id = 312", "id = 311", "311 stands twice"),
        ("follows = [321]", "follows = [999]", r"unknown tips \[999\]"),
        ('result = "deferred_pass"', 'result = "maybe"', "unknown result 'maybe'"),
        ('rule = "kernel_boot_audit_arg"', 'rule = "kernel_x"', "unknown rule 'kernel_x'"),
    ],
)
def test_a_source_that_contradicts_itself_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder = sources_with(tmp_path, "harbor_kernel.toml", old, new)
    with pytest.raises(StoryError, match=message):
        load_story(folder)


def test_a_label_on_a_tip_that_was_not_retrieved_is_refused(tmp_path: Path) -> None:
    folder = sources_with(tmp_path, "harbor_kernel.toml", "follows = [301, 303]", "follows = [502]")
    with pytest.raises(StoryError, match="labels tips"):
        build_runs(load_story(folder))


def test_the_old_grade_is_the_ladder_of_the_record() -> None:
    rows = story().attempts[1, "accounts_password_max_age"]
    assert [old_grade(row) for row in rows] == [0.0, 0.0, 0.0, 0.5]
