"""Rows that travel as JSON are stored as ``bulk_create`` stores them."""

from __future__ import annotations

import contextlib
import math
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from django.db import DataError, IntegrityError, transaction

from memory.insertion import insert_rows
from memory.models import Tip, TipEvidence
from scoring.models import JudgeCall, VerdictCache

if TYPE_CHECKING:
    from django.db.models import Model

pytestmark = pytest.mark.django_db
HOSTILE = 'a\'b"c\\d %s \t\n\u2028 é 漢 😀 {"k": [1]} $$ ; --'


def call(**fields: object) -> JudgeCall:
    given = {"requested_model": "m", "prompt_sha256": "0" * 64, "tips": 1, "http_tries": 1}
    return JudgeCall(**(given | {"purpose": "memo_write", "seconds": 0.1} | fields))


def kept(key: str, **fields: object) -> VerdictCache:
    given = {"label": "followed", "said": "followed", "requested_model": "m"}
    return VerdictCache(**(given | {"key": key, "prompt_sha256": "0" * 64} | fields))


def columns(row: Model, *, but: str) -> dict[str, object]:
    stored = type(row)._default_manager.filter(pk=row.pk).values().get()
    return {name: value for name, value in stored.items() if name not in {but, "created_at"}}


def test_a_row_is_stored_as_django_stores_it() -> None:
    fields = {
        "raw_reply": HOSTILE, "seconds": 0.1 + 0.2, "latency_s": 1e-300, "prompt_tokens": None,
        "again": True,
    }  # fmt: skip
    (ours,) = insert_rows([call(**fields)])
    (theirs,) = JudgeCall.objects.bulk_create([call(**fields)])
    assert columns(ours, but="id") == columns(theirs, but="id")
    assert ours.pk
    assert not ours._state.adding
    assert JudgeCall.objects.get(pk=ours.pk).created_at is not None


def test_json_is_stored_as_django_stores_it() -> None:
    evidence = [{"quote": HOSTILE, "start": None, "n": 1.5}, [], {}, "", True]
    insert_rows([kept("a" * 64, evidence=evidence)])
    VerdictCache.objects.bulk_create([kept("b" * 64, evidence=evidence)])
    ours, theirs = VerdictCache.objects.order_by("key")
    assert ours.evidence == evidence
    assert columns(ours, but="key") == columns(theirs, but="key")


def test_keys_come_back_in_the_order_of_the_rows() -> None:
    made = insert_rows([call(http_tries=number) for number in range(300)])
    stored = dict(JudgeCall.objects.values_list("pk", "http_tries"))
    assert [stored[row.pk] for row in made] == list(range(300))


def test_nothing_is_nothing() -> None:
    assert insert_rows([]) == []


def test_what_is_there_is_left_alone_when_asked_to() -> None:
    insert_rows([kept("a" * 64, reasoning="first")])
    insert_rows([kept("a" * 64, reasoning="second"), kept("b" * 64)], unless_there=True)
    assert list(VerdictCache.objects.order_by("key").values_list("reasoning", flat=True)) == [
        "first",
        "",
    ]
    with pytest.raises(IntegrityError), transaction.atomic():
        insert_rows([kept("a" * 64)])


def test_a_value_that_does_not_fit_is_refused_and_nothing_is_stored() -> None:
    with pytest.raises(ValueError, match="JSON"):
        insert_rows([call(), call(seconds=math.nan)])
    with pytest.raises(DataError), transaction.atomic():
        insert_rows([call(), call(requested_model="m" * 201)])
    with pytest.raises(TypeError, match="JSON"):
        insert_rows([TipEvidence(tip_id=1, credit_total=Decimal(1))])
    with pytest.raises(ValueError, match="primary key"):
        insert_rows([call(pk=7)])
    assert not JudgeCall.objects.exists()


def test_a_value_that_the_database_makes_is_refused_and_not_stored_as_text() -> None:
    with pytest.raises(TypeError, match="words_sha256"):
        insert_rows([Tip(skill="stig", external_id="t", text="x")])


def test_after_an_error_the_transaction_can_only_be_rolled_back() -> None:
    with transaction.atomic():
        with contextlib.suppress(DataError):
            insert_rows([call(requested_model="m" * 201)])
        with pytest.raises(transaction.TransactionManagementError):
            JudgeCall.objects.exists()
        transaction.set_rollback(True)
