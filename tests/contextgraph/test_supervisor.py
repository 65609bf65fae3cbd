"""A supervisor leaves nobody behind, whoever dies first and however.

Each test runs a real supervisor in a process of its own and kills real children. The children are
small shell or Python programs, because what they do is not the subject.

Not tested here: what a Celery worker makes of the SIGTERM that it gets.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contextgraph import supervisor
from contextgraph.embedded import location
from contextgraph.embedded.processes import start_mark
from contextgraph.supervisor import children, output, record

CHECKOUT = Path(__file__).resolve().parents[2]
RUN = """
import json, sys
from pathlib import Path
from contextgraph.supervisor import ProcessSpec, Supervisor
root, specs, quiet, grace = json.loads(sys.argv[1])
specs = [ProcessSpec(name, ["sh", "-c", script], {"WORD": "from the spec"}) for name, script in specs]
Supervisor(Path(root), specs, quiet=quiet, grace_seconds=grace).run()
"""
SLEEPER = "exec sleep 60"
STUBBORN = "trap '' TERM; sleep 60 & while :; do sleep 0.1; done"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Start supervisors of tmp_path, and see to their end."""
    monkeypatch.delenv(location.STATE_DIR_ENV, raising=False)
    started = []

    def _run(*specs, quiet=False, grace=5.0):
        argument = json.dumps([str(tmp_path), specs, quiet, grace])
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, argument],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        wait_until(lambda: status_of(tmp_path, len(specs)) or process.poll() is not None)
        return process

    yield _run
    supervisor.stop(tmp_path)
    for process in started:
        process.kill()
        process.communicate()


def status_of(root, count):
    """Answer the status once all children run."""
    status = supervisor.running(root)
    return status if status is not None and len(status.living_children) == count else None


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.02)
    return value


def members(group):
    """Answer the living pids of a process group."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(place.name))
    return found


def test_output_is_relayed_under_its_name_and_sigterm_ends_everybody(run, tmp_path):
    process = run(("web", f"echo hello $WORD; {SLEEPER}"), ("scheduler", SLEEPER))
    groups = [child.pid for child in supervisor.running(tmp_path).children]
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "web        | hello from the spec\n" in text
    assert "scheduler stopped (SIGTERM)" in text
    assert [members(group) for group in groups] == [[], []]
    assert supervisor.running(tmp_path) is None
    assert not (tmp_path / ".contextgraph" / "supervisor.json").exists()


def test_ctrl_c_stops_too_and_lets_children_finish_their_work(run, tmp_path):
    script = (
        "trap 'sleep 0.3; echo finished; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    )
    process = run(("worker", script))
    wait_until(lambda: process.stdout.readline().endswith("ready\n"))
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert "worker     | finished\n" in text
    assert "worker stopped (exit code 0)" in text
    assert process.returncode == 0


def test_a_crashed_child_is_started_again_and_its_orphans_are_ended(run, tmp_path):
    run(("worker", "sleep 60 & while :; do sleep 0.1; done"))
    first = supervisor.running(tmp_path).children[0]
    wait_until(lambda: len(members(first.pid)) >= 2)
    os.kill(first.pid, signal.SIGKILL)
    second = wait_until(  # the killed one may still be seen for a moment
        lambda: (now := status_of(tmp_path, 1)) and now.children[0].starts == 2 and now.children[0]
    )
    assert second.pid != first.pid
    assert members(first.pid) == []


def test_a_command_that_cannot_be_run_is_tried_again_and_stops_nobody(tmp_path, monkeypatch):
    monkeypatch.setenv(location.STATE_DIR_ENV, str(tmp_path))
    lines = []

    class Recorder:
        def write(self, name, line):
            lines.append((name, line.decode()))
            if b"cannot be started" in line and len(lines) > 2:
                os.kill(os.getpid(), signal.SIGTERM)

    missing = supervisor.ProcessSpec("missing", ["/nonexistent/program"])
    echo = supervisor.ProcessSpec("echo", ["sh", "-c", SLEEPER])
    supervisor.Supervisor(tmp_path, [missing, echo], sink=Recorder()).run()
    assert sum("missing cannot be started" in line for _, line in lines) == 2
    assert ("supervisor", "echo stopped (SIGTERM)") in lines


def test_a_child_that_ignores_sigterm_is_killed_with_its_group_after_the_grace(run, tmp_path):
    process = run(("stubborn", STUBBORN), grace=0.5)
    group = supervisor.running(tmp_path).children[0].pid
    wait_until(lambda: len(members(group)) >= 2)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=60)
    assert time.monotonic() - began > 0.4
    assert "stubborn stopped (SIGKILL)" in text
    assert members(group) == []


def test_a_second_signal_cuts_the_grace_short(run, tmp_path):
    process = run(("stubborn", STUBBORN), grace=60)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping" in process.stdout.readline())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert supervisor.running(tmp_path) is None


def test_children_leave_when_the_supervisor_is_killed(run, tmp_path):
    process = run(("web", SLEEPER), ("worker", SLEEPER))
    status = supervisor.running(tmp_path)
    process.kill()
    process.wait()
    wait_until(lambda: not status.living_children)
    assert supervisor.running(tmp_path) is None


def test_stop_ends_children_that_outlived_a_killed_supervisor(run, tmp_path):
    process = run(("stubborn", STUBBORN), grace=0.3)
    group = supervisor.running(tmp_path).children[0].pid
    wait_until(lambda: len(members(group)) >= 2)
    process.kill()
    process.wait()
    left = supervisor.running(tmp_path)
    assert not left.alive
    assert [child.name for child in left.living_children] == ["stubborn"]
    assert supervisor.stop(tmp_path)
    assert members(group) == []
    assert not supervisor.stop(tmp_path)


def test_stop_works_from_another_terminal(run, tmp_path):
    process = run(("web", SLEEPER))
    status = supervisor.running(tmp_path)
    assert (status.pid, status.alive) == (process.pid, True)
    # Somebody collects the ended process, as a shell would; else it stays a zombie, which is dead.
    assert supervisor.stop(tmp_path)
    assert process.wait(timeout=60) == 0
    assert not status.living_children


def test_a_second_supervisor_of_a_checkout_is_refused(run, tmp_path):
    run(("web", SLEEPER))
    second = supervisor.Supervisor(tmp_path, [supervisor.ProcessSpec("web", ["true"])])
    with pytest.raises(supervisor.AlreadyRunningError, match="Another supervisor"):
        second.run()
    assert status_of(tmp_path, 1)


def test_quiet_children_write_to_log_files(run, tmp_path):
    process = run(("web", f"echo hello; {SLEEPER}"), quiet=True)
    log = tmp_path / ".contextgraph" / "logs" / "web.log"
    wait_until(lambda: log.exists() and log.read_text() == "hello\n")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == ""


def test_a_stranger_with_a_recorded_pid_is_neither_shown_nor_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv(location.STATE_DIR_ENV, str(tmp_path))
    with subprocess.Popen(["sleep", "60"]) as stranger:
        wrong = f"{start_mark(stranger.pid)}0"
        child = record.ChildStatus("web", stranger.pid, wrong, 1)
        record.write(tmp_path, record.SupervisorStatus(stranger.pid, wrong, 0.0, 0.1, (child,)))
        assert supervisor.running(tmp_path) is None
        assert not supervisor.stop(tmp_path)
        assert stranger.poll() is None
        stranger.kill()


def test_a_damaged_record_names_nobody(tmp_path, monkeypatch):
    monkeypatch.setenv(location.STATE_DIR_ENV, str(tmp_path))
    for text in ("", "[]", '{"pid": 1}', '{"children": [1]}'):
        (tmp_path / "supervisor.json").write_text(text)
        assert supervisor.running(tmp_path) is None


def test_names_of_processes_must_differ(tmp_path):
    with pytest.raises(ValueError, match="must differ"):
        supervisor.Supervisor(tmp_path, [supervisor.ProcessSpec("web", ["true"])] * 2)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain \t text  ", "plain \t text"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;new title\x07after", "after"),
        (b"over\rwritten\x08\x00", "over?written??"),
        (b"\xff caf\xc3\xa9", "\ufffd caf\xe9"),
        (b"[bold]markup[/bold]", "[bold]markup[/bold]"),
    ],
)
def test_a_line_is_shown_and_not_obeyed(line, shown):
    assert output.printable(line) == shown


def test_the_pause_before_a_restart_is_random_and_bounded():
    pauses = [children.backoff_seconds(crashes) for crashes in range(200)]
    assert all(0.1 <= pause <= 30 for pause in pauses)
    assert all(children.backoff_seconds(0) <= 0.5 for _ in range(50))
    assert len({round(pause, 3) for pause in pauses}) > 100
