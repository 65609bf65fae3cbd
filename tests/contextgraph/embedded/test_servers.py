"""The embedded servers keep what they acknowledged, start once, and harm nobody else.

Real servers, killed for real. Not tested here: a power loss.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading

import psutil
import psycopg
import pytest
import redis

from contextgraph import embedded
from contextgraph.embedded import location, processes, startup
from contextgraph.embedded.lock import exclusive
from contextgraph.embedded.valkey import Valkey
from tests.contextgraph.embedded.checkouts import (
    CHECKOUT,
    broker,
    database,
    pids,
    starter,
    wait_until,
)


def test_the_servers_outlive_their_starter_and_the_next_one_adopts_them(shared):
    process = starter(shared, durable=True)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    before = pids(shared)
    assert None not in before
    assert str(embedded.ensure_started(shared)) == output.strip()
    assert pids(shared) == before
    assert embedded.status(shared).up


def test_two_starters_at_once_start_one_pair(checkout):
    racing = [starter(checkout) for _ in range(2)]
    answers = [process.communicate(timeout=60)[0] for process in racing]
    assert [process.returncode for process in racing] == [0, 0], answers
    assert len(set(answers)) == 1
    found = location.find(checkout)
    family = processes.find(found.token, account=found.account)
    titles = [processes.command_line(process) for process in family]
    assert sum("/postgres -D " in title for title in titles) == 1
    assert sum("valkey-server" in title for title in titles) == 1


def test_variables_of_other_postgres_clients_redirect_nothing(shared, monkeypatch):
    for name, value in {"PGPORT": "1", "PGHOST": "nowhere.invalid", "PGUSER": "x"}.items():
        monkeypatch.setenv(name, value)
    embedded.stop(shared)
    embedded.ensure_started(shared)
    with database(shared) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)


def test_only_the_servers_account_may_look_inside(shared):
    embedded.ensure_started(shared)
    found = location.find(shared)
    for directory in (found.home / "postgres", found.home / "valkey", found.socket_dir, found.logs):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700, directory
    for place in (found.state_dir, found.home):
        assert place.stat().st_mode & 0o007 == 0, place
    for file in (*found.logs.iterdir(), found.state_dir / "location.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    for pid in pids(shared):
        assert psutil.Process(pid).uids().effective == found.account.uid != 0


def test_nothing_listens_on_tcp(shared):
    embedded.ensure_started(shared)
    for pid in pids(shared):
        assert psutil.Process(pid).net_connections("inet") == []


def test_rows_and_messages_survive_a_clean_stop(shared):
    embedded.ensure_started(shared)
    with database(shared) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (word text)")
        connection.execute("INSERT INTO kept VALUES ('a clean stop')")
    broker(shared).rpush("kept", "a clean stop")
    assert embedded.stop(shared) == ("Postgres", "Valkey")
    assert pids(shared) == (None, None)
    assert embedded.stop(shared) == ()
    embedded.ensure_started(shared)
    with database(shared) as connection:
        assert ("a clean stop",) in connection.execute("SELECT word FROM kept").fetchall()
    assert b"a clean stop" in broker(shared).lrange("kept", 0, -1)


def commit_until_it_fails(root, acknowledged):
    with database(root) as connection:
        connection.execute("DROP TABLE IF EXISTS numbers")
        connection.execute("CREATE TABLE numbers (n int)")
        try:
            for number in range(1_000_000):
                connection.execute("INSERT INTO numbers VALUES (%s)", [number])
                acknowledged.append(number)
        except psycopg.OperationalError:
            return


def push_until_it_fails(root, acknowledged):
    client = broker(root)
    client.delete("numbers")
    try:
        for number in range(1_000_000):
            client.rpush("numbers", number)
            acknowledged.append(number)
    except redis.ConnectionError:
        return


def kill_amid_writes(root, writer, pid):
    """SIGKILL a server while a client writes; answer what the client was promised."""
    acknowledged = []
    thread = threading.Thread(target=writer, args=(root, acknowledged))
    thread.start()
    wait_until(lambda: len(acknowledged) >= 100)
    os.kill(pid, signal.SIGKILL)
    thread.join(timeout=20)
    assert not thread.is_alive()
    return acknowledged


def test_no_acknowledged_row_is_lost_when_the_postmaster_is_killed(shared):
    embedded.stop(shared)
    # The starter lives on without collecting its child: the dead postmaster stays a zombie.
    parent = starter(shared, durable=True, then="; sys.stdout.flush(); import time; time.sleep(60)")
    try:
        parent.stdout.readline()
        postmaster = pids(shared)[0]
        acknowledged = kill_amid_writes(shared, commit_until_it_fails, postmaster)
        wait_until(lambda: psutil.Process(postmaster).status() == psutil.STATUS_ZOMBIE)
        embedded.ensure_started(shared)
        with database(shared) as connection:
            rows = {n for (n,) in connection.execute("SELECT n FROM numbers").fetchall()}
        assert set(acknowledged) <= rows
        # The broker is still a child of the starter and becomes a zombie too: that is "stopped".
        assert embedded.stop(shared) == ("Postgres", "Valkey")
    finally:
        parent.kill()
        parent.communicate()


def test_no_acknowledged_message_is_lost_when_the_broker_is_killed(shared):
    embedded.ensure_started(shared)
    acknowledged = kill_amid_writes(shared, push_until_it_fails, pids(shared)[1])
    embedded.ensure_started(shared)
    kept = {int(number) for number in broker(shared).lrange("numbers", 0, -1)}
    assert set(acknowledged) <= kept


def test_a_server_that_lost_its_socket_is_started_anew(shared, monkeypatch):
    monkeypatch.setattr(startup, "_DEAF_AFTER_SECONDS", 0.2)
    embedded.ensure_started(shared)
    before = pids(shared)
    for name in (".s.PGSQL.5432", "valkey.sock"):
        (location.find(shared).socket_dir / name).unlink()
    embedded.ensure_started(shared)
    assert embedded.status(shared).up
    assert not set(before) & set(pids(shared))


def test_strangers_are_left_alone(shared):
    """One has the pid of a dead server, one mentions the servers in its command line."""
    embedded.ensure_started(shared)
    found = location.find(shared)
    account = processes.identity_of(found.account)
    words = ["sh", "-c", "sleep 60; :", f"cluster_name={found.token}", "valkey-server"]
    with (
        subprocess.Popen(["sleep", "60"], **account) as numbered,
        subprocess.Popen(words, start_new_session=True, **account) as named,
    ):
        assert embedded.stop(shared) == ("Postgres", "Valkey")
        (found.home / "postgres" / "postmaster.pid").write_text(f"{numbered.pid}\n")
        assert embedded.stop(shared) == ()
        embedded.ensure_started(shared)
        assert [numbered.poll(), named.poll()] == [None, None]
        numbered.kill()
        os.killpg(named.pid, signal.SIGKILL)


def test_a_copied_checkout_runs_side_by_side_with_servers_and_data_of_its_own(checkout, shared):
    embedded.ensure_started(shared)
    with database(shared) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS copied AS SELECT 7 AS n")
    embedded.stop(shared)
    subprocess.run(["cp", "-a", str(shared / ".contextgraph"), str(checkout)], check=True)
    embedded.ensure_started(shared)
    embedded.ensure_started(checkout, durable=False)
    assert not set(pids(shared)) & set(pids(checkout))
    with database(checkout) as connection:
        assert connection.execute("SELECT n FROM copied").fetchone() == (7,)
    embedded.stop(checkout)
    assert embedded.status(shared).up


def test_a_failing_start_says_why(shared, monkeypatch):
    monkeypatch.setattr(startup, "_EARLY_EXITS_ALLOWED", 1)
    embedded.ensure_started(shared)
    embedded.stop(shared)
    settings = location.find(shared).home / "postgres" / "postgresql.conf"
    before = settings.read_text()
    settings.write_text(f"{before}\nno_such_setting = 1\n")
    with pytest.raises(embedded.ServerStartError, match="no_such_setting"):
        embedded.ensure_started(shared)
    settings.write_text(before)


def test_a_lock_whose_holder_was_killed_is_free(tmp_path):
    hold = (
        "import sys, time; from pathlib import Path; from contextgraph.embedded.lock import exclusive\n"
        "with exclusive(Path(sys.argv[1]), limit_seconds=1): print('held', flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", hold, str(tmp_path / "lock")]
    with subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with (
            pytest.raises(embedded.StateUnusableError, match="fuser"),
            exclusive(tmp_path / "lock", limit_seconds=0.1),
        ):
            pytest.fail("two holders of one lock")
        holder.kill()
        holder.wait()
        with exclusive(tmp_path / "lock", limit_seconds=0.1):
            pass


def test_a_broker_that_still_loads_its_data_does_not_count_as_up(checkout):
    embedded.endpoints(checkout)
    found = location.find(checkout)
    location.make_home(found)
    replies = [b"-LOADING Valkey is loading the dataset in memory\r\n", b"+PONG\r\n"]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(Valkey(found).socket))
        server.listen()

        def serve():
            for reply in replies:
                connection, _ = server.accept()
                with connection:
                    connection.recv(64)
                    connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        assert [Valkey(found).answers(), Valkey(found).answers()] == [False, True]
        thread.join()
