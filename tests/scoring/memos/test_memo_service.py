"""Memos with a model, end to end over real HTTP: what is judged, kept, and when nothing is asked."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from scoring.memos.memo_making import REJECTED, GateRefused, Making
from scoring.memos.service import memo_of
from scoring.memos.writer import write
from scoring.models import JudgeCall, Memo
from tests.scoring.memos.snapshots import run

if TYPE_CHECKING:
    from scoring.memos.memo_result import MemoResult
    from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db

NOBODY = "http://127.0.0.1:9/v1"
"""An address at which nothing listens."""


def asked(server: JudgeServer) -> int:
    return int(server.counters()["questions"])


def of_run(**how: Any) -> MemoResult:
    made = memo_of(run, **how)
    assert made.gate.passed
    return made


def test_a_memo_of_a_model_is_judged_kept_and_served_at_no_inference(model: JudgeServer) -> None:
    first = of_run()
    assert first.by_model
    assert first.verdict is not None
    assert first.verdict.accepted
    assert (first.calls, asked(model)) == (2, 2)
    again = of_run()
    assert (again.cached, again.calls, asked(model)) == (True, 0, 2)
    assert again.text == first.text
    assert again.verdict == first.verdict
    assert again.rubric.composite == first.rubric.composite
    row = Memo.objects.get()
    assert (row.variant, row.accepted, row.verdict_tier, row.calls) == (
        "single",
        True,
        "default",
        2,
    )
    assert set(JudgeCall.objects.values_list("purpose", flat=True)) == {
        "memo_synthesis", "memo_judge",
    }  # fmt: skip


def test_a_debate_is_another_memo_with_both_sides_kept(model: JudgeServer) -> None:
    of_run()
    made = of_run(variant="debate")
    assert not made.cached
    assert [side["name"] for side in made.sides] == ["for", "against"]
    assert of_run(variant="debate").sides == made.sides
    assert {row.variant for row in Memo.objects.all()} == {"single", "debate"}


def test_the_setting_chooses_the_variant(model: JudgeServer, settings: Any) -> None:
    settings.MEMO_VARIANT = "debate"
    assert of_run().way.variant == "debate"
    settings.MEMO_VARIANT = "trio"
    with pytest.raises(ValueError, match="variant is one of"):
        of_run()
    with pytest.raises(ValueError, match="mode is one of"):
        of_run(mode="poem")


def test_the_writer_may_be_asked_for_although_there_is_a_model(model: JudgeServer) -> None:
    made = of_run(variant="writer")
    assert made.text == write(run(), mode="human")
    assert (made.verdict, made.by_model, asked(model)) == (None, False, 0)


def test_a_text_that_the_judge_rejects_is_kept_beside_the_writers(model: JudgeServer) -> None:
    model.control(memo="invents")
    made = of_run()
    assert made.text == write(run(), mode="human")
    assert made.reason.startswith("judge: statement")
    assert made.verdict is not None
    assert not made.verdict.accepted
    assert "weather" in next(side["text"] for side in made.sides if side["name"] == REJECTED)
    assert not made.by_model
    row = Memo.objects.get()
    assert (row.accepted, row.reason, row.text) == (False, made.reason, made.text)
    calls = asked(model)
    again = of_run()
    assert (again.cached, asked(model), again.text) == (True, calls, made.text)


def test_a_text_of_the_writer_in_a_models_place_is_tried_again_soon(model: JudgeServer) -> None:
    model.control(memo="lying")
    assert of_run().reason.startswith("synthesis: refused by the gate")
    model.control(memo="honest")
    assert of_run().reason, "it is kept for a while"
    Memo.objects.update(written_at=timezone.now() - timedelta(hours=2))
    made = of_run()
    assert (made.cached, made.reason, made.by_model) == (False, "", True)


def test_a_model_that_is_away_costs_no_report(model: JudgeServer, settings: Any) -> None:
    settings.JUDGE_BASE_URL = NOBODY
    made = of_run()
    assert made.text == write(run(), mode="human")
    assert made.reason.startswith("synthesis: JudgeUnreachable")


def test_a_changed_model_finds_nothing(model: JudgeServer, settings: Any) -> None:
    of_run()
    settings.JUDGE_MODEL = "another-model"
    assert not of_run().cached


# --- High stakes ------------------------------------------------------------------------------------


def test_a_high_stakes_request_is_judged_again_and_not_written_again(
    model: JudgeServer, strong: JudgeServer
) -> None:
    first = of_run()
    calls = asked(model)
    made = of_run(high_stakes=True)
    assert (asked(model), asked(strong)) == (calls, 1), "judged again only"
    assert (made.text, made.cached, made.calls) == (first.text, True, 1)
    assert made.verdict is not None
    assert (made.verdict.tier, made.verdict.model) == ("high_stakes", "stand-in-judge")
    assert of_run(high_stakes=True).cached
    assert of_run().verdict == made.verdict, "the stronger verdict serves every request"
    assert (asked(model), asked(strong)) == (calls, 1)


def test_a_memo_written_for_high_stakes_is_judged_by_that_tier_alone(
    model: JudgeServer, strong: JudgeServer
) -> None:
    made = of_run(high_stakes=True)
    assert (asked(model), asked(strong)) == (1, 1)
    assert made.verdict is not None
    assert made.verdict.tier == "high_stakes"


def test_what_the_stronger_judge_rejects_is_served_to_nobody_any_more(
    model: JudgeServer, strong: JudgeServer
) -> None:
    text = of_run().text
    strong.control(memo="rejects")
    made = of_run(high_stakes=True)
    assert made.text == write(run(), mode="human") != text
    assert made.reason.startswith("judge: ")
    assert of_run().text == made.text
    assert [side["text"] for side in made.sides if side["name"] == REJECTED] == [text]


def test_a_stronger_judge_that_is_away_vouches_for_nothing_and_spoils_nothing(
    model: JudgeServer, strong: JudgeServer, settings: Any
) -> None:
    first = of_run()
    settings.JUDGE_HIGH_STAKES_BASE_URL = NOBODY
    made = of_run(high_stakes=True)
    assert made.text == write(run(), mode="human")
    assert made.verdict is not None
    assert made.verdict.unavailable
    assert made.row is None
    assert of_run().text == first.text, "what was kept stays"


def test_without_a_stronger_judge_the_one_of_every_day_has_to_do(model: JudgeServer) -> None:
    made = of_run(high_stakes=True)
    assert made.verdict is not None
    assert made.verdict.tier == "default"
    assert of_run(high_stakes=True).cached


def test_without_any_model_high_stakes_are_served_unjudged(settings: Any) -> None:
    settings.JUDGE_BASE_URL = settings.JUDGE_HIGH_STAKES_BASE_URL = ""
    made = of_run(high_stakes=True)
    assert made.verdict is None
    assert of_run(high_stakes=True).cached
    assert made.as_dict()["verdict"] is None


def test_the_writers_text_is_judged_for_high_stakes(
    model: JudgeServer, strong: JudgeServer
) -> None:
    made = of_run(variant="writer", high_stakes=True)
    assert made.verdict is not None
    assert made.verdict.tier == "high_stakes"
    assert of_run(variant="writer", high_stakes=True).cached
    assert asked(strong) == 1


# --- A fault of our own -----------------------------------------------------------------------------


def test_a_writer_whose_text_is_refused_is_an_error_and_no_memo(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.JUDGE_BASE_URL = ""
    monkeypatch.setattr("scoring.memos.synthesis.write", lambda *_a, **_k: "It was 99.")
    with pytest.raises(GateRefused, match="run-7"):
        of_run()
    assert not Memo.objects.exists()


def test_making_asks_nobody_twice(model: JudgeServer) -> None:
    of_run()
    way = of_run().way
    assert Making(way).ready(run()) is not None
