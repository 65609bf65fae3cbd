"""The search by text: in the database and in this process, with the same tips in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from django.db import connection

from memory import encoders, text_leg, tip_vectors
from memory.encoders import CannotEncode, TextEncoder, register_encoder
from memory.models import Tip, TipVector
from memory.retrieval import RankRequest, rank
from memory.tip_vectors import Near, exact_cosines, nearest, store_of
from tests.factories import make_tip, make_tip_vector
from tests.memory.ranking_rows import ENCODER, UPSTREAM, swept, unit, with_vector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory.encoders import FloatArray
    from memory.tip_vectors import Method

pytestmark = pytest.mark.django_db

BOTH: tuple[Method, Method] = ("pgvector", "numpy")


@pytest.fixture(autouse=True)
def _encoder() -> Iterator[None]:
    before = list(encoders._builders)
    yield
    register_encoder(before[0] if before else None)


def crowd(size: int, *, spread: float, seed: int = 5) -> FloatArray:
    """Tips whose vectors lie within *spread* of each other; returns the query."""
    random = np.random.default_rng(seed)
    centre = random.normal(size=384)
    tips = Tip.objects.bulk_create(
        Tip(skill="stig", external_id=f"t{number}", text=f"text {number}") for number in range(size)
    )
    for tip in tips:
        with_vector(tip, unit(*(centre + spread * random.normal(size=384))))
    return unit(*centre)


def both_ways(query: FloatArray, limit: int) -> list[Near]:
    """What both searches find, after they were found to agree."""
    store = store_of("stig", ENCODER)
    assert store.pgvector, "the embedded Postgres brings pgvector"
    found = [nearest(store, query, limit, method=method) for method in BOTH]
    assert found[0] == found[1]
    return found[0]


# spreads down to one at which single precision cannot tell the tips apart
@pytest.mark.parametrize("spread", [1.0, 0.03, 1e-3, 1e-5, 1e-8])
def test_both_ways_find_the_same_in_the_same_order(spread: float) -> None:
    query = crowd(300, spread=spread)
    found = both_ways(query, 20)
    stored = dict(TipVector.objects.values_list("pk", "values"))
    vectors = np.array(list(stored.values()), dtype=np.float32)
    cosines = exact_cosines(vectors, query)
    best = sorted(zip(stored, cosines, strict=True), key=lambda pair: (-pair[1], pair[0]))
    assert [(near.tip_id, near.cosine) for near in found] == best[:20]


def test_equal_vectors_stand_in_the_order_of_their_keys() -> None:
    tips = [with_vector(make_tip(), unit(1.0, 0.5)) for _ in range(150)]
    assert [near.tip_id for near in both_ways(unit(1.0), 10)] == [tip.pk for tip in tips[:10]]


def test_only_active_tips_of_rules_are_found_however_many_are_retired() -> None:
    crowd(400, spread=0.1)
    query = unit(1.0)
    for tip in list(Tip.objects.all()):
        TipVector.objects.filter(tip=tip).update(values=unit(1.0, 0.01).tolist())
    first = swept(make_tip())
    with_vector(first, unit(1.0))
    Tip.objects.update(retired_sweep=first.retired_sweep, retired_at=first.retired_at,
                       retired_reason="weak")  # fmt: skip
    assert both_ways(query, 5) == []
    with_vector(make_tip(scope="environment"), unit(1.0))
    with_vector(make_tip(text=""), unit(1.0))
    with_vector(make_tip(skill="cve"), unit(1.0))
    with_vector(make_tip(), unit(1.0), encoder="f" * 64)
    last = with_vector(make_tip(), unit(1.0, 5.0))
    assert [near.tip_id for near in both_ways(query, 5)] == [last.pk]


def test_vectors_that_are_damaged_are_left_out() -> None:
    sound = with_vector(make_tip(), unit(1.0, 1.0))
    short = with_vector(make_tip(), unit(1.0))
    TipVector.objects.filter(tip=short).update(values=[1.0])
    assert [near.tip_id for near in both_ways(unit(1.0), 5)] == [sound.pk]
    broken = with_vector(make_tip(), unit(1.0))
    TipVector.objects.filter(tip=broken).update(values=[float("nan")] * 384)
    assert [near.tip_id for near in both_ways(unit(1.0), 5)] == [sound.pk]


def test_a_new_vector_is_seen_by_a_process_that_has_searched_before() -> None:
    with_vector(make_tip(), unit(1.0, 1.0))
    assert len(both_ways(unit(1.0), 5)) == 1
    nearer = with_vector(make_tip(), unit(1.0))
    assert both_ways(unit(1.0), 1) == [Near(nearer.pk, 1.0)]
    # an older tip that gets its vector late does not raise the highest key
    late = make_tip(external_id="late")
    with_vector(make_tip(), unit(0.0, 0.0, 1.0))
    assert len(both_ways(unit(1.0), 5)) == 3
    with_vector(late, unit(1.0, 0.1))
    assert [near.tip_id for near in both_ways(unit(1.0), 2)] == [nearer.pk, late.pk]


def test_a_vector_of_another_skill_costs_this_one_nothing() -> None:
    before = tip_vectors.store_of("stig", "e" * 64)
    make_tip_vector(tip=make_tip(skill="cve"), encoder="e" * 64)
    assert tip_vectors.store_of("stig", "e" * 64) == before


def test_without_the_extension_the_search_goes_on_in_this_process() -> None:
    tip = with_vector(make_tip(), unit(1.0))
    with connection.cursor() as cursor:
        cursor.execute("DROP EXTENSION vector")
    store = store_of("stig", ENCODER)
    assert (store.pgvector, store.method) == (False, "numpy")
    assert nearest(store, unit(1.0), 3) == [Near(tip.pk, 1.0)]


def test_a_large_store_is_searched_in_this_process() -> None:
    large = tip_vectors.Store("stig", ENCODER, pgvector=True, count=20_000, newest=20_000)
    small = tip_vectors.Store("stig", ENCODER, pgvector=True, count=2_000, newest=20_000)
    assert (large.method, small.method) == ("numpy", "pgvector")


# --- As a way to candidates -----------------------------------------------------------------------

ASKED = RankRequest("stig", "sshd_x", query="how to restart the daemon")
BY_TEXT = UPSTREAM.model_copy(update={"text_candidates": 1, "similarity": 0.5})


def test_the_nearest_texts_are_candidates_and_similarity_counts() -> None:
    register_encoder(lambda: TextEncoder(ENCODER, lambda _: unit(1.0)))
    near = with_vector(make_tip(source_rule_id="audit_y"), unit(1.0, 1.0))
    with_vector(make_tip(source_rule_id="audit_z"), unit(1.0, 2.0))
    ranking = rank(ASKED, weights=BY_TEXT, explain=True)
    assert [tip.tip_id for tip in ranking.tips] == [near.pk]
    assert ranking.tips[0].score == pytest.approx(0.5 / 2**0.5, abs=1e-6)
    assert ranking.tips[0].parts is not None
    assert ranking.notes == ()


def test_a_query_is_encoded_once_and_only_if_there_is_something_to_compare() -> None:
    asked: list[str] = []

    def encode(text: str) -> FloatArray:
        asked.append(text)
        return unit(1.0)

    register_encoder(lambda: TextEncoder(ENCODER, encode))
    assert "no tip of this skill has a vector" in rank(ASKED, weights=BY_TEXT).notes[0]
    assert asked == []
    with_vector(make_tip(), unit(1.0))
    long = RankRequest("stig", "sshd_x", query="x" * 10_000)
    for request in (ASKED, ASKED, long):
        rank(request, weights=BY_TEXT)
    assert asked == [ASKED.query, "x" * encoders.QUERY_CHARACTERS]


def test_what_cannot_be_done_is_a_note_and_no_error() -> None:
    def refuse(_: str) -> FloatArray:
        raise CannotEncode("the model is not installed")

    with_vector(make_tip(), unit(1.0))
    assert "no query" in rank(RankRequest("stig", "sshd_x"), weights=BY_TEXT).notes[0]
    register_encoder(lambda: TextEncoder(ENCODER, refuse))
    assert "the model is not installed" in rank(ASKED, weights=BY_TEXT).notes[0]
    register_encoder(None)
    assert "no encoder" in rank(ASKED, weights=BY_TEXT).notes[0]
    assert text_leg.TextLeg.of(ASKED, UPSTREAM).notes == ()
