"""ADR-0019's exit criterion: agreement counted by hand, and what dropping the judge would change."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memory.credit import Signal
from scoring.exit_criterion import Standing, exit_report
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

JANUARY = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
FEBRUARY = datetime(2026, 2, 1, 0, 30, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def rows(
    n: int, *, when: datetime = JANUARY, skill: str = "stig", outcome: float = 1.0, **signals: Any
) -> None:
    """*n* rows of one run."""
    run = make_run(skill=skill)
    for _ in range(n):
        make_retrieval(attempt=make_attempt(run=run, outcome=outcome), retrieved_at=when, **signals)


def report(*args: str) -> str:
    out = StringIO()
    call_command("agreement_report", *args, stdout=out)
    return out.getvalue()


def test_agreement_is_counted_by_skill_and_month() -> None:
    rows(3, llm=True, emb=0.6, trace="followed")
    rows(1, llm=False, emb=0.9, trace="abstained")
    rows(2, when=FEBRUARY, llm=False, emb=0.1, trace="violated")
    rows(5, skill="cve", llm=True, emb=0.2)
    rows(4, emb=0.9)  # not judged
    rows(1, llm=True, emb=0.9, superseded=True)
    found = {(group.signal, group.skill, group.month): group for group in exit_report().groups}
    counts = {
        key[1:]: (group.agreement.raw.hits, group.agreement.raw.n, group.runs)
        for key, group in found.items()
        if key[0] is Signal.EMB
    }
    assert counts == {
        (None, None): (5, 11, 4),
        ("cve", None): (0, 5, 1),
        ("cve", "2026-01"): (0, 5, 1),
        ("stig", None): (5, 6, 3),
        ("stig", "2026-01"): (3, 4, 2),
        ("stig", "2026-02"): (2, 2, 1),
    }
    trace = found[Signal.TRACE, "stig", None]
    assert (trace.agreement.raw.hits, trace.agreement.raw.n) == (5, 5)
    assert trace.agreement.as_dict()["kappa"] == 1.0
    assert found[Signal.TRACE, "cve", None].standing(0.95) is Standing.UNKNOWN


def test_the_criterion_is_met_only_by_the_whole_interval() -> None:
    rows(60, llm=True, emb=0.9)
    overall = exit_report().of(Signal.EMB, None)
    # Wilson's lower end of 60/60 is 60 / (60 + 1.96^2) = 0.940
    assert overall.standing(0.93) is Standing.MET
    assert overall.standing(0.95) is Standing.NOT_SHOWN
    rows(4, llm=False, emb=0.9)
    assert exit_report().of(Signal.EMB, None).standing(0.95) is Standing.NOT_MET
    assert exit_report().of(Signal.TRACE, None).standing(0.0) is Standing.UNKNOWN


def test_the_cost_of_dropping_the_judge_is_a_recount_of_credit() -> None:
    harmful, vague = make_tip(), make_tip()
    rows(6, llm=True, emb=0.9)  # same credit with either
    rows(2, llm=True, emb=0.1)  # 1 -> 0
    rows(2, llm=False, emb=0.9, outcome=0.5)  # 0 -> 0.5
    rows(1, llm=True)  # 1 -> 0.5: nobody would know
    rows(1, llm=True, emb=0.1, outcome=0.0, tip=harmful)  # credit 0 either way, but misleading
    rows(1, llm=False, emb=0.9, outcome=0.0, tip=vague)
    rows(3, emb=0.9)  # not judged: nothing changes
    rows(1, llm=True, emb=0.1, review=True)  # a review stays
    [cost] = [cost for cost in exit_report().costs if cost.signal is Signal.EMB]
    assert (cost.changed.hits, cost.changed.n) == (5, 14)
    assert cost.mean_change == pytest.approx((2 * 1 + 2 * 0.5 + 0.5) / 14)
    assert (cost.lost.hits, cost.lost.n, cost.raised) == (1, 1, 1)


def test_the_trace_may_keep_what_the_cosine_would_lose() -> None:
    rows(1, llm=True, emb=0.1, trace="followed", outcome=0.0)
    lost = {cost.signal: cost.lost.hits for cost in exit_report().costs}
    assert lost == {Signal.EMB: 1, Signal.TRACE: 0}


def test_rows_of_a_judge_below_a_billion_are_left_out_and_counted() -> None:
    rows(2, llm=True, emb=0.9, llm_source="judge-7b@0")
    rows(3, llm=True, emb=0.9, llm_source="SmolLM2-135M@0")
    found = exit_report()
    assert found.too_small == 3
    assert found.of(Signal.EMB, None).agreement.raw.n == 2
    assert found.costs[0].changed.n == 2


def test_it_says_in_words_whether_the_criterion_is_met() -> None:
    rows(60, llm=True, emb=0.9, skill="evil\x1b[2J[red]")
    text = report("--threshold", "0.9")
    assert "Met overall: embedding" in text
    assert "60/60" in text
    assert "At 90 % the judge could be dropped in: evil\\x1b[2J[red] (embedding instead)." in text
    assert "Cannot be checked overall" in text
    assert "\x1b" not in text
    assert "evil\\x1b[2J[red]" in text
    text = report()
    assert "Not shown overall: embedding" in text
    assert "At 95 % the judge could be dropped in: no skill." in text


def test_the_json_is_complete_and_since_and_skill_choose_rows() -> None:
    rows(1, llm=True, emb=0.9)
    rows(1, when=FEBRUARY, llm=True, emb=0.1)
    found = json.loads(report("--json", "--since", "2026-02-01", "--skill", "stig"))
    assert found["criterion"] == {"emb": "not_met", "trace": "unknown"}
    overall = found["agreement"][0]
    assert (overall["agreement"]["hits"], overall["agreement"]["n"]) == (0, 1)
    assert found["cost_of_dropping_the_judge"][0]["credit_changes"]["n"] == 1


def test_an_empty_database_is_no_failure() -> None:
    assert "Cannot be checked overall" in report()


@pytest.mark.parametrize(
    "args",
    [("--skill", "nope"), ("--since", "yesterday"), ("--threshold", "95"), ("--threshold", "x")],
)
def test_what_makes_no_sense_is_named(args: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=args[1]):
        report(*args)


def test_a_judge_without_a_calibration_is_named_with_its_rows() -> None:
    rows(3, llm=True, emb=0.7)
    [source] = json.loads(report("--json"))["uncalibrated_sources"]
    assert source["rows"] == 3
    assert f"uncalibrated judges: {source['source']} 3 rows" in " ".join(report().split())
