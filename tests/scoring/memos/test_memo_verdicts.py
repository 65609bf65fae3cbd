"""Verdicts of memos: kept only if they are any, good as long as their judge is, no cost to a memo."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from scoring.judge import pause
from scoring.judge.bench import DEFAULT, HIGH_STAKES
from scoring.memos.memo_making import REJECTED
from scoring.memos.memo_text import memo_lines
from scoring.memos.service import memo_of
from scoring.memos.writer import write
from scoring.models import Memo
from tests.scoring.memos.snapshots import run
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from pathlib import Path

    from scoring.memos.memo_result import MemoResult

pytestmark = pytest.mark.django_db

NOBODY = "http://127.0.0.1:9/v1"
"""An address at which nothing listens."""


def asked(server: JudgeServer) -> int:
    return int(server.counters()["questions"])


def of_run(**how: Any) -> MemoResult:
    made = memo_of(run, **how)
    assert made.gate.passed
    return made


def back() -> None:
    """The judges are there again, and nobody waits for them any more."""
    for tier in (DEFAULT, HIGH_STAKES):
        pause.end(tier)


# --- An error is no verdict ---------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["401", "500", "extra_prose"])
@pytest.mark.parametrize("kept", [False, True])
def test_a_judge_that_gives_no_verdict_on_the_writers_text_is_asked_again(
    model: JudgeServer, strong: JudgeServer, fault: str, *, kept: bool
) -> None:
    if kept:
        of_run(variant="writer")
    strong.control(fault=fault)
    made = of_run(variant="writer", high_stakes=True)
    assert made.verdict is not None and made.verdict.error
    assert (made.text, made.cached) == (write(run(), mode="human"), kept)
    row = Memo.objects.get()
    assert (row.verdict, row.verdict_tier, row.accepted, row.judged_at) == (None, "", None, None)
    assert of_run(variant="writer").verdict is None, "it was for that request alone"
    strong.control(fault=None)
    back()
    again = of_run(variant="writer", high_stakes=True)
    assert again.verdict is not None and again.verdict.accepted
    assert (again.cached, Memo.objects.get().verdict_tier) == (True, "high_stakes")


@pytest.mark.parametrize("mode", ["skips", "shrugs", "phantom"])
def test_an_answer_that_cannot_be_read_costs_no_memo(
    model: JudgeServer, strong: JudgeServer, mode: str
) -> None:
    text = of_run().text
    strong.control(memo=mode)
    made = of_run(high_stakes=True)
    assert made.text == write(run(), mode="human")
    assert made.verdict is not None and made.verdict.error
    assert [side["text"] for side in made.sides if side["name"] == REJECTED] == [text]
    assert (made.row, of_run().text) == (None, text)
    strong.control(memo="honest")
    again = of_run(high_stakes=True)
    assert (again.text, again.cached, again.unmet) == (text, True, "")


def test_a_new_text_that_no_judge_could_look_at_is_not_served_and_its_row_has_no_verdict(
    model: JudgeServer, strong: JudgeServer
) -> None:
    strong.control(fault="500")
    made = of_run(high_stakes=True)
    assert made.text == write(run(), mode="human")
    row = Memo.objects.get()
    assert (row.verdict, row.accepted, row.verdict_tier) == (None, None, "")
    assert row.reason.startswith("judge: JudgeServerFault")
    assert [side["name"] for side in row.sides] == [REJECTED]


# --- What is kept stays -------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["single", "debate"])
@pytest.mark.parametrize("fault", ["500", "401", "extra_prose", "truncated"])
def test_a_model_that_fails_without_the_cache_costs_no_memo(
    model: JudgeServer, variant: str, fault: str
) -> None:
    text = of_run(variant=variant).text
    model.control(fault=fault)
    made = of_run(variant=variant, use_cache=False)
    assert (made.text, made.row) == (write(run(), mode="human"), None)
    assert made.reason
    again = of_run(variant=variant)
    assert (again.text, again.cached, again.by_model) == (text, True, True)


@pytest.mark.parametrize("memo", ["lying", "invents"])
def test_a_text_that_is_refused_or_rejected_does_not_take_the_place_of_one_that_was_not(
    model: JudgeServer, memo: str
) -> None:
    text = of_run().text
    model.control(memo=memo)
    assert of_run(use_cache=False).reason
    assert of_run().text == text


def test_a_judge_that_is_away_without_the_cache_costs_no_memo(
    model: JudgeServer, strong: JudgeServer
) -> None:
    text = of_run().text
    strong.control(fault="500")
    assert of_run(use_cache=False, high_stakes=True).row is None
    assert of_run().text == text


def test_what_may_not_be_served_any_more_is_not_spared(model: JudgeServer) -> None:
    of_run()
    Memo.objects.update(written_at=timezone.now() - timedelta(days=400))
    model.control(fault="500")
    made = of_run()
    assert (made.reason[:10], Memo.objects.get().text) == ("synthesis:", made.text)


# --- The judge of today -------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["writer", "single"])
def test_a_stronger_judge_of_another_model_is_asked_again(
    model: JudgeServer, strong: JudgeServer, settings: Any, variant: str
) -> None:
    of_run(variant=variant, high_stakes=True)
    written, first = asked(model), asked(strong)
    with JudgeServer(model="stronger-still") as other:
        settings.JUDGE_HIGH_STAKES_BASE_URL = other.base_url
        settings.JUDGE_HIGH_STAKES_MODEL = "stronger-still"
        made = of_run(variant=variant, high_stakes=True)
        assert made.verdict is not None and made.verdict.model == "stronger-still"
        assert (made.cached, asked(other)) == (True, 1)
        assert (asked(model), asked(strong)) == (written, first), "judged again only"
        assert of_run(variant=variant, high_stakes=True).calls == 0


def other_prompt(settings: Any, to: Path) -> None:
    """The prompts of today but for the judge's, which is another from now on."""
    shutil.copytree(settings.PROMPTS_DIR, to)
    path = to / "memo" / "judge.md"
    path.write_text(path.read_text().replace("## System\n", "## System\n\nBe strict.\n"))
    settings.PROMPTS_DIR = to


@pytest.mark.parametrize("variant", ["writer", "single"])
def test_a_judge_with_another_prompt_is_asked_again(
    model: JudgeServer, strong: JudgeServer, settings: Any, tmp_path: Path, variant: str
) -> None:
    old = of_run(variant=variant, high_stakes=True).verdict
    written, first = asked(model), asked(strong)
    other_prompt(settings, tmp_path / "prompts")
    new = of_run(variant=variant, high_stakes=True).verdict
    assert old is not None and new is not None
    assert old.prompt_sha != new.prompt_sha
    assert (asked(model), asked(strong)) == (written, first + 1), "judged again only"
    assert of_run(variant=variant, high_stakes=True).calls == 0


def test_an_acceptance_of_every_day_ends_with_its_prompt_too(
    model: JudgeServer, settings: Any, tmp_path: Path
) -> None:
    text, calls = of_run().text, asked(model)
    other_prompt(settings, tmp_path / "prompts")
    again = of_run()
    assert (again.text, again.cached, again.calls, asked(model)) == (text, True, 1, calls + 1)
    assert of_run().calls == 0


def test_a_text_of_a_model_whose_acceptance_was_taken_away_is_judged_again(
    model: JudgeServer,
) -> None:
    text = of_run().text
    Memo.objects.update(verdict=None, verdict_tier="", accepted=None, judged_at=None)
    made = of_run()
    assert (made.text, made.calls) == (text, 1)
    assert Memo.objects.get().accepted


# --- A request that is not met says so ----------------------------------------------------------------


def told(made: MemoResult) -> list[str]:
    return [line for line in memo_lines(made) if line.startswith("High stakes")]


def test_high_stakes_that_are_met_say_nothing_and_neither_do_none(
    model: JudgeServer, strong: JudgeServer
) -> None:
    for how in ({}, {"high_stakes": True}, {"high_stakes": True}):
        made = of_run(**how)
        assert (made.unmet, made.as_dict()["high_stakes_unmet"], told(made)) == ("", "", [])


@pytest.mark.parametrize("variant", ["writer", "single"])
def test_without_a_stronger_judge_the_memo_says_so(model: JudgeServer, variant: str) -> None:
    for _ in range(2):
        made = of_run(variant=variant, high_stakes=True)
        assert made.as_dict()["high_stakes_unmet"] == "no stronger judge is configured"
        assert told(made) == ["High stakes: not met, no stronger judge is configured"]


def test_without_any_model_it_says_so(settings: Any) -> None:
    settings.JUDGE_BASE_URL = settings.JUDGE_HIGH_STAKES_BASE_URL = ""
    assert told(of_run(high_stakes=True)) == [
        "High stakes: not met, no stronger judge is configured"
    ]


@pytest.mark.parametrize("variant", ["writer", "single"])
def test_a_stronger_judge_that_is_away_is_named(
    model: JudgeServer, strong: JudgeServer, settings: Any, variant: str
) -> None:
    of_run(variant=variant)
    settings.JUDGE_HIGH_STAKES_BASE_URL = NOBODY
    made = of_run(variant=variant, high_stakes=True)
    assert made.unmet.startswith("JudgeUnreachable")
    assert told(made)[0].startswith("High stakes: not met, JudgeUnreachable")


def test_the_writers_text_in_place_of_a_rejected_one_is_not_vouched_for(
    model: JudgeServer, strong: JudgeServer
) -> None:
    of_run()
    strong.control(memo="rejects")
    for _ in range(2):
        made = of_run(high_stakes=True)
        assert "has not seen the writer's" in made.unmet
    assert asked(strong) == 1


def test_a_verdict_against_the_writers_own_text_is_one(
    model: JudgeServer, strong: JudgeServer
) -> None:
    strong.control(memo="rejects")
    for _ in range(2):
        made = of_run(variant="writer", high_stakes=True)
        assert made.verdict is not None and not made.verdict.accepted
        assert made.unmet == ""
    assert json.loads(json.dumps(made.as_dict()))["verdict"]["accepted"] is False
    assert asked(strong) == 1
