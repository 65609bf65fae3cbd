"""The one door: what each kind of message becomes, claim checks included."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from contextgraph.intake import COMPRESSION, handle
from contextgraph.models import RejectedMessage
from contextgraph.refusals import Refusal
from memory.models import Attempt, Run
from tests.contextgraph.run_documents import body_of, envelope, sha256

pytestmark = pytest.mark.django_db

if TYPE_CHECKING:
    from pathlib import Path

Reason = RejectedMessage.Reason


def refused(body: bytes, **facts: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        handle(body, **facts)
    return caught.value


@pytest.mark.parametrize(
    "content_type", ["", "application/json", "application/json; charset=utf-8"]
)
def test_a_bare_envelope_is_stored(content_type):
    done = handle(body_of(envelope()), content_type=content_type)
    assert (done.kind, done.results[0].status) == ("envelope", "created")
    assert Run.objects.get().log_format == "envelope"


@pytest.mark.parametrize(
    ("packed", "headers"),
    [
        (zlib.compress, {COMPRESSION: "application/x-gzip"}),
        (gzip.compress, {"content-encoding": "gzip"}),
    ],
)
def test_a_compressed_envelope_is_unpacked(packed, headers):
    assert handle(packed(body_of(envelope())), headers=headers).results[0].status == "created"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", Reason.NOT_JSON),
        (b"not json", Reason.NOT_JSON),
        (b"\xff\xfe", Reason.NOT_JSON),
        (b'{"schema": NaN}', Reason.NOT_JSON),
        (b"[" * 100_000, Reason.NOT_JSON),
        (b"\x80\x04\x95", Reason.NOT_JSON),
        (b"[]", Reason.SCHEMA),
        (b"null", Reason.SCHEMA),
        (b"{}", Reason.SCHEMA),
        (b'{"schema": "contextgraph.run/2"}', Reason.VERSION),
        (b'{"schema": ["contextgraph.run/1"]}', Reason.VERSION),
        (b'{"message": "part/2"}', Reason.VERSION),
        (b'{"message": {"a": 1}}', Reason.VERSION),
        (b'{"message": "part/1"}', Reason.SCHEMA),
        (b'{"message": "claim/1", "uri": 7}', Reason.SCHEMA),
        (b'{"schema": "contextgraph.run/1"}', Reason.SCHEMA),
        (json.dumps(envelope() | {"attempts": [{"rule_id": "r"}]}).encode(), Reason.SCHEMA),
    ],
)
def test_a_bad_message_has_a_reason(body, reason):
    assert refused(body, content_type="application/json").reason == reason
    assert not Run.objects.exists()


def test_a_wrong_field_is_named():
    body = body_of(envelope() | {"attempts": [{"rule_id": "r", "number": 0}]})
    assert "number" in refused(body).detail


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"content_type": "application/x-python-serialize"}, Reason.CONTENT_TYPE),
        ({"headers": {COMPRESSION: "zstd"}}, Reason.CONTENT_TYPE),
        ({"headers": {COMPRESSION: "gzip"}}, Reason.NOT_JSON),
    ],
)
def test_a_body_is_only_ever_read_as_json(facts, reason):
    assert refused(body_of(envelope()), **facts).reason == reason


def test_a_compressed_bomb_is_refused():
    bomb = zlib.compress(b" " * 100_000_000)
    assert refused(bomb, headers={COMPRESSION: "gzip"}).reason == Reason.TOO_LARGE


def test_a_message_over_one_mebibyte_is_refused_with_the_mend():
    why = refused(b" " * (1024 * 1024 + 1))
    assert why.reason == Reason.TOO_LARGE
    assert "parts" in why.detail


def test_another_run_under_a_known_id_is_a_conflict():
    handle(body_of(envelope()))
    assert refused(body_of(envelope(attempts=3))).reason == Reason.CONFLICT


def raw_number(digits: str) -> bytes:
    document = envelope(attempts=1)
    document["attempts"][0]["evaluator_raw"] = {"hash": "NUMBER"}
    return body_of(document).replace(b'"NUMBER"', digits.encode())


def test_an_integer_beyond_64_bits_is_stored_as_it_is():
    [result] = handle(raw_number("18446744073709551617")).results
    assert Attempt.objects.get(run=result.run_id).evaluator_raw == {"hash": 18446744073709551617}


def test_a_number_that_cannot_be_stored_is_named():
    why = refused(raw_number("7" * 5_000))
    assert why.reason == Reason.SCHEMA
    assert "a number of 5000 characters" in why.detail
    assert not Run.objects.exists()


# --- claim checks ---------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path, settings) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    settings.CLAIM_ROOTS = [str(folder)]
    return folder


def claim(path: Path, body: bytes, **fields: Any) -> bytes:
    message = {"message": "claim/1", "sha256": sha256(body), "uri": path.as_uri(), "run_id": ""}
    return json.dumps(message | fields).encode()


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_a_claimed_file_below_a_root_is_ingested(root, packed):
    body = packed(body_of(envelope()))
    path = root / "a run.json"
    path.write_bytes(body)
    [result] = handle(claim(path, body)).results
    assert result.status == "created"
    assert Run.objects.get().log_path == "a run.json"


def test_a_claimed_file_that_changed_is_refused(root):
    path = root / "run.json"
    path.write_bytes(body_of(envelope(attempts=3)))
    assert refused(claim(path, body_of(envelope()))).reason == Reason.DIGEST


@pytest.mark.parametrize("escape", ["link", "dots", "outside", "prefix", "fifo", "folder", "none"])
def test_a_claim_cannot_leave_its_root(root, tmp_path, escape):
    body = body_of(envelope())
    secret = tmp_path / "secret.json"
    secret.write_bytes(body)
    sibling = tmp_path / "runs-of-others"
    sibling.mkdir()
    (sibling / "run.json").write_bytes(body)
    (root / "link.json").symlink_to(secret)
    os.mkfifo(root / "fifo")
    uri = {
        "link": f"file://{root}/link.json",
        "dots": f"file://{root}/%2e%2e/secret.json",
        "outside": secret.as_uri(),
        "prefix": f"file://{sibling}/run.json",
        "fifo": f"file://{root}/fifo",
        "folder": f"file://{root}",
        "none": f"file://{root}/none.json",
    }[escape]
    assert refused(claim(secret, body, uri=uri)).reason == Reason.CLAIM
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "uri", ["http://host/run.json", "file://host/run.json", "run.json", "file://[", "file:///a%00b"]
)
def test_only_files_of_this_host_are_fetched(root, uri):
    assert refused(claim(root, b"", uri=uri)).reason == Reason.CLAIM


def test_no_claim_is_honoured_unless_a_root_is_configured(tmp_path, settings):
    settings.CLAIM_ROOTS = []
    path = tmp_path / "run.json"
    path.write_bytes(body_of(envelope()))
    assert refused(claim(path, body_of(envelope()))).reason == Reason.CLAIM


def test_a_claimed_file_over_the_limit_is_refused(root, settings):
    settings.MAX_DOCUMENT_BYTES = 100
    path = root / "run.json"
    path.write_bytes(body_of(envelope()))
    assert refused(claim(path, body_of(envelope()))).reason == Reason.TOO_LARGE
