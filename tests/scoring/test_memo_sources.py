"""Where a fact's provenance leads in the admin: which page, filtered by what, and what stays text."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib import admin

from scoring.memo_sources import Source, source_of
from scoring.memos.ledger import rows_of


def of(reference: str) -> Source:
    return source_of(reference, admin.site)


def query(source: Source) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(source.url).query).items()}


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("tips:5", "/admin/memory/tip/5/change/"),
        ("tips:5#text", "/admin/memory/tip/5/change/"),
        ("dream_passes:12#summary.categories.a b\nc", "/admin/memory/dreampass/12/change/"),
        ("eviction_sweeps:3", "/admin/memory/evictionsweep/3/change/"),
    ],
)
def test_a_value_leads_to_the_row_that_holds_it(reference: str, url: str) -> None:
    assert of(reference) == Source(reference, url)


def test_a_count_leads_to_the_rows_that_were_counted() -> None:
    source = of("run_evidence?run_id=3&tip_id=4&policy=quadrant&rule_id=rule_7")
    assert urlsplit(source.url).path == "/admin/memory/runevidence/"
    assert query(source) == {
        "run__exact": "3", "tip__exact": "4", "policy__exact": "quadrant",
        "rule_id__exact": "rule_7",
    }  # fmt: skip
    assert source.only == ""


def test_what_no_column_holds_is_said_beside_the_link() -> None:
    source = of("tip_retrievals?run_id=3&quadrant=misleading&shown=True")
    assert query(source) == {"run__exact": "3", "shown__exact": "True"}
    assert source.only == "quadrant misleading"
    assert query(of("attempts?run_id=3&outcome=success")) == {
        "run__exact": "3", "outcome_value__gt": "0.0",
    }  # fmt: skip
    unheard = of("attempts?run_id=3&outcome=odd")
    assert (query(unheard), unheard.only) == ({"run__exact": "3"}, "outcome odd")


@pytest.mark.parametrize(
    "rule",
    [
        "a&b",
        "a=b&c==",
        "a&run_id=9",
        "x&admin=1",
        "%26 #?",
        "a&quadrant",
        "a&policy=adr0019",
        "a+b é",
    ],
)
def test_a_name_with_the_signs_of_an_address_is_one_value(rule: str) -> None:
    source = of(rows_of("run_evidence", run_id=3, rule_id=rule))
    assert query(source) == {"run__exact": "3", "rule_id__exact": rule}


@pytest.mark.parametrize(
    "reference",
    ["https://example.org/a?b=c", "javascript:alert(1)", "javascript:1", "auth_user:1",
     "django_session?a=b", "auth_user?password=x", "no_such_table:3", "tips:x", "tips:" + "9" * 19,
     "tips:²", "", "?", ":", "\n", "tips"],
)  # fmt: skip
def test_what_is_no_row_of_ours_stays_text(reference: str) -> None:
    assert of(reference) == Source(reference)


def test_a_condition_that_a_list_would_refuse_is_no_filter() -> None:
    source = of("tip_retrievals?run_id=x&shown=maybe&run__skill=stig")
    assert (query(source), source.only) == ({}, "run_id x, shown maybe, run__skill stig")
