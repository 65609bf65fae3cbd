"""The cache of vectors, and rows whose texts have none. The encoder itself is tested beside this."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory.models import Retrieval
from scoring import batches, embed_step
from scoring.embed_step import ENCODER_SHA256, sha256_of, slices
from scoring.embedding import EmptyText
from scoring.models import Signal, TextEmbedding
from scoring.vectors import DIMENSIONS, NonFinite, TextVector, to_bytes
from tests.factories import make_attempt, make_retrieval, make_run, make_tip
from tests.scoring.score_batches import batch_over, claimed, expire

pytestmark = pytest.mark.django_db

TIP, SCRIPT = "Enable chronyd", "systemctl enable chronyd\n"


def unit(angle: float) -> TextVector:
    """A vector at *angle* (radians) to the first axis."""
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    vector[:2] = np.cos(angle), np.sin(angle)
    return TextVector(sha256="", vector=vector, chunks=vector[None, :], tokens=5, truncated=False)


def cache(text: str, *, data: bytes | None = None, angle: float = 0.0) -> TextEmbedding:
    return TextEmbedding.objects.create(
        text_sha256=sha256_of(text),
        encoder_sha256=ENCODER_SHA256,
        vector=to_bytes(unit(angle).vector) if data is None else data,
        chunks=b"",
        tokens=5,
        truncated=False,
    )


class Scripted:
    """An encoder of known vectors that notes what it was asked, and fails as the real one does."""

    def __init__(self, *, not_finite: str = "") -> None:
        self.asked: list[list[str]] = []
        self.not_finite = not_finite

    def encode(self, texts: list[str]) -> list[TextVector]:
        self.asked.append(list(texts))
        if blank := [index for index, text in enumerate(texts) if not text.strip()]:
            raise EmptyText(blank)
        if self.not_finite in texts:
            raise NonFinite("a sentence vector")
        sample = unit(0.5)
        return [
            TextVector(sha256_of(text), sample.vector, sample.chunks, 5, truncated=False)
            for text in texts
        ]


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    scripted = Scripted()
    monkeypatch.setattr(embed_step, "load_encoder", lambda **_: scripted)
    return scripted


def embedded(*tips: str, script: str = SCRIPT) -> list[Retrieval]:
    """The rows of one attempt after their batch has been scored."""
    run = make_run(status="scoring", scoring_round=1)
    attempt = make_attempt(run=run, script=script)
    rows = [make_retrieval(attempt=attempt, tip=make_tip(text=text)) for text in tips]
    embed_step.score(claimed(batch_over(rows, Signal.EMBED)))
    for row in rows:
        row.refresh_from_db()
    return rows


def test_texts_of_an_earlier_run_are_not_encoded_again(encoder: Scripted) -> None:
    cache(TIP, angle=0.0)
    cache(SCRIPT, angle=np.pi / 3)
    row = embedded(TIP)[0]
    assert encoder.asked == []
    assert row.tip_followed_emb == pytest.approx(0.5, abs=1e-6)
    assert row.tip_followed_emb_max_chunk == row.tip_followed_emb
    assert (row.emb_reason, row.tip_followed_emb_truncated) == ("", False)
    assert row.tip_followed_computed_at is not None


def test_what_one_run_encodes_the_next_finds(encoder: Scripted) -> None:
    embedded(TIP)
    embedded(TIP)
    assert sorted(text for call in encoder.asked for text in call) == sorted([TIP, SCRIPT])


@pytest.mark.parametrize(
    "data",
    [
        b"short",
        np.full(DIMENSIONS, np.nan, dtype="<f4").tobytes(),
        np.full(DIMENSIONS, 7.0, dtype="<f4").tobytes(),
    ],
    ids=["cut", "not finite", "not of length 1"],
)
def test_a_damaged_cache_row_is_encoded_again_and_mended(data: bytes, encoder: Scripted) -> None:
    cache(SCRIPT)
    damaged = cache(TIP, data=data)
    row = embedded(TIP)[0]
    assert encoder.asked == [[TIP]]
    assert row.tip_followed_emb == pytest.approx(np.cos(0.5), abs=1e-6)
    damaged.refresh_from_db()
    assert bytes(damaged.vector) == to_bytes(unit(0.5).vector)
    assert TextEmbedding.objects.count() == 2


@pytest.mark.parametrize(("tip", "script"), [("  \n", SCRIPT), (TIP, " \n"), (TIP, "")])
def test_a_blank_text_leaves_null_with_a_reason_and_the_others_alone(
    tip: str, script: str, encoder: Scripted
) -> None:
    good = "Start chronyd"
    rows = embedded(tip, good, script=script)
    assert rows[0].tip_followed_emb is None
    assert rows[0].emb_reason == "embedding_error"
    assert (rows[1].tip_followed_emb is None) == (not script.strip())


def test_a_text_without_a_finite_vector_leaves_null_with_a_reason_and_the_others_alone(
    encoder: Scripted,
) -> None:
    encoder.not_finite = "Odd"
    odd, even = embedded("Odd", "Even")
    assert (odd.tip_followed_emb, odd.emb_reason) == (None, "embedding_error")
    assert (even.emb_reason, even.tip_followed_emb) == ("", pytest.approx(1.0))
    assert not TextEmbedding.objects.filter(text_sha256=sha256_of("Odd")).exists()


def test_slices_are_bounded_by_characters_and_hold_every_text_once_in_order() -> None:
    texts = ["a" * 30, "b" * 30, "c" * 50, "d" * 250, "e", "f" * 99]
    assert [len("".join(part)) for part in slices(texts, characters=100)] == [60, 50, 250, 100]
    assert [text for part in slices(texts, characters=100) for text in part] == texts
    assert list(slices([], characters=100)) == []


def test_each_slice_is_cached_before_the_lease_is_asked_for(
    encoder: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed_step, "CHARACTERS_AT_ONCE", 1)
    kept: list[int] = []

    def renew(lease: batches.Lease) -> None:
        kept.append(TextEmbedding.objects.count())
        if len(kept) == 2:
            raise batches.LeaseLost

    monkeypatch.setattr(batches, "renew", renew)
    with pytest.raises(batches.LeaseLost):
        embedded(TIP, "Start chronyd", "Stop chronyd")
    assert kept == [1, 2]
    assert not Retrieval.objects.filter(tip_followed_emb__isnull=False).exists()


def test_a_second_run_of_a_batch_changes_nothing(
    encoder: Scripted,
) -> None:
    row = embedded(TIP)[0]
    asked = len(encoder.asked)
    assert embed_step.score(claimed(batch_over([row], Signal.EMBED))) == 0
    again: Any = Retrieval.objects.get(pk=row.pk)
    assert (again.tip_followed_emb, again.emb_tries) == (row.tip_followed_emb, row.emb_tries)
    assert len(encoder.asked) == asked


def test_a_worker_whose_batch_was_taken_over_writes_no_row(encoder: Scripted) -> None:
    row = make_retrieval(tip=make_tip(text=TIP))
    batch = batch_over([row], Signal.EMBED)
    first = claimed(batch)
    expire(batch)
    second = claimed(batch)
    with pytest.raises(batches.LeaseLost, match="held by another worker"):
        embed_step.score(first)
    row.refresh_from_db()
    assert (row.tip_followed_emb, row.emb_tries) == (None, 0)
    assert embed_step.score(second) == 1
    row.refresh_from_db()
    assert (row.tip_followed_emb is not None, row.emb_tries) == (True, 1)
