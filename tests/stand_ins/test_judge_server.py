"""The judge stand-in as a process, and the switches that other tests rely on.

Shaped by test doubles that nobody tested: a fault that never fires makes every test pass.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import requests

from tests.stand_ins.judge_server import JudgeServer

ROOT = Path(__file__).resolve().parents[2]


def question(tip: str, script: str) -> dict[str, object]:
    text = f"[[SCRIPT 1 BEGIN]]\n{script}\n[[SCRIPT 1 END]]\n[[TIP 1 BEGIN]]\n{tip}\n[[TIP 1 END]]"
    return {"messages": [{"role": "user", "content": text}]}


def ask(
    url: str, tip: str = "edit /etc/issue", script: str = "cat /etc/issue"
) -> requests.Response:
    return requests.post(f"{url}/chat/completions", json=question(tip, script), timeout=5)


def test_it_runs_as_a_process_and_is_switched_at_run_time() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.stand_ins.judge_server",
        "--print-port",
        "--fault",
        "500",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            root = f"http://127.0.0.1:{int(process.stdout.readline())}"
            assert requests.get(f"{root}/health", timeout=5).status_code == 200
            assert ask(f"{root}/v1").status_code == 500
            requests.post(f"{root}/control", json={"fault": None}, timeout=5)
            assert ask(f"{root}/v1").status_code == 200
            counters = requests.get(f"{root}/counters", timeout=5).json()
            wrong = requests.post(f"{root}/control", json={"fault": "earthquake"}, timeout=5)
        finally:
            process.terminate()
    assert (counters["questions"], counters["faults"], counters["answered"]) == (2, 1, 1)
    assert (wrong.status_code, "earthquake" in wrong.text) == (400, True)


def test_a_fault_lasts_as_many_questions_as_were_ordered() -> None:
    with JudgeServer() as judge:
        judge.control(fault="503", times=2)
        assert [ask(judge.base_url).status_code for _ in range(4)] == [503, 503, 200, 200]


def test_a_request_may_carry_its_own_fault_whatever_the_others_get() -> None:
    with JudgeServer() as judge:
        assert ask(judge.base_url, script="# judge-fault=404").status_code == 404
        assert ask(judge.base_url).status_code == 200


def test_the_answer_depends_on_tip_and_script_alone() -> None:
    with JudgeServer() as judge:
        said = [
            ask(judge.base_url, tip, script).json()["choices"][0]["message"]["content"][:5]
            for tip, script in [
                ("edit /etc/issue", "cat /etc/issue"),
                ("edit /etc/issue", "cat /etc/motd"),
                ("run `aide` daily", "aide --check"),
                ("edit /etc/issue judge-says=false", "cat /etc/issue"),
                ("edit /etc/issue", "cat /etc/issue"),
            ]
        ]
        assert said == ["true,", "false", "true,", "false", "true,"]
        assert (judge.counters()["questions"], judge.counters()["distinct"]) == (5, 4)


def test_counters_are_reset_and_latency_is_kept() -> None:
    with JudgeServer(latency_ms=200) as judge:
        assert ask(judge.base_url).elapsed.total_seconds() >= 0.2
        judge.control(reset=True)
        assert set(judge.counters().values()) == {0}
        assert judge.seen == []
