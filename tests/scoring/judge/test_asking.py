"""Every tip that goes in comes out once, whatever a real server over real HTTP says.

Shaped by calls that asked for twenty verdicts, took eighteen for an answer, and by retry layers that
asked for ever.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scoring.judge import errors
from scoring.judge.asking import (
    MAX_REPLY_TOKENS,
    Answer,
    Failure,
    Outcome,
    Question,
    ask_about,
    groups_of,
)
from scoring.judge.client import JudgeClient, JudgeConfig
from scoring.judge.prompt import PromptLibrary
from scoring.judge.verdict import Label
from tests.conftest import CHECKOUT
from tests.stand_ins import judge_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scoring.judge.asking import Call
    from scoring.judge.reply import JudgeReply
    from tests.stand_ins.judge_server import JudgeServer

SCRIPT = "chronyc -a makestep\nsystemctl enable --now chronyd\n"
TIPS = (
    "step the clock with `chronyc -a makestep`",
    "mask `rsyslog`",
    "judge-says=not_applicable a tip about printers",
    "enable `chronyd`",
)
LABELS = [Label.FOLLOWED, Label.NOT_FOLLOWED, Label.NOT_APPLICABLE, Label.FOLLOWED]
PROMPT = PromptLibrary(CHECKOUT / "prompts").for_skill("stig")


@pytest.fixture
def client(judge: JudgeServer) -> Iterator[JudgeClient]:
    """Tries each call once."""
    config = JudgeConfig(judge.base_url, "stand-in-judge", max_tries=1)
    with JudgeClient(config) as made:
        yield made


def question(*tips: str, script: str = SCRIPT, max_tokens: int = 400) -> Question:
    budget = JudgeConfig("http://h", "m", max_tries=1, max_tokens=max_tokens).budget
    return Question(prompt=PROMPT, script=script, tips=tips, budget=budget)


def outcomes_of(
    ask: Any, asked: Question, *, per_call: int = 12, alone: Sequence[int] = ()
) -> tuple[list[Outcome], list[Call]]:
    """All outcomes in the order of the tips, and the calls; fails if a tip comes out twice or not."""
    found: dict[int, Outcome] = {}
    calls = []
    groups = groups_of(len(asked.tips), per_call=per_call, alone=alone)
    for step in ask_about(ask, asked, groups):
        assert not found.keys() & step.outcomes.keys(), "a tip came out twice"
        found |= step.outcomes
        calls += [step.call] if step.call else []
    assert sorted(found) == list(range(len(asked.tips))), "a tip did not come out"
    return [found[index] for index in sorted(found)], calls


def labels_of(outcomes: Sequence[Outcome]) -> list[Label | type[errors.JudgeError]]:
    return [one.verified.label if isinstance(one, Answer) else type(one.error) for one in outcomes]


@pytest.mark.parametrize(("per_call", "calls"), [(12, 1), (3, 2), (1, 4)])
def test_each_tip_gets_its_own_verdict_in_as_many_calls_as_it_takes(
    judge: JudgeServer, client: JudgeClient, per_call: int, calls: int
) -> None:
    outcomes, made = outcomes_of(client.ask, question(*TIPS), per_call=per_call)
    assert labels_of(outcomes) == LABELS
    assert (len(made), judge.counters()["questions"], judge.counters()["pairs"]) == (
        calls,
        calls,
        4,
    )
    assert sum(call.tips for call in made) == 4


def test_ids_are_new_in_every_call_and_the_order_is_shuffled(
    judge: JudgeServer, client: JudgeClient
) -> None:
    seen_ids: set[str] = set()
    orders = set()
    for _ in range(12):
        outcomes, _ = outcomes_of(client.ask, question(*TIPS))
        orders.add(tuple(one.position for one in outcomes if isinstance(one, Answer)))
        schema = json.loads(judge.seen[-1].body)["response_format"]["json_schema"]["schema"]
        ids = schema["properties"]["verdicts"]["required"]
        assert not seen_ids & set(ids)
        seen_ids |= set(ids)
    assert len(orders) > 1
    assert all(sorted(order) == [1, 2, 3, 4] for order in orders)


def test_a_verdict_that_the_reply_leaves_out_is_asked_for_alone_and_once(
    judge: JudgeServer, client: JudgeClient
) -> None:
    def forgetful(messages: Any, **asked: Any) -> JudgeReply:
        reply = client.ask(messages, **asked)
        content = json.loads(reply.content)
        content["verdicts"].popitem()
        return replace(reply, content=json.dumps(content))

    outcomes, calls = outcomes_of(forgetful, question(*TIPS))
    assert [call.tips for call in calls] == [4, 1]
    assert calls[1].again
    failed = [one for one in outcomes if isinstance(one, Failure)]
    assert [type(one.error) for one in failed] == [errors.VerdictIdInvalid]
    assert judge.counters()["questions"] == 2


def test_a_verdict_that_contradicts_itself_is_asked_for_again_and_the_others_stand(
    judge: JudgeServer, client: JudgeClient
) -> None:
    judge.control(fault="contradiction", times=1)
    outcomes, calls = outcomes_of(client.ask, question(*TIPS))
    assert labels_of(outcomes) == LABELS
    assert [call.tips for call in calls] == [4, 1]


@pytest.mark.parametrize("fault", ["extra_prose", "duplicate_id", "truncated", "400_context"])
def test_a_reply_that_cannot_be_read_is_asked_for_tip_by_tip(
    judge: JudgeServer, client: JudgeClient, fault: str
) -> None:
    judge.control(fault=fault, times=1)
    outcomes, calls = outcomes_of(client.ask, question(*TIPS))
    assert labels_of(outcomes) == LABELS
    assert [(call.tips, call.again) for call in calls] == [(4, False)] + [(1, True)] * 4


@pytest.mark.parametrize("fault", ["garbage", "two_choices", "huge"])
def test_a_body_that_is_no_reply_is_asked_for_once_more_as_it_was(
    judge: JudgeServer, client: JudgeClient, fault: str
) -> None:
    judge.control(fault=fault, times=1)
    outcomes, calls = outcomes_of(client.ask, question(*TIPS))
    assert labels_of(outcomes) == LABELS
    assert [call.tips for call in calls] == [4, 4]


@pytest.mark.parametrize("fault", ["401", "402", "400_quota", "500", "400", "reset"])
def test_what_asking_again_does_not_mend_costs_one_call(
    judge: JudgeServer, client: JudgeClient, fault: str
) -> None:
    judge.control(fault=fault)
    outcomes, calls = outcomes_of(client.ask, question(*TIPS))
    assert all(isinstance(one, Failure) for one in outcomes)
    assert judge.counters()["questions"] == len(calls) == 1


@pytest.mark.parametrize("fault", sorted(set(judge_faults.BODY) | set(judge_faults.CONTENT)))
def test_no_lasting_fault_yields_a_label_or_more_than_two_calls_a_tip(
    judge: JudgeServer, client: JudgeClient, fault: str
) -> None:
    judge.control(fault=fault)
    outcomes, calls = outcomes_of(client.ask, question(*TIPS[:2]))
    # faults of one verdict leave the other one of the same reply; alone, none is left
    harmless = fault in judge_faults.HARMLESS
    assert all(isinstance(one, Answer) for one in outcomes) if harmless else len(calls) >= 2
    assert len(calls) <= 3
    if not harmless:
        assert any(isinstance(one, Failure) for one in outcomes)


def test_a_second_asking_may_say_twice_as_much_up_to_a_cap(
    judge: JudgeServer, client: JudgeClient
) -> None:
    judge.control(fault="truncated", times=1)
    outcomes_of(client.ask, question(*TIPS[:2], max_tokens=400))
    outcomes_of(client.ask, question(*TIPS * 3, max_tokens=600))
    sent = [json.loads(seen.body)["max_tokens"] for seen in judge.seen]
    assert sent == [800, 800, 800, MAX_REPLY_TOKENS]


def test_a_tip_that_cannot_be_shown_is_settled_alone(
    judge: JudgeServer, client: JudgeClient
) -> None:
    outcomes, calls = outcomes_of(client.ask, question(TIPS[0], " \n", "x" * 9_000, TIPS[3]))
    assert [type(one) for one in outcomes] == [Answer, Failure, Failure, Answer]
    assert [one.error.reason for one in outcomes if isinstance(one, Failure)] == [
        "tip_text_unknown",
        "too_long",
    ]
    assert [call.tips for call in calls] == [2]


@pytest.mark.parametrize(("script", "reason"), [(" \n", "no_script"), ("a" * 24_001, "too_long")])
def test_a_script_that_cannot_be_shown_costs_no_call(
    judge: JudgeServer, client: JudgeClient, script: str, reason: str
) -> None:
    outcomes, calls = outcomes_of(client.ask, question(*TIPS, script=script))
    assert {one.error.reason for one in outcomes if isinstance(one, Failure)} == {reason}
    assert (len(outcomes), calls, judge.counters()["questions"]) == (4, [], 0)


def test_what_is_not_admitted_is_not_asked(judge: JudgeServer, client: JudgeClient) -> None:
    asked = question(*TIPS)
    groups = groups_of(4, per_call=2)
    steps = list(ask_about(client.ask, asked, groups, admit=lambda indices: indices[:1]))
    assert [sorted(step.outcomes) for step in steps] == [[0], [2]]
    assert judge.counters()["pairs"] == 2


def test_tips_that_go_alone_come_last() -> None:
    assert groups_of(5, per_call=2, alone={1, 3}) == [[0, 2], [4], [1], [3]]
    assert groups_of(0, per_call=2) == []


FAULTS = st.sampled_from(
    [None, *sorted(set(judge_faults.BODY) | set(judge_faults.CONTENT)), "500", "401"]
)


@hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(faults=st.lists(FAULTS, min_size=1, max_size=12), per_call=st.integers(1, 5))
def test_any_sequence_of_faults_settles_every_tip_once(
    judge: JudgeServer, client: JudgeClient, faults: list[str | None], per_call: int
) -> None:
    coming = iter(faults)

    def ask(messages: Any, **asked: Any) -> JudgeReply:
        judge.control(fault=next(coming, None))
        return client.ask(messages, **asked)

    outcomes, calls = outcomes_of(ask, question(*TIPS), per_call=per_call)
    for one, expected in zip(outcomes, LABELS, strict=True):
        assert isinstance(one, Failure) or one.verified.label in {expected, Label.UNCLEAR}
    assert len(calls) <= 8
