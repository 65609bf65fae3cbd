"""``diff_runs``: a comparison that can be read in a pipe, parsed from JSON, and trusted on a terminal."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from memory.models import Run
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

pytestmark = pytest.mark.django_db

HOSTILE = "append it\x1b[2J\x07 [bold red]now[/] \u202e<script>"


def diff_runs(*args: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("diff_runs", *args, stdout=out)
    return out.getvalue()


@pytest.fixture
def memory() -> tuple[Run, Run]:
    """A lost rule with a hostile tip that is retired now, and seven won ones."""
    a = make_run(external_id="run-a", status="done")
    b = make_run(external_id="run-b", status="done")
    tip = make_tip(
        external_id="bad", text=HOSTILE, retired_at=MOMENT, retired_reason="misleading\x1b[0m"
    )
    one = make_attempt(run=a, rule_id="lost", script="echo 1\nsame\tx\n")
    two = make_attempt(run=b, rule_id="lost", outcome=0.0, script="echo \x1b[31m2\nsame\tx\n")
    make_retrieval(attempt=one, tip=tip, llm=False, llm_label="not_followed")
    make_retrieval(attempt=two, tip=tip, rank=2, llm=True, llm_label="followed")
    make_retrieval(attempt=two, tip=make_tip(external_id="cut"), shown=False)
    for number in range(7):
        make_attempt(run=a, rule_id=f"won_{number}", outcome=0.0)
        make_attempt(run=b, rule_id=f"won_{number}", outcome=1.0)
    return a, b


@pytest.mark.usefixtures("memory")
def test_the_report_reads_without_colour_and_every_difference_has_its_p() -> None:
    text = diff_runs("run-a", "run-b")
    assert "\x1b" not in text
    for heading in (
        "Is the difference more than noise?",
        "Outcome matrix",
        "Categories, over the rules graded in both",
        "Regressions (1)",
        "Wins (7)",
        "Tips: the first 5 of each rule's first attempt",
        "Rules that differ in outcome or tips (8)",
        "Chronic failures (0)",
    ):
        assert heading in text
    assert (
        "success of any attempt: Too few pairs to tell: of 8 rules B won 7 and lost 1, "
        "difference +75.0 points"
    ) in text
    assert "p 0.070" in text
    assert text.index("lost [ssh] lost: A succeeded, B did not") < text.index("won_0 [ssh] won")
    assert "scripts: different, 14 characters in A, 19 characters in B" in text


@pytest.mark.usefixtures("memory")
def test_hostile_text_is_shown_but_never_obeyed() -> None:
    text = diff_runs("run-a", "run-b", "--rule", "lost")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "· bad: append it\\x1b[2J\\x07 [bold red]now[/] \\u202e<script>" in text
    assert "retired now: misleading\\x1b[0m" in text
    raw = diff_runs("run-a", "run-b", "--json")
    assert raw.isascii()
    assert json.loads(raw)["rules"][0]["pairs"][0]["tips"][1]["text"] == HOSTILE


@pytest.mark.usefixtures("memory")
def test_one_rule_is_shown_alone_with_its_scripts_side_by_side() -> None:
    text = diff_runs("run-a", "run-b", "--rule", "lost")
    assert "more than noise" not in text
    assert "won_0" not in text
    rows = [line.split() for line in text.splitlines()]
    assert ["echo", "1", "|", "echo", "\\x1b[31m2"] in rows
    assert ["same", "x", "same", "x"] in rows
    assert [
        "bad", "[strategy]", "moved",
        "1,", "ignored", "(llm),", "judge:", "not", "followed", "(uncalibrated),",
        "2,", "followed", "(llm),", "judge:", "followed", "(uncalibrated),",
    ] in rows  # fmt: skip
    assert ["credit", "+0.00", "credit", "+0.00"] in rows
    assert ["cut", "[strategy]", "new", "–", "1,", "not", "shown"] in rows


@pytest.mark.usefixtures("memory")
def test_the_matrix_of_the_last_runs_stars_what_stands_out() -> None:
    c = make_run(external_id="run-c", status="done")
    for number in range(7):
        make_attempt(run=c, rule_id=f"won_{number}", outcome=0.0)
    make_attempt(run=c, rule_id="lost", outcome=0.0)
    text = diff_runs("--matrix")
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "A \\ B 2 3" in rows
    assert "1 7/1 p 0.070 0/1 p 1.000" in rows
    assert "2 0/7 p 0.016*" in rows
    found = json.loads(diff_runs("--matrix", "--json", "--last", "2", "--skill", "stig"))
    assert [run["external_id"] for run in found["runs"]] == ["run-b", "run-c"]
    assert (found["version"], found["cells"][0]["regressions"]) == (1, 7)


@pytest.mark.usefixtures("memory")
def test_a_primary_key_and_a_limit_are_taken() -> None:
    a, b = Run.objects.get(external_id="run-a"), Run.objects.get(external_id="run-b")
    found = json.loads(diff_runs(str(a.pk), str(b.pk), "--json", "--limit", "2", "--k", "1"))
    assert (found["a"]["external_id"], found["limit"], found["k"]) == ("run-a", 2, 1)
    assert (len(found["rules"]), found["n_telling"]) == (2, 8)
    assert len(found["rules"][0]["pairs"][0]["tips"]) == 2  # one in A that is gone, one new in B


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((), "name two runs"),
        (("run-a",), "name two runs"),
        (("run-a", "run-a"), "are one run"),
        (("run-a", "nobody"), "'nobody'"),
        (("run-a", "run-\udcff"), "udcff"),
        (("run-a", "other"), "of skill 'stig' and run 'other' of 'cve'"),
        (("run-a", "other", "--skill", "stig"), "no run of skill 'stig' has .* 'other'"),
        (("run-a", "run-b", "--rule", "typo"), "neither run has a rule 'typo'"),
        (("run-a", "run-b", "--policy", "adr0021"), "adr0021"),
        (("run-a", "run-b", "--runs", "1"), "--runs is a number from 2 to 30, not 1"),
        (("run-a", "run-b", "--k", "0"), "'0' is not a whole number"),
        (("run-a", "run-b", "--matrix"), "neither runs nor a rule"),
        (("--matrix",), "name a skill with --skill; there are: 'cve', 'stig'"),
        (("--matrix", "--skill", "typo"), "skill 'typo'; there are"),
        (("--matrix", "--skill", "cve"), "skill 'cve' has 1 run"),
        (("--matrix", "--last", "99"), "--last is a number from 2 to 30"),
    ],
)
def test_what_cannot_be_compared_is_an_error_that_names_the_key(
    args: tuple[str, ...], named: str
) -> None:
    make_run(external_id="other", skill="cve")
    with pytest.raises(CommandError, match=named):
        diff_runs(*args)


def test_an_empty_memory_says_that_no_run_is_stored() -> None:
    with pytest.raises(CommandError, match="no run is stored yet"):
        diff_runs("--matrix")
    with pytest.raises(CommandError, match="no run has the external id"):
        diff_runs("a", "b")


def test_two_skills_with_one_external_id_ask_for_the_skill() -> None:
    for skill in ("stig", "cve"):
        make_run(external_id="night", skill=skill)
        make_run(external_id="day", skill=skill)
    with pytest.raises(CommandError, match="name one with --skill"):
        diff_runs("night", "day")
    assert json.loads(diff_runs("night", "day", "--skill", "cve", "--json"))["skill"] == "cve"
