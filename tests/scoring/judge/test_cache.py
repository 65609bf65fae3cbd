"""What is known is not asked for again, what changed is, and what proved nothing is never kept.

Shaped by caches that kept errors, and by one that went on serving a prompt's answers after the prompt
was rewritten.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from scoring.judge import bench, cache, service
from scoring.judge.cache import Served, request_key
from scoring.judge.config import JudgeConfig
from scoring.models import JudgeCall, Judgement, VerdictCache
from tests.concurrency import Job
from tests.conftest import CHECKOUT
from tests.factories import make_run
from tests.scoring.judge.bench_rows import (
    FOLLOWED,
    IGNORED,
    SCRIPT,
    attempt_with,
    batch_of,
    due,
    held,
    judged,
    use_judge,
)
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db


def asked(judge: JudgeServer) -> tuple[int, int]:
    counted = judge.counters()
    return counted["questions"], counted["pairs"]


def test_a_pair_that_was_judged_costs_no_call_and_the_row_says_so(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    first, second = (judged(attempt_with(FOLLOWED, IGNORED).run) for _ in range(2))
    assert asked(judge) == (1, 2)
    assert JudgeCall.objects.count() == 1
    for old, new in zip(first, second, strict=True):
        was, hit = old.judgements.get(), new.judgements.get()
        assert (was.cached, hit.cached, hit.call) == (False, True, None)
        assert hit.request_key == was.request_key
        assert (hit.evidence, hit.reasoning) == (was.evidence, was.reasoning)
        assert hit.system_fingerprint == was.system_fingerprint != ""
        assert new.llm_label == old.llm_label
        assert (new.llm_tries, new.llm_source) == (0, old.llm_source)


def test_a_pair_that_two_rows_of_a_batch_share_is_asked_about_once(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    run = make_run()
    for _ in range(3):
        attempt_with(FOLLOWED, IGNORED, run=run)  # a rule's retries, with the very same script
    rows = judged(run)
    assert asked(judge) == (1, 2)
    assert [row.llm_label for row in rows] == ["followed", "not_followed"] * 3
    assert Judgement.objects.filter(cached=True).count() == 4


@pytest.mark.parametrize("how", ["setting", "context"])
def test_without_the_cache_every_row_is_asked_about(
    judge: JudgeServer, settings: Any, how: str
) -> None:
    use_judge(settings, judge, JUDGE_CACHE=how != "setting")
    run = make_run()
    for _ in range(2):
        attempt_with(FOLLOWED, IGNORED, run=run)
    if how == "context":
        with cache.switched_off():
            judged(run)
        assert cache.enabled()
    else:
        judged(run)
    assert asked(judge)[1] == 4
    assert not VerdictCache.objects.exists()
    assert not Judgement.objects.filter(cached=True).exists()


@pytest.mark.parametrize("says", ["unclear", "followed"])
def test_an_answer_that_proves_nothing_is_not_kept(
    judge: JudgeServer, settings: Any, says: str
) -> None:
    use_judge(settings, judge)
    for _ in range(2):
        judged(attempt_with(f"judge-says={says}", script="# only words\n").run)
    assert not VerdictCache.objects.exists()
    assert asked(judge)[1] == 2


def test_a_failure_is_not_kept_and_a_hit_is_found_after_it(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judge.control(fault="extra_prose")
    run = attempt_with(FOLLOWED).run
    judged(run)
    assert not VerdictCache.objects.exists()
    judge.control(fault=None)
    due(run)
    assert [row.llm_label for row in judged(run)] == ["followed"]
    assert VerdictCache.objects.count() == 1


@pytest.mark.parametrize("what", ["prompt", "model", "tip", "script", "secret"])
def test_whatever_the_verdict_depends_on_is_part_of_the_key(
    what: str, settings: Any, tmp_path: Path
) -> None:
    with JudgeServer() as judge, JudgeServer(model="other-judge") as other:
        use_judge(settings, judge)
        script = f"{SCRIPT}DB_PASSWORD=first-not-real\n"
        judged(attempt_with(FOLLOWED, script=script).run)
        tip = FOLLOWED
        if what == "prompt":
            shutil.copytree(CHECKOUT / "prompts", tmp_path / "prompts")
            file = tmp_path / "prompts" / "stig" / "tip_follow_judge.md"
            file.write_text(file.read_text() + "\n")
            settings.PROMPTS_DIR = tmp_path / "prompts"
            bench._bench.cache_clear()  # a fresh process: prompts are read once
        elif what == "model":
            use_judge(settings, other, JUDGE_MODEL="other-judge")
        elif what == "tip":
            tip += "!"
        elif what == "script":
            script += "true\n"
        else:
            script = script.replace("first", "second")  # sent, both are the same text
        judged(attempt_with(tip, script=script).run)
        questions = judge.counters()["questions"] + other.counters()["questions"]
    assert questions == (1 if what == "secret" else 2)
    bench._bench.cache_clear()


def test_every_ingredient_of_the_request_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    config = JudgeConfig("http://127.0.0.1:1", "m")
    served = Served("m-1", "fp-1")
    texts = {"prompt_sha256": "p", "tip": "t", "script": "s"}
    base = request_key(config, served, **texts)
    assert request_key(config, served, **texts) == base
    others = [
        request_key(replace(config, model="n"), served, **texts),
        request_key(replace(config, seed=1), served, **texts),
        request_key(replace(config, max_tokens=9), served, **texts),
        request_key(replace(config, thinking=True), served, **texts),
        request_key(config, Served("m-2", "fp-1"), **texts),
        request_key(config, Served("m-1", "fp-2"), **texts),
        *(request_key(config, served, **texts | {name: "x"}) for name in texts),
        request_key(config, served, **texts | {"tip": "t\ud800"}),
    ]
    monkeypatch.setattr(cache, "SCHEMA_SHA256", cache._sha256({"type": "array"}))
    others.append(request_key(config, served, **texts))
    assert len({base, *others}) == 1 + len(others)


def test_a_server_that_was_exchanged_is_noticed_at_the_first_call(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judged(attempt_with(FOLLOWED).run)
    found = bench.bench()
    assert found is not None
    found._served = Served("stand-in-judge", "newer")  # as another reply would have said it
    judged(attempt_with(FOLLOWED).run)
    assert asked(judge) == (2, 2)


def test_a_new_process_takes_the_fingerprint_from_the_latest_call(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judged(attempt_with(FOLLOWED).run)
    bench._bench.cache_clear()
    judged(attempt_with(FOLLOWED).run)
    assert asked(judge) == (1, 1)


def test_two_workers_that_keep_the_same_verdict_do_not_meet_an_error(
    judge: JudgeServer, settings: Any
) -> None:
    use_judge(settings, judge)
    judged(attempt_with(FOLLOWED).run)
    kept = VerdictCache.objects.get()
    cache.keep([VerdictCache(key=kept.key, label="contradicted", said="contradicted")])
    assert VerdictCache.objects.get().label == kept.label, "the first wins"


@pytest.mark.django_db(transaction=True)
def test_two_workers_that_keep_the_same_verdicts_never_wait_for_each_other() -> None:
    def keep(keys: str) -> None:
        with transaction.atomic():
            cache.keep([VerdictCache(key=key * 64, label="followed") for key in keys])

    with contextlib.ExitStack() as jobs, transaction.atomic():
        cache.keep([VerdictCache(key="m" * 64, label="followed")])
        first = jobs.enter_context(Job(lambda: keep("amb")))
        first.until_it_waits()  # with "a" in hand
        second = jobs.enter_context(Job(lambda: keep("ba")))
        second.until_it_waits()
    assert (first.error, second.error) == (None, None)
    assert VerdictCache.objects.count() == 3


def test_what_went_alone_before_is_found_in_company(judge: JudgeServer, settings: Any) -> None:
    use_judge(settings, judge)
    judged(attempt_with(FOLLOWED).run)
    service.score(held(batch_of(attempt_with(IGNORED, FOLLOWED).run)))
    assert asked(judge) == (2, 2)
