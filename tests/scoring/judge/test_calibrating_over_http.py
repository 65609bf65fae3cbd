"""`calibrate_judge` against a server: what is stored of the judge, and what is not when it fails.

The stand-in is no judge: its figures are looked at for the mechanics alone. Shaped by a calibration of
an address with nobody at it, which asked about every pair, was stored, and ended as a success.
"""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from scoring.calibrated import standing
from scoring.models import Calibration
from tests.scoring.judge.bench_rows import FOLLOWED, SCRIPT, attempt_with, judged, use_judge

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stand_ins.judge_server import JudgeServer

pytestmark = pytest.mark.django_db

PAIRS = 40


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Pairs of as many rules and scripts."""
    path = tmp_path / "pairs.jsonl"
    rows = [
        {
            "tip": f"Write `option{number}` to the file.",
            "script": f"echo option{number} > /etc/app.conf"
            if number % 2
            else f"true # {number}\n",
            "followed": bool(number % 2),
            "kind": "plain",
            "rule_id": f"rule{number}",
        }
        for number in range(PAIRS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(path: Path, *args: str) -> str:
    out = StringIO()
    call_command(
        "calibrate_judge", "--pairs", str(path), "--signals", "trace,judge", *args, stdout=out
    )
    return out.getvalue()


def test_a_calibration_holds_what_answered_and_how_it_was_asked(
    judge: JudgeServer, settings: Any, pairs: Path
) -> None:
    use_judge(settings, judge)
    report = json.loads(run(pairs, "--json", "--prompt", "stig"))
    assert report["judge"]["served"] == [
        {"model": "stand-in-judge", "fingerprint": "stand-in-1", "decided": PAIRS}
    ]
    row = Calibration.objects.get(signal="judge")
    assert row.served == report["judge"]["served"]
    assert (row.asked["mode"], row.asked["tips"]) == ("per_attempt", 5)
    assert row.asked["sampling"]["temperature"] == 0
    assert Calibration.objects.get(signal="trace").served == []
    text = run(pairs, "--dry-run")
    assert f"- it answered as stand-in-judge, fingerprint stand-in-1: {PAIRS} pairs decided" in text
    assert "- asked per_attempt, 5 tips a question; temperature 0" in text


def test_another_model_behind_the_same_name_has_the_mark(
    judge: JudgeServer, settings: Any, pairs: Path
) -> None:
    use_judge(settings, judge)
    run(pairs, "--prompt", "stig")
    (row,) = judged(attempt_with(FOLLOWED).run)
    assert standing([row.llm_source]).uncalibrated == set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.stand_ins.judge_protocol.FINGERPRINT", "stand-in-2")
        (other,) = judged(attempt_with(FOLLOWED, script=f"{SCRIPT}true\n").run)
    assert other.llm_source == row.llm_source
    assert standing([row.llm_source]).uncalibrated == {row.llm_source}


@pytest.mark.parametrize(
    ("fault", "named", "at_most"),
    [
        ("401", "JudgeMisconfigured", 8),
        ("429_quota", "JudgeQuotaExhausted", 8),
        ("402", "JudgeQuotaExhausted", 8),
        ("500", "JudgeServerFault", 12),
        ("400", "JudgeRequestRefused", 12),
        ("hang", "JudgeTimeout", 12),
    ],
)
def test_a_judge_that_fails_ends_it_and_nothing_is_stored(
    judge: JudgeServer, settings: Any, pairs: Path, fault: str, named: str, at_most: int
) -> None:
    use_judge(settings, judge, JUDGE_READ_TIMEOUT_S=0.5 if fault == "hang" else 2.0)
    judge.control(fault=fault)
    with pytest.raises(
        CommandError, match=f"nothing was stored, the judge failed: {named}"
    ) as ended:
        run(pairs)
    assert ended.value.returncode == 1
    assert judge.counters()["questions"] <= at_most
    assert not Calibration.objects.exists()


def test_nobody_at_the_address_ends_it_and_nothing_is_stored(
    judge: JudgeServer, settings: Any, pairs: Path
) -> None:
    use_judge(settings, judge, JUDGE_BASE_URL="http://127.0.0.1:9/v1")
    with pytest.raises(CommandError, match="JudgeUnreachable"):
        run(pairs)
    assert not Calibration.objects.exists()


def test_a_judge_that_answered_none_of_a_few_pairs_is_no_calibration(
    judge: JudgeServer, settings: Any, pairs: Path
) -> None:
    use_judge(settings, judge)
    judge.control(fault="garbage")
    pairs.write_text("".join(pairs.read_text().splitlines(keepends=True)[:3]))
    with pytest.raises(CommandError, match="no verdict on any of 3 pairs"):
        run(pairs)
    assert not Calibration.objects.exists()


def test_a_report_that_cannot_be_written_is_refused_before_a_call(
    judge: JudgeServer, settings: Any, pairs: Path, tmp_path: Path
) -> None:
    use_judge(settings, judge)
    file = tmp_path / "file"
    file.write_text("mine")
    folder = tmp_path / "folder"
    (folder / "calibration.md").mkdir(parents=True)
    for out in (file, file / "below", folder):
        with pytest.raises(CommandError) as refused:
            run(pairs, "--out", str(out))
        assert refused.value.returncode == 2
    assert judge.counters()["questions"] == 0
    assert not Calibration.objects.exists()
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"JUDGE_BASE_URL": "ftp://judge"}, "base_url must look like"),
        ({"prompt": "sitg"}, "'sitg' is no skill"),
        ({"prompt": "a" * 64}, "is no skill"),
    ],
)
def test_what_can_never_work_is_refused_by_name(
    judge: JudgeServer, settings: Any, pairs: Path, wrong: dict[str, str], says: str
) -> None:
    prompt = wrong.pop("prompt", "stig")
    use_judge(settings, judge, **wrong)
    with pytest.raises(CommandError, match=says) as refused:
        run(pairs, "--prompt", prompt)
    assert refused.value.returncode == 2
    assert judge.counters()["questions"] == 0
