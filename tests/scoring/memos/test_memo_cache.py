"""What is served from the table is true today, and what is not true is written anew."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from contextgraph import pipeline
from memory.models import Retrieval
from scoring.memos import cache, memo_making
from scoring.memos.cache import Way, sha256_of
from scoring.memos.facts import Snapshot, fact
from scoring.memos.gate import check
from scoring.memos.service import memo, memo_of
from scoring.memos.stored import snapshot_as_dict, snapshot_from_dict
from scoring.models import Memo
from tests.scoring.memos.snapshots import cited, company, run
from tests.scoring.memos.worlds import make_memo_world

if TYPE_CHECKING:
    from scoring.memos.memo_result import MemoResult
    from tests.scoring.memos.worlds import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The products of the syntheses that were made."""
    found: list[str] = []
    original = memo_making.synthesise

    def counted(snapshot: Snapshot, **how: Any) -> Any:
        found.append(snapshot.product)
        return original(snapshot, **how)

    monkeypatch.setattr(memo_making, "synthesise", counted)
    return found


@pytest.fixture
def world(settings: Any) -> World:
    settings.MEMOS, settings.SIGNALS = "off", ["trace"]
    return make_memo_world()


def of(snapshot: Snapshot, **how: Any) -> MemoResult:
    return memo_of(lambda: snapshot, **how)


@pytest.mark.parametrize(
    ("product", "name"), [("run", "run-b"), ("tip", "tip-bad"), ("category", "ssh")]
)
def test_the_second_request_is_served_without_a_synthesis(
    world: World, written: list[str], product: str, name: str
) -> None:
    first, second, third = (memo(product, name) for _ in range(3))
    assert written == [product]
    assert (first.cached, second.cached, third.cached) == (False, True, True)
    assert first.text == second.text == third.text
    assert [made.hits for made in (first, second, third)] == [0, 1, 2]
    row = Memo.objects.get()
    assert (row.hits, row.product, row.calls) == (2, product, 0)
    assert row.served_at is not None
    assert check(second.text, second.snapshot).passed


def test_one_fact_changed_is_written_anew_in_the_same_row(world: World, written: list[str]) -> None:
    first = memo("run", "run-b")
    rows = Retrieval.objects.filter(run=world.second, tip=world.bad, rule_id="rule_0")
    rows.update(tip_followed_review=False, tip_followed_review_by="ann")
    assert memo("run", "run-b").cached, "a run is told by its last pass"
    assert pipeline.recount(world.second.pk)
    again = memo("run", "run-b")
    assert written == ["run", "run"]
    assert not again.cached
    assert again.text != first.text
    row = Memo.objects.get()
    assert (row.text, row.fingerprint) == (again.text, again.snapshot.fingerprint())
    assert (row.hits, row.served_at, row.pk) == (0, None, first.row), "hits were the old text's"
    assert memo("run", "run-b").hits == 1


def wrong(text: str) -> str:
    lie = text.replace("9 attempts", "8 attempts")
    assert lie != text
    return lie


@pytest.mark.parametrize("with_hash", [False, True])
def test_a_text_that_was_edited_to_a_wrong_figure_is_not_served(
    world: World, written: list[str], *, with_hash: bool
) -> None:
    good = memo("run", "run-b").text
    change = {"text": wrong(good)}
    if with_hash:
        change["text_sha256"] = sha256_of(change["text"])
    Memo.objects.update(**change)
    again = memo("run", "run-b")
    assert again.text == good
    assert not again.cached
    assert len(written) == 2
    assert Memo.objects.get().text == good, "and it is mended in the table"


def test_a_text_that_was_edited_without_a_figure_is_not_served_either(
    world: World, written: list[str]
) -> None:
    good = memo("run", "run-b").text
    Memo.objects.update(text=good + "\nTips are useless.\n")
    assert memo("run", "run-b").text == good
    assert len(written) == 2


LIE = "There were 999 retrievals [F1]."


@pytest.mark.parametrize("text", [LIE, "Tips are useless."])
@pytest.mark.parametrize("with_hash", [False, True])
def test_a_side_that_was_edited_is_not_served(
    written: list[str], text: str, *, with_hash: bool
) -> None:
    way = Way("human", "debate", "m", "p")
    sides = [{"name": "for", "text": ""}, {"name": "against", "text": ""}]
    for side in sides:
        side["text"] = cited("There were 40 retrievals {retrievals}.", run())
    assert cache.store(way, run(), cited("There were 12 tips {tips}.", run()), sides=sides)
    assert cache.lookup(way, run()) is not None
    sides[1]["text"] += f" {text}"
    row = Memo.objects.get()
    sha256 = sha256_of(row.text, sides) if with_hash else row.text_sha256
    Memo.objects.update(sides=sides, text_sha256=sha256)
    assert (cache.lookup(way, run()) is not None) == (with_hash and text != LIE)


@pytest.mark.parametrize("sides", [{}, [1], [{"name": "for"}], [{"name": "for", "text": 5}]])
def test_sides_that_are_none_are_not_served(written: list[str], sides: Any) -> None:
    of(run())
    Memo.objects.update(sides=sides)
    assert not of(run()).cached if sides else of(run()) is not None
    assert Memo.objects.get().sides == []


def test_an_edited_fingerprint_finds_nothing(world: World, written: list[str]) -> None:
    memo("run", "run-b")
    Memo.objects.update(fingerprint="0" * 64)
    assert not memo("run", "run-b").cached
    assert len(written) == 2


def test_a_memo_gets_too_old(world: World, written: list[str], settings: Any) -> None:
    memo("run", "run-b")
    Memo.objects.update(written_at=timezone.now() - timedelta(hours=5))
    settings.MEMO_MAX_AGE_H = 6.0
    assert memo("run", "run-b").cached
    settings.MEMO_MAX_AGE_H = 4.0
    assert not memo("run", "run-b").cached
    assert memo("run", "run-b").cached, "it is young again"
    settings.MEMO_MAX_AGE_H = 0.0
    assert not memo("run", "run-b").cached


def test_without_the_cache_it_is_written_and_kept(world: World, written: list[str]) -> None:
    for _ in range(2):
        assert not memo("run", "run-b", use_cache=False).cached
    assert len(written) == 2
    assert memo("run", "run-b").cached
    assert Memo.objects.count() == 1


def test_another_mode_subject_or_skill_is_another_memo(world: World, written: list[str]) -> None:
    made = [memo("run", "run-b"), memo("run", "run-b", mode="agent"), memo("run", "run-a")]
    make_memo_world("cve")
    made += [memo("run", "run-b", skill="cve"), memo("run", "run-b", skill="stig")]
    assert [one.cached for one in made] == [False] * 4 + [True]
    assert Memo.objects.count() == 4


def test_the_key_covers_all_that_decides_a_memo() -> None:
    base = Way("human", "single", "m", "p").key(run())
    others = (
        Way("agent", "single", "m", "p"), Way("human", "debate", "m", "p"),
        Way("human", "single", "n", "p"), Way("human", "single", "m", "q"),
        Way("human", "single", "mp", ""),
    )  # fmt: skip
    keys = {
        base,
        *(way.key(run()) for way in others),
        Way("human", "single", "m", "p").key(company()),
    }
    assert len(keys) == 7


@pytest.mark.parametrize("version", ["GATE_VERSION", "WRITER_VERSION"])
def test_another_gate_or_writer_finds_nothing_of_the_old_one(
    written: list[str], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    of(run())
    monkeypatch.setattr(cache, version, "next")
    assert not of(run()).cached


def test_facts_of_a_user_are_cached_too(written: list[str]) -> None:
    assert [of(company()).cached for _ in range(2)] == [False, True]
    other = Snapshot("external", "acme", None, (fact("Revenue", "USD", Decimal(1), material=True),))
    assert not of(other).cached
    assert written == ["external"] * 2


# --- Faults -----------------------------------------------------------------------------------------


def test_a_table_that_cannot_be_read_is_a_miss(
    written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of(run())

    def broken(*_args: Any, **_kwargs: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM no_such_table")

    with monkeypatch.context() as patch:
        patch.setattr(cache.Memo.objects, "filter", broken)
        assert not of(run()).cached
    assert len(written) == 2
    assert of(run()).cached


def test_a_memo_that_cannot_be_kept_is_served_all_the_same(written: list[str]) -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE scoring_memo ADD CONSTRAINT no_memos CHECK (hits < 0) NOT VALID"
            )
        made = of(run())
        assert (made.row, made.cached) == (None, False)
        assert made.gate.passed
        transaction.set_rollback(True)


def test_an_identifier_that_no_column_holds_is_no_error(written: list[str]) -> None:
    odd = Snapshot("external", "a\0b", None, (fact("Revenue", "USD", 5, material=True),))
    assert of(odd).row is None


def test_a_verdict_that_does_not_read_is_none(written: list[str]) -> None:
    of(run())
    Memo.objects.update(
        verdict={"odd": 1}, verdict_tier="default", accepted=True, judged_at=timezone.now()
    )
    made = of(run())
    assert made.cached
    assert made.verdict is None


# --- What is stored ---------------------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", [company(), run()], ids=["company", "run"])
def test_a_stored_snapshot_reads_back_as_it_was(snapshot: Snapshot) -> None:
    of(snapshot)
    row = Memo.objects.get()
    back = snapshot_from_dict(row.facts)
    assert back.fingerprint() == snapshot.fingerprint() == row.fingerprint
    assert back.citations == snapshot.citations
    assert back.as_of == snapshot.as_of
    assert [item.provenance for item in back.facts] == [
        item.provenance for item in snapshot.by_citation.values()
    ]
    assert check(row.text, back).passed


def test_what_is_no_snapshot_does_not_read() -> None:
    good = snapshot_as_dict(company())
    for change in (
        {"facts": None}, {"as_of": "yesterday"}, {"facts": [{}]},
        {"facts": [good["facts"][0] | {"value": "much"}]},
        {"facts": [good["facts"][0] | {"formula": "magic", "derived_from": ["x"]}]},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            snapshot_from_dict(good | change)
    with pytest.raises(ValueError, match="no snapshot"):
        snapshot_from_dict({})


def test_an_unknown_database_error_elsewhere_is_raised() -> None:
    def broken() -> Snapshot:
        raise DatabaseError("away")

    with pytest.raises(DatabaseError):
        memo_of(broken)
