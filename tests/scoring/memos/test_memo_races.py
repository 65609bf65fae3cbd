"""Ten who ask at once, and a writer that is killed: one synthesis, no half memo, no lock that stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import DataError, connection, transaction

from scoring.memos import cache, memo_making
from scoring.memos.cache import Way
from scoring.memos.products import snapshot_of
from scoring.memos.service import memo
from scoring.models import Memo
from tests.scoring.memos.worlds import make_memo_world

if TYPE_CHECKING:
    from scoring.memos.memo_result import MemoResult

pytestmark = pytest.mark.django_db(transaction=True)

CHECKOUT = Path(__file__).resolve().parents[3]
WAIT_S = 60


@pytest.fixture(autouse=True)
def _world(settings: Any) -> None:
    settings.MEMOS, settings.SIGNALS = "off", ["trace"]
    make_memo_world()


def at_once(count: int, **how: Any) -> list[MemoResult]:
    start, made = threading.Barrier(count), []

    def ask() -> None:
        try:
            start.wait(WAIT_S)
            made.append(memo("run", "run-b", **how))
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    return made


def test_ten_requests_at_once_cost_one_synthesis(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    original = memo_making.synthesise

    def slow(snapshot: Any, **how: Any) -> Any:
        calls.append(threading.current_thread().name)
        time.sleep(1.0)  # so that the other nine are there before it is done
        return original(snapshot, **how)

    monkeypatch.setattr(memo_making, "synthesise", slow)
    made = at_once(10)
    assert len(calls) == 1
    assert [one.cached for one in made].count(False) == 1
    assert len({one.text for one in made}) == 1
    assert len(made) == 10
    assert (Memo.objects.count(), Memo.objects.get().hits) == (1, 9)
    assert locks() == 0


def test_without_the_cache_all_write_and_one_row_is_left() -> None:
    made = at_once(4, use_cache=False)
    assert not any(one.cached for one in made)
    assert Memo.objects.count() == 1


def test_a_wait_that_is_too_long_ends_in_a_synthesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WAIT_S", 0.3)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with cache.single_flight(key_of_run()):
                held.set()
                done.wait(WAIT_S)
        finally:
            connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(WAIT_S)
    try:
        assert not memo("run", "run-b").cached
    finally:
        done.set()
        thread.join(WAIT_S)


def test_a_synthesis_that_raises_leaves_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any, **_how: Any) -> None:
        raise RuntimeError("out of ink")

    with monkeypatch.context() as patch:
        patch.setattr(memo_making, "synthesise", broken)
        with pytest.raises(RuntimeError, match="out of ink"):
            memo("run", "run-b")
    assert locks() == 0
    assert not memo("run", "run-b").cached


# --- In a transaction of the caller -----------------------------------------------------------------


def test_a_transaction_that_fails_leaves_no_lock() -> None:
    """Once it is aborted nothing can be given back in it."""
    key = key_of_run()
    with pytest.raises(DataError), transaction.atomic(), cache.single_flight(key) as held:
        assert held
        assert locks() == 1
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
    assert locks() == 0


def test_in_a_transaction_the_lock_is_held_until_others_can_see_the_row() -> None:
    with transaction.atomic():
        assert not memo("run", "run-b").cached
        assert locks() == 1
        waiter, made = threading.Thread(target=lambda: made.extend(at_once(1))), []  # type: ignore[var-annotated]
        waiter.start()
        waiter.join(1.0)
        assert waiter.is_alive()
    waiter.join(WAIT_S)
    assert [one.cached for one in made] == [True]
    assert locks() == 0


# --- SIGKILL ----------------------------------------------------------------------------------------


def key_of_run() -> str:
    return Way("human", "writer").key(snapshot_of("run", "run-b"))


def locks() -> int:
    """Advisory locks that any session holds on this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return int(cursor.fetchone()[0])


def started(plan: str, mark: Path) -> subprocess.Popen[bytes]:
    database = connection.settings_dict
    environment = os.environ | {
        "DATABASE_URL": f"postgresql://{database['USER']}@/{database['NAME']}"
        f"?host={database['HOST']}&port={database['PORT']}",
        "DJANGO_SETTINGS_MODULE": "contextgraph.settings",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.scoring.memos.doomed", plan, str(mark), "run-b"],
        cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def wait_for(condition: Any, what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_writer_that_is_killed_at_work_leaves_no_row_and_no_lock(tmp_path: Path) -> None:
    mark = tmp_path / "writing"
    child = started("in-synthesis", mark)
    try:
        wait_for(lambda: mark.exists() or child.poll() is not None, "it never began to write")
        assert child.poll() is None
        assert locks() == 1, "it holds the lock while it writes"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(WAIT_S)
    assert not Memo.objects.exists()
    wait_for(lambda: locks() == 0, "the lock outlived its writer")
    made = memo("run", "run-b")
    assert (made.cached, Memo.objects.count()) == (False, 1)


def test_a_writer_that_is_killed_before_its_commit_leaves_no_half_memo(tmp_path: Path) -> None:
    mark = tmp_path / "inserted"
    child = started("before-commit", mark)
    assert child.wait(WAIT_S) == -signal.SIGKILL
    assert mark.exists()
    wait_for(lambda: locks() == 0, "the lock outlived its writer")
    assert not Memo.objects.exists()
    assert not memo("run", "run-b").cached
    assert memo("run", "run-b").cached
