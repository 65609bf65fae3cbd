"""post_run: posted means the broker has it; followed means the rows say so."""

from __future__ import annotations

import json
import threading
import time
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from contextgraph.client import Receipt
from contextgraph.consumer import RunConsumer
from contextgraph.following import Follower, Posted
from contextgraph.ingest import ingest_envelope
from contextgraph.management.commands import post_run
from contextgraph.models import IncomingDocument
from memory.models import Run
from scoring.models import ScoreBatch
from tests.contextgraph.run_documents import body_of, envelope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def intake(broker) -> Iterator[None]:
    """A consumer, and a stand-in for the scorers: runs become final a moment after they arrive."""
    consumer = RunConsumer(announce=None)

    def score() -> None:
        try:
            while not consumer.should_stop:
                time.sleep(0.2)
                Run.objects.filter(status="ingested").update(status="done", done_at=timezone.now())
        finally:
            connection.close()

    def consume() -> None:
        try:
            consumer.run()
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for work in (score, consume)]
    for thread in threads:
        thread.start()
    yield
    consumer.stop()
    for thread in threads:
        thread.join(timeout=20)


def written(path: Path, document: dict[str, Any]) -> Path:
    path.write_bytes(body_of(document))
    return path


def post(*arguments: object, **options: Any) -> str:
    out = StringIO()
    call_command("post_run", *map(str, arguments), stdout=out, **options)
    return out.getvalue()


def test_posting_returns_once_the_broker_has_it(broker, tmp_path):
    out = json.loads(post(written(tmp_path / "a.json", envelope()), json=True))
    [item] = out["files"]
    assert item["parts"] == 1
    assert out["runs"] == []
    assert not Run.objects.exists()


def test_posting_asks_nothing_of_the_database(broker, tmp_path, django_assert_num_queries):
    path = written(tmp_path / "a.json", envelope())
    with django_assert_num_queries(0):
        assert "posted, 1 message" in post(path)


def test_following_on_a_database_without_tables_names_the_mend(broker, tmp_path):
    path = written(tmp_path / "a.json", envelope())
    with connection.cursor() as cursor:
        cursor.execute("SET search_path TO pg_catalog")
    try:
        assert "posted" in post(path)
        with pytest.raises(CommandError, match=r"^[^\n]*run: manage.py migrate$"):
            post(path, follow=True)
    finally:
        connection.close()  # the next one has the default path


def test_following_without_a_consumer_says_so_once_and_goes_on(
    broker, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(post_run, "HINT_AFTER_S", 0.3)
    path = written(tmp_path / "a.json", envelope())
    with pytest.raises(CommandError, match="not final after 3 s"):
        post(path, follow=True, timeout=3.0, json=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "consumer" in line] == [post_run.NOT_TAKEN]


def test_a_message_that_a_consumer_took_is_not_called_waiting(
    broker, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(post_run, "HINT_AFTER_S", 0.0)
    path = written(tmp_path / "a.json", envelope())
    posted: list[str] = []

    def take() -> None:
        try:
            while not posted:
                time.sleep(0.05)
            RunConsumer(announce=None, limit=1).run()
        finally:
            connection.close()

    consumer = threading.Thread(target=take)
    consumer.start()
    look = Follower.look

    def look_once_it_is_taken(follower: Follower) -> None:
        posted.append("now")
        consumer.join(timeout=20)
        look(follower)

    monkeypatch.setattr(Follower, "look", look_once_it_is_taken)
    with pytest.raises(CommandError, match="not final"):
        post(path, follow=True, timeout=2.0)
    assert "no consumer" not in capsys.readouterr().err


def test_following_ends_when_every_run_is_final(intake, tmp_path):
    files = [written(tmp_path / f"{name}.json", envelope(name)) for name in ("night-1", "night-2")]
    out = json.loads(post(*files, follow=True, timeout=30.0, json=True))
    assert [(run["external_id"], run["status"]) for run in out["runs"]] == [
        ("night-1", "done"),
        ("night-2", "done"),
    ]
    again = post(*files, follow=True, timeout=30.0)
    assert "stig/night-1: done" in again
    assert Run.objects.count() == 2


def test_a_refused_document_is_reported_at_once_with_its_reason(intake, tmp_path):
    path = written(tmp_path / "a.json", envelope())
    post(path, follow=True, timeout=30.0)
    written(path, envelope(attempts=3))
    started = time.monotonic()
    with pytest.raises(CommandError, match="refused") as caught:
        post(path, follow=True, timeout=60.0)
    assert caught.value.returncode == 1
    assert time.monotonic() - started < 20
    post(path, follow=True, revise=True, timeout=30.0)
    assert Run.objects.current().get().revision == 2


def test_a_file_that_is_no_run_is_reported_as_refused(intake, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"neither\x1b[2J this nor that")
    out = StringIO()
    with pytest.raises(CommandError, match="refused"):
        call_command("post_run", str(path), follow=True, timeout=30.0, stdout=out)
    assert "unreadable" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_a_claim_is_followed_too(intake, tmp_path, settings):
    settings.CLAIM_ROOTS = [str(tmp_path)]
    path = written(tmp_path / "a.json", envelope())
    out = json.loads(post(path, claim=True, follow=True, timeout=30.0, json=True))
    assert out["runs"][0]["status"] == "done"


def test_time_runs_out_with_status_two(broker, tmp_path):
    path = written(tmp_path / "a.json", envelope())
    with pytest.raises(CommandError, match="not final") as caught:
        post(path, follow=True, timeout=0.1)
    assert caught.value.returncode == 2


def test_a_missing_file_names_what_was_posted_before_it(broker, tmp_path):
    path = written(tmp_path / "a.json", envelope())
    with pytest.raises(CommandError, match="1 of 2 files posted"):
        post(path, tmp_path / "none.json")


def test_progress_counts_the_signals_of_closed_batches(tmp_path):
    [result] = ingest_envelope(envelope())
    Run.objects.update(status="scoring", scoring_round=1)
    for number, state in enumerate(["done", "new"]):
        ScoreBatch.objects.create(
            run_id=result.run_id, round=1, signal="trace", number=number, state=state,
            first_id=1 + 10 * number, last_id=10 + 10 * number, changed_at=timezone.now(),
        )  # fmt: skip
    item = followed(tmp_path, "d1")
    assert (item.status, item.scored, item.rows, item.final) == ("scoring", 10, 20, False)


def test_a_document_whose_run_was_revised_since_is_not_called_final(tmp_path):
    ingest_envelope(envelope())
    ingest_envelope(envelope(attempts=3), revise=True)
    now = timezone.now()
    IncomingDocument.objects.create(
        sha256="d1", parts=1, size=1, last_part_at=now, assembled_at=now
    )
    assert "another revision" in followed(tmp_path, "d1").refusal


def test_a_document_counts_as_taken_once_one_of_its_parts_has_come(tmp_path):
    before = timezone.now()
    IncomingDocument.objects.create(sha256="d1", parts=2, size=1, last_part_at=before)
    follower = follower_of(tmp_path, "d1")
    [item] = follower.items()
    assert not item.taken
    IncomingDocument.objects.update(last_part_at=timezone.now())
    follower.look()
    assert (item.taken, item.status) == (True, "posted")


def followed(tmp_path: Path, document: str) -> Any:
    [item] = follower_of(tmp_path, document).items()
    return item


def follower_of(tmp_path: Path, document: str) -> Follower:
    """After one look at the run of ``envelope()``, posted as *document*."""
    receipt = Receipt(document_sha256=document, log_sha256="", parts=1, size=1, bytes_on_wire=1)
    follower = Follower()
    follower.add(Posted(path=written(tmp_path / "a.json", envelope()), receipt=receipt))
    follower.look()
    return follower
