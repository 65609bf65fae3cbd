"""The admin marks judges without a calibration, on lists and detail pages, with one query a page.

Shaped by a list of verdicts in which nothing told the measured judge from the one tried yesterday.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from scoring.models import Judgement
from tests.calibrations import make_calibration
from tests.factories import make_attempt, make_retrieval

if TYPE_CHECKING:
    from django.test import Client

    from memory.models import Retrieval

pytestmark = pytest.mark.django_db

SHA = "ab" * 32
LISTS = ("memory_retrieval", "scoring_judgement")
HOSTILE = "new\u202e<script>"


@pytest.fixture(autouse=True)
def _quick_logins(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def make_verdict(model: str, **fields: Any) -> tuple[Retrieval, Judgement]:
    """A row that *model* labelled, and the judgement behind it."""
    row = make_retrieval(
        attempt=make_attempt(),
        llm=True,
        llm_source=f"{model}@{SHA}",
        llm_label="followed",
        **fields,
    )
    said = Judgement.objects.create(
        retrieval=row, requested_model=model, prompt_sha256=SHA, label="followed", followed=True
    )
    return row, said


def shown(client: Client, name: str, *args: int) -> str:
    page = "change" if args else "changelist"
    return client.get(reverse(f"admin:{name}_{page}", args=args)).content.decode()


def test_lists_and_detail_pages_mark_the_judge_beside_its_name(admin_client: Client) -> None:
    make_calibration("known-7b", SHA)
    known, new = make_verdict("known-7b"), make_verdict(HOSTILE)
    name = "new\\u202e&lt;script&gt;"
    for place, page in enumerate(LISTS):
        html = shown(admin_client, page)
        assert f"{name}@{SHA[:12]} (uncalibrated)" in html
        assert f"known-7b@{SHA[:12]}</td>" in html
        assert html.count("(uncalibrated)") == 1
        assert "(uncalibrated)" in shown(admin_client, page, new[place].pk)
        assert "uncalibrated" not in shown(admin_client, page, known[place].pk)
    assert shown(admin_client, "memory_retrieval").count("followed (llm, uncalibrated)") == 1


def test_an_answer_of_another_signal_has_no_mark(admin_client: Client) -> None:
    row, _ = make_verdict("new-7b", review=False)
    html = shown(admin_client, "memory_retrieval", row.pk)
    assert "ignored (review)" in html
    assert f"new-7b@{SHA[:12]} (uncalibrated)" in html


def test_a_row_without_a_judge_names_none(admin_client: Client) -> None:
    row = make_retrieval(emb=0.9)
    assert "uncalibrated" not in shown(admin_client, "memory_retrieval", row.pk)


@pytest.mark.parametrize("name", LISTS)
def test_a_page_asks_once_however_many_judges_it_shows(admin_client: Client, name: str) -> None:
    counts = []
    for first, last in ((0, 2), (2, 20)):
        for number in range(first, last):
            make_verdict(f"judge-{number}b")
        shown(admin_client, name)  # content types and the theme are cached by the first page
        with CaptureQueriesContext(connection) as queries:
            html = shown(admin_client, name)
        assert html.count("@abababababab (uncalibrated)") == last
        asked = [query for query in queries if "scoring_calibration" in query["sql"]]
        counts.append((len(asked), len(queries)))
    assert counts[0] == counts[1]
    assert counts[0][0] == 1


def test_a_row_that_is_not_there_is_no_error(admin_client: Client) -> None:
    for name in LISTS:
        url = reverse(f"admin:{name}_change", args=[999_999])
        assert admin_client.get(url).status_code == 302
