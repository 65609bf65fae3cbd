"""Labelled pairs are asked about as production asks, and a judge that fails is not paid to the end.

Shaped by a calibration that asked about each tip alone while production asked about five at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scoring.judge import service
from scoring.judge.cache import Served
from scoring.judge.errors import (
    JudgeError,
    JudgeMisconfigured,
    JudgeQuotaExhausted,
    JudgeRequestRefused,
    JudgeServerFault,
    JudgeUnreachable,
    VerdictError,
)
from scoring.judge.verdict import Label
from scoring.models import JudgeCall, Judgement
from tests.scoring.judge.bench_rows import FOLLOWED, IGNORED, SCRIPT, use_judge
from tests.stand_ins.judge_protocol import read_question

if TYPE_CHECKING:
    from scoring.judge.pair_asking import PairVerdict
    from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db

WORDS = "judge-says=followed about `followed`"


def numbered(n: int) -> list[tuple[str, str]]:
    """As many scripts as pairs: one question each."""
    return [(f"Do {number} things", f"{SCRIPT}# {number}\n") for number in range(n)]


def tips_asked(judge: JudgeServer) -> list[set[str]]:
    """The tips of each question, as the server saw them."""
    seen = [
        read_question(one.body, model="stand-in-judge", max_model_len=32_768) for one in judge.seen
    ]
    return [set(question.tips.values()) for question in seen]


def labels(found: list[PairVerdict | None]) -> list[Label | None]:
    return [one and one.label for one in found]


def test_pairs_come_back_in_order_with_their_verified_labels(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    pairs = [
        (FOLLOWED, SCRIPT),
        (IGNORED, "true\n"),
        (IGNORED, SCRIPT),
        (WORDS, "# only words\n"),
        (" ", SCRIPT),
    ]
    steps: list[int] = []
    found = service.ask_pairs(pairs, skill="stig", advance=steps.append)
    assert labels(found) == [
        Label.FOLLOWED, Label.NOT_FOLLOWED, Label.NOT_FOLLOWED, Label.UNCLEAR, None,
    ]  # fmt: skip
    assert {one.served for one in found if one} == {Served("stand-in-judge", "stand-in-1")}
    assert judge.counters()["questions"] == 3, "pairs of one script share a call"
    assert sum(steps) == 5
    assert not Judgement.objects.exists()
    assert not JudgeCall.objects.exists()


# --- As production asks ---------------------------------------------------------------------------


def test_a_question_is_filled_up_with_tips_of_other_pairs_which_count_for_nothing(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    pairs = [*numbered(6), ("judge-says=contradicted never", "false\n")]
    found = service.ask_pairs(pairs, skill="stig")
    asked = tips_asked(judge)
    assert [len(tips) for tips in asked] == [5] * 7
    assert all(len([tip for tip, _ in pairs if tip in tips]) == 5 for tips in asked)
    assert len(found) == 7
    alone = [service.ask_pairs([pair], skill="stig")[0] for pair in pairs]
    assert labels(found) == labels(alone), "the stand-in answers for each tip by itself"
    judge.control(reset=True)
    service.ask_pairs(pairs[::-1], skill="stig")
    again = tips_asked(judge)
    assert sorted(map(sorted, again)) == sorted(map(sorted, asked)), "the same companions each time"


@pytest.mark.parametrize(
    ("wanted", "limit", "mode", "asked"),
    [
        (3, 12, "per_attempt", 3),
        (9, 4, "per_attempt", 4),
        (9, 12, "per_attempt", 7),
        (1, 12, "per_attempt", 1),
        (5, 12, "per_tip", 1),
    ],
)
def test_a_question_holds_as_many_tips_as_wanted_allowed_and_there(
    judge: JudgeServer, settings: Any, wanted: int, limit: int, mode: str, asked: int
) -> None:
    use_judge(settings, judge, JUDGE_TIPS_PER_CALL=limit, JUDGE_MODE=mode)
    service.ask_pairs(numbered(7), skill="stig", tips=wanted)
    assert [len(tips) for tips in tips_asked(judge)] == [asked] * 7


def test_the_labelled_tips_of_a_script_come_in_parts_and_none_twice(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    of_one = [(f"Tip {number}", SCRIPT) for number in range(7)]
    found = service.ask_pairs([*of_one, ("Other", "true\n")], skill="stig")
    assert None not in found
    whole, other, rest = sorted(tips_asked(judge), key=lambda tips: ("Other" in tips, -len(tips)))
    assert whole == {f"Tip {number}" for number in range(5)}
    assert rest == {"Tip 5", "Tip 6", "Other"}
    assert len(other) == 5


# --- A judge that fails ---------------------------------------------------------------------------


def test_pairs_meet_a_wrong_key_once_and_name_another_model(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge, JUDGE_CONCURRENCY=1)
    with pytest.raises(JudgeMisconfigured):
        service.ask_pairs(numbered(20), skill="stig", model="another")
    assert judge.counters()["questions"] == 1
    judge.control(fault="402")
    with pytest.raises(JudgeQuotaExhausted):
        service.ask_pairs(numbered(1), skill="stig")


@pytest.mark.parametrize(
    ("fault", "error", "calls"),
    [
        ("500", JudgeServerFault, 5),
        ("400", JudgeRequestRefused, 5),
        ("garbage", JudgeError, 40),  # each question is put once more
        ("other_schema", VerdictError, 40),
    ],
)
def test_a_judge_that_never_answers_is_asked_a_bounded_number_of_times(
    judge: JudgeServer, settings: Any, fault: str, error: type[JudgeError], calls: int
) -> None:
    use_judge(settings, judge, JUDGE_CONCURRENCY=1)
    judge.control(fault=fault)
    with pytest.raises(error):
        service.ask_pairs(numbered(60), skill="stig", tips=1)
    assert judge.counters()["questions"] == calls


def test_nobody_at_the_address_is_noticed_after_a_few_pairs(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge, JUDGE_BASE_URL="http://127.0.0.1:9/v1")
    done: list[int] = []
    with pytest.raises(JudgeUnreachable):
        service.ask_pairs(numbered(60), skill="stig", advance=done.append)
    assert len(done) < 20


def test_failures_that_are_not_in_a_row_are_pairs_without_a_verdict(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge, JUDGE_CONCURRENCY=1)
    pairs = [
        (f"{tip} judge-fault=500" if number % 5 else tip, script)
        for number, (tip, script) in enumerate(numbered(30))
    ]
    found = service.ask_pairs(pairs, skill="stig", tips=1)
    assert [one is None for one in found] == [number % 5 > 0 for number in range(30)]


def test_questions_that_cannot_be_sent_do_not_count_as_failures(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    pairs = [("Tip", f"true # {number} {'x' * 30_000}") for number in range(30)]
    assert service.ask_pairs(pairs, skill="stig") == [None] * 30
    assert judge.counters()["questions"] == 0
