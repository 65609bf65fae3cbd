"""Vectors of tips: what is missing is found, each text is computed once, and nothing is held up."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from memory.encoders import CannotEncode, current_encoder
from memory.models import Tip, TipVector
from scoring import embed_step, tip_vectors
from scoring.embed_step import ENCODER_SHA256, sha256_of
from scoring.embedding import EmptyText
from scoring.models import TextEmbedding
from scoring.vectors import DIMENSIONS, TextVector
from scoring.weights import ModelMissing
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from scoring.vectors import FloatArray

pytestmark = pytest.mark.django_db


class Scripted:
    """An encoder whose vectors hang on the text alone, and that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: list[str]) -> list[TextVector]:
        self.asked += texts
        if blank := [index for index, text in enumerate(texts) if not text.strip()]:
            raise EmptyText(blank)
        return [vector_of(text) for text in texts]

    def encode_head(self, text: str) -> FloatArray:
        (found,) = self.encode([text])
        return found.vector


def vector_of(text: str) -> TextVector:
    vector = np.random.default_rng(len(text)).normal(size=DIMENSIONS)
    vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    return TextVector(sha256_of(text), vector, vector[None, :], 5, truncated=False)


@pytest.fixture(autouse=True)
def encoder(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    scripted = Scripted()
    for module in (embed_step, tip_vectors):
        monkeypatch.setattr(module, "load_encoder", lambda **_: scripted)
    return scripted


def embed_tips(*args: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("embed_tips", *args, stdout=out)
    return out.getvalue()


def test_each_text_is_computed_once_and_the_second_time_nothing_is(encoder: Scripted) -> None:
    tips = [make_tip(text=text) for text in ("one", "one", "three")]
    make_tip(text="", text_sha256="")
    done: list[tuple[int, int]] = []
    found = tip_vectors.fill(progress=lambda *step: done.append(step))
    assert (found.missing, found.written, found.left) == (3, 3, 0)
    assert sorted(encoder.asked) == ["one", "three"]
    assert done == [(3, 3)]
    for tip in tips:
        stored = TipVector.objects.get(tip=tip)
        assert np.float32(stored.values).tolist() == vector_of(tip.text).vector.tolist()
        assert (stored.skill, stored.encoder) == ("stig", ENCODER_SHA256)
        assert stored.text_sha256 == tip.text_sha256
    assert tip_vectors.fill().missing == 0
    TipVector.objects.all().delete()
    tip_vectors.fill()
    assert len(encoder.asked) == 2  # the cache of texts had them


def test_a_vector_of_another_encoder_or_text_is_made_anew() -> None:
    old, changed, fine = make_tip(text="old"), make_tip(text="changed"), make_tip(text="fine")
    tip_vectors.fill()
    TipVector.objects.filter(tip=old).update(encoder="f" * 64)
    Tip.objects.filter(pk=changed.pk).update(text="new", text_sha256=sha256_of("new"))
    assert set(tip_vectors.missing("stig")) == {old, changed}
    assert fine not in tip_vectors.missing()
    tip_vectors.fill()
    assert TipVector.objects.get(tip=changed).text_sha256 == sha256_of("new")
    assert not tip_vectors.missing().exists()


def test_a_text_without_a_vector_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tip_vectors, "TIPS_AT_ONCE", 2)
    for text in ("  ", "one", "two", "three", " \t"):
        make_tip(text=text)
    found = tip_vectors.fill()
    assert (found.missing, found.written, found.left) == (5, 3, 2)


def test_a_run_gets_the_vectors_of_its_tips_and_of_no_others() -> None:
    run = make_run(external_id="run-x")
    used = make_retrieval(attempt=make_attempt(run=run), tip=make_tip(text="used")).tip
    born = make_tip(text="born here", source_run_id="run-x")
    make_tip(text="another")
    make_tip(text="of another skill", source_run_id="run-x", skill="cve")
    assert tip_vectors.fill_for_run(run.pk).written == 2
    assert set(TipVector.objects.values_list("tip_id", flat=True)) == {used.pk, born.pk}


def test_the_ranker_is_given_this_encoder() -> None:
    assert current_encoder() is tip_vectors.ENCODER


def test_a_query_is_taken_from_the_cache_and_never_kept(encoder: Scripted) -> None:
    make_tip(text="known")
    tip_vectors.fill()
    encoder.asked.clear()
    known = tip_vectors.encode_query("known")
    assert known.tolist() == vector_of("known").vector.tolist()
    assert encoder.asked == []
    tip_vectors.encode_query("unknown")
    assert encoder.asked == ["unknown"]
    assert TextEmbedding.objects.count() == 1


@pytest.mark.parametrize("text", ["  ", "\ud800"])
def test_a_query_that_has_no_vector_is_refused(text: str) -> None:
    with pytest.raises(CannotEncode):
        tip_vectors.encode_query(text)


def test_without_the_embedding_signal_no_model_is_asked_for(
    settings: SettingsWrapper, encoder: Scripted
) -> None:
    settings.SIGNALS = ["trace"]
    with pytest.raises(CannotEncode, match="CONTEXTGRAPH_SIGNALS"):
        tip_vectors.encode_query("text")
    assert encoder.asked == []


def test_the_command_counts_and_then_fills(encoder: Scripted) -> None:
    for text in ("one", "two", " "):
        make_tip(text=text)
    make_tip(text="x", skill="cve")
    assert "3 tips would be given a vector" in embed_tips("--skill", "stig", "--dry-run")
    assert encoder.asked == []
    text = embed_tips("--skill", "stig")
    assert "2 of 3 tips were given a vector" in text
    assert "1 hold nothing that the model can read" in text
    assert json.loads(embed_tips("--json")) == {
        "missing": 2,
        "written": 1,
        "left": 1,
        "dry_run": False,
    }
    with pytest.raises(CommandError, match="nothing is stored about a skill"):
        embed_tips("--skill", "nobody")


def test_a_model_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**_: Any) -> Any:
        raise ModelMissing("the package torch")

    monkeypatch.setattr(embed_step, "load_encoder", missing)
    make_tip(text="one")
    with pytest.raises(CommandError, match="the package torch"):
        embed_tips()
