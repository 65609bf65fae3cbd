"""Documents in parts: any order, twice, late, corrupted, or a bomb."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import tracemalloc
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from contextgraph.client import options_line
from contextgraph.models import IncomingDocument, IncomingPart, RejectedMessage
from contextgraph.parts import PartMessage, incomplete_documents, store_part
from contextgraph.refusals import Refusal
from contextgraph.rejected import reject, replay, waiting
from memory.models import Retrieval, Run, Tip
from tests.contextgraph.run_documents import body_of, envelope, sha256

pytestmark = pytest.mark.django_db

Reason = RejectedMessage.Reason


def cut(
    log: bytes,
    parts: int = 3,
    *,
    side: bytes | None = None,
    packed: bytes | None = None,
    **options: Any,
) -> list[PartMessage]:
    """The messages of a document, written here from the protocol and not with the client's code."""
    packed = gzip.compress(log + (side or b""), mtime=0) if packed is None else packed
    sections = {"log": len(log)} | ({} if side is None else {"side": len(side)})
    chosen = {"format": "auto", "skill": "", "revise": False, "sections": sections} | options
    step = -(-len(packed) // parts)
    slices = [packed[n : n + step] for n in range(0, len(packed), step)]
    return [
        PartMessage(
            message="part/1",
            document=sha256(packed + options_line(**chosen)),
            part=number,
            parts=len(slices),
            size=len(packed),
            sha256=sha256(data),
            name="run.json",
            data=base64.b64encode(data).decode(),
            **chosen,
        )
        for number, data in enumerate(slices, start=1)
    ]


def refused(message: PartMessage) -> Refusal:
    with pytest.raises(Refusal) as caught:
        store_part(message)
    return caught.value


def test_parts_in_any_order_become_one_run_and_are_emptied():
    first, second, third = cut(body_of(envelope()))
    assert store_part(third).results == ()
    assert store_part(first).results == ()
    [result] = store_part(second).results
    assert (result.status, result.retrievals) == ("created", 4)
    assert set(IncomingPart.objects.values_list("body", flat=True)) == {b""}
    run = Run.objects.get()
    assert (run.log_path, run.log_sha256) == ("run.json", sha256(body_of(envelope())))


def test_a_part_that_comes_twice_changes_nothing():
    first, second = cut(body_of(envelope()), 2)
    assert not store_part(first).duplicate
    assert store_part(first).duplicate
    store_part(second)
    late = store_part(first)
    assert (late.duplicate, late.results) == (True, ())
    assert (Run.objects.count(), IncomingPart.objects.count()) == (1, 2)


def test_a_part_whose_bytes_are_not_its_digest_is_refused():
    first = cut(body_of(envelope()))[0]
    why = refused(first.model_copy(update={"data": base64.b64encode(b"other").decode()}))
    assert why.reason == Reason.DIGEST
    assert "part 1 of 3" in why.detail
    assert IncomingPart.objects.count() == 0


@pytest.mark.parametrize(
    "lie", [{"size": 9_999}, {"parts": 9}, {"skill": "cve"}, {"format": "events"}, {"revise": True}]
)
@pytest.mark.parametrize("lying_part", [0, 1, 2])
def test_a_false_header_does_not_stand_in_the_way_of_the_true_document(lie, lying_part):
    parts = cut(body_of(envelope()))
    store_part(parts[lying_part].model_copy(update=lie))
    posted = [store_part(part) for part in parts]
    assert [result.status for stored in posted for result in stored.results] == ["created"]
    assert not incomplete_documents().exists()


def test_a_false_header_in_the_middle_is_mended_by_posting_the_document_again():
    first, second, third = cut(body_of(envelope()))
    store_part(first)
    store_part(second.model_copy(update={"parts": 9}))
    assert [store_part(part).results for part in (second, third)] == [(), ()]
    [document] = incomplete_documents()
    assert (document.arrived, document.parts) == (2, 3)
    [result] = store_part(first).results
    assert result.status == "created"


def with_other_bytes(message: PartMessage, data: bytes = b"something else") -> PartMessage:
    """A part that is what its own header says, and not a part of the document that it names."""
    changed = {"sha256": sha256(data), "data": base64.b64encode(data).decode()}
    return message.model_copy(update=changed)


@pytest.mark.parametrize("count", [1, 3])
def test_a_false_part_does_not_stand_in_the_way_of_the_true_document(count):
    parts = cut(body_of(envelope()), count)
    for part in parts[:-1]:
        store_part(with_other_bytes(part))
    why = refused(with_other_bytes(parts[-1]))
    assert (why.reason, "post the whole document again" in why.detail) == (Reason.DIGEST, True)
    assert IncomingPart.objects.count() == 0
    assert [len(store_part(part).results) for part in parts] == [0] * (count - 1) + [1]
    assert Run.objects.get().status == "ingested"


def test_a_true_part_takes_the_place_of_a_false_one():
    first, second = cut(body_of(envelope()), 2)
    store_part(with_other_bytes(first))
    assert not store_part(first).duplicate
    [result] = store_part(second).results
    assert result.status == "created"


def test_a_false_part_that_is_replayed_drops_nothing():
    first, second = cut(body_of(envelope()), 2)
    false = with_other_bytes(second)
    store_part(first)
    reject(Refusal(Reason.DIGEST, "cause"), body=false.model_dump_json().encode())
    [outcome] = replay(waiting())
    assert (outcome.ok, outcome.reason) == (False, "digest")
    [result] = store_part(second).results
    assert result.status == "created"
    assert [again.ok for again in replay(waiting())] == [True]


def test_a_whole_that_is_not_what_its_name_says_is_refused():
    [only] = cut(body_of(envelope()), 1)
    why = refused(only.model_copy(update={"document": "0" * 64}))
    assert why.reason == Reason.DIGEST
    assert (Run.objects.count(), IncomingPart.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"data": "no base64!"}, "base64"),
        ({"part": 4}, "part 4 of 3"),
        ({"sections": {}}, "no log"),
    ],
)
def test_a_malformed_part_is_refused_by_name(change, cause):
    first = cut(body_of(envelope()))[0].model_dump() | change
    with pytest.raises((Refusal, ValueError), match=cause):
        store_part(PartMessage.model_validate(first))


def test_a_refused_whole_keeps_its_parts_so_that_a_replay_tries_again():
    store_part(cut(body_of(envelope()), 1)[0])
    [other] = cut(body_of(envelope(attempts=3)), 1)
    assert refused(other).reason == Reason.CONFLICT
    document = IncomingDocument.objects.get(sha256=other.document)
    assert document.assembled_at is None
    Run.objects.update(superseded_at=timezone.now(), external_id="moved away")
    [result] = store_part(other).results
    assert result.status == "created"


def test_one_log_with_other_options_is_another_document():
    body = body_of(envelope(attempts=3))
    store_part(cut(body_of(envelope()), 1)[0])
    refused(cut(body, 1)[0])
    [result] = store_part(cut(body, 1, revise=True)[0]).results
    assert result.status == "revised"


def test_a_side_file_gives_the_texts_that_the_log_lacks():
    log = b"".join(
        json.dumps({"timestamp": f"2026-05-04T08:00:0{n}+00:00", "event_type": kind, "agent": "system",
                    "iteration": 0, "elapsed_s": n, "data": data}).encode() + b"\n"
        for n, (kind, data) in enumerate([
            ("run_start", {"run_id": "night-9"}),
            ("skill_manifest", {"skill_name": "stig"}),
            ("rule_selected", {"rule_id": "app_option"}),
            ("attempt_start", {"rule_id": "app_option", "attempt": 1}),
            ("prompt_assembled", {"phase": "apply_fix", "v2_tips_loaded": [{"tip_id": 5, "rank": 1}]}),
            ("evaluation", {"passed": True}),
            ("run_complete", {}),
        ])
    )  # fmt: skip
    side = b'{"tip": 5, "text": "Use the vendor profile"}\n'
    [result] = store_part(cut(log, 1, side=side)[0]).results
    assert Tip.objects.get(external_id="5").text == "Use the vendor profile"
    assert Run.objects.get(pk=result.run_id).log_format == "events+side"
    assert Retrieval.objects.get().shown_text == "Use the vendor profile"


# --- hostile documents ----------------------------------------------------------------------------


def test_a_gzip_bomb_is_refused_without_being_unpacked(settings):
    settings.MAX_DOCUMENT_BYTES = 2_000_000
    bomb = gzip.compress(b"\0" * 200_000_000)
    honest = cut(b"", 1, packed=bomb, sections={"log": 200_000_000})[0]
    lying = cut(b"", 1, packed=bomb, sections={"log": 1_000_000})[0]
    tracemalloc.start()
    assert refused(honest).reason == Reason.TOO_LARGE
    assert refused(lying).reason == Reason.DIGEST
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_a_compressed_log_inside_is_unpacked_under_the_same_limit(settings):
    log = gzip.compress(body_of(envelope()))
    [result] = store_part(cut(log, 1)[0]).results
    assert result.status == "created"
    settings.MAX_DOCUMENT_BYTES = 1_000_000
    assert refused(cut(gzip.compress(b" " * 2_000_000), 1)[0]).reason == Reason.TOO_LARGE
    twice = gzip.compress(gzip.compress(b"{}"))
    assert refused(cut(twice, 1)[0]).reason == Reason.UNREADABLE


def test_a_declared_size_over_the_limit_is_refused_at_its_first_part(settings):
    settings.MAX_DOCUMENT_BYTES = 100
    assert refused(cut(body_of(envelope()))[0]).reason == Reason.TOO_LARGE
    assert IncomingDocument.objects.count() == 0


def test_bytes_that_are_no_gzip_stream_are_refused():
    assert refused(cut(b"x", 1, packed=b"plain bytes")[0]).reason == Reason.UNREADABLE


# --- waiting, and two at once ---------------------------------------------------------------------


def test_incomplete_documents_say_how_many_parts_arrived():
    parts = cut(body_of(envelope()))
    store_part(parts[0])
    [document] = incomplete_documents()
    assert (document.arrived, document.parts) == (1, 3)
    assert not incomplete_documents(older_than=timezone.now() - timedelta(hours=1)).exists()
    for part in parts[1:]:
        store_part(part)
    assert not incomplete_documents().exists()


@pytest.mark.django_db(transaction=True)
def test_two_consumers_with_the_last_parts_assemble_the_document_once():
    parts = cut(body_of(envelope(attempts=30)), 4)
    gate = threading.Barrier(4)
    statuses: list[str] = []

    def deliver(part: PartMessage) -> None:
        try:
            gate.wait(timeout=10)
            statuses.extend(result.status for result in store_part(part).results)
        finally:
            connection.close()

    threads = [threading.Thread(target=deliver, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert statuses == ["created"]
    assert Retrieval.objects.count() == 60
