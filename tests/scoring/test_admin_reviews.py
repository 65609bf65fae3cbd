"""The queue of disagreements and its form: what a reviewer sees, records, and gets next."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.models import Retrieval, Run
from scoring.models import Judgement, Review
from scoring.reviews import record_review
from tests.admin_world import HOSTILE
from tests.calibrations import make_calibration
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip

pytestmark = pytest.mark.django_db

QUEUE = "admin:scoring_review_disagreements"


@pytest.fixture(autouse=True)
def _quick_logins(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def run() -> Run:
    return make_run(status=Run.Status.DONE)


def member(*groups: str) -> Client:
    user = User.objects.create_user("member", password="x", is_staff=True)
    user.groups.set(Group.objects.filter(name__in=groups))
    client = Client()
    client.force_login(user)
    return client


def disputed(run: Run, text: str = "Use authselect.", p: float = 0.6) -> Retrieval:
    """The judge says followed, the trace says violated; *text* wherever a stranger may write."""
    attempt = make_attempt(
        run=run,
        script=f"first line\n{text}",
        outcome=0.0,
        rule_id=text,
        failure_mode=text,
        number=run.attempts.count() + 1,
    )
    row = make_retrieval(
        attempt=attempt,
        tip=make_tip(text=text),
        llm=True,
        emb=0.7,
        trace="violated",
        tip_followed_p=p,
        tip_followed_p_version="x@0",
        tip_followed_trace_evidence=[{"text": text, "line": 2, "clause": "forbids"}],
    )
    Judgement.objects.create(
        retrieval=row, followed=True, label="followed", reasoning=f"because {text}",
        requested_model="judge-a", prompt_sha256="0",
        evidence=[{"claim": text, "finding": "done", "quote": text, "why": text}],
    )  # fmt: skip
    return row


def url(row: Retrieval) -> str:
    return reverse("admin:scoring_review_row", args=[row.pk])


def answer(client: Client, row: Retrieval, said: str, seen: int = 0, **more: Any) -> Any:
    query = more.pop("query", "")
    return client.post(f"{url(row)}{query}", {"answer": said, "seen": seen, **more}, follow=True)


def page(client: Client, address: str, **query: Any) -> str:
    response = client.get(address, query)
    assert response.status_code == 200, address
    return response.content.decode()


def test_a_row_is_shown_with_all_that_was_said_about_it(admin_client: Client, run: Run) -> None:
    row = disputed(run)
    assert reverse(QUEUE) in page(admin_client, reverse("admin:index"))
    html = page(admin_client, reverse(QUEUE))
    assert url(row) in html
    assert "judge against trace" in html
    assert "(uncalibrated)" in html
    html = page(admin_client, url(row))
    for words in (
        "because Use authselect.", "   2  Use authselect.", "violated", "forbids", "0.700",
        "outcome +0.00", "judge-a, default, uncalibrated", "judge against trace",
    ):  # fmt: skip
        assert words in html, words


def test_each_judgement_is_marked_by_its_own_judge(admin_client: Client, run: Run) -> None:
    row = disputed(run)
    make_calibration("known-7b", "0" * 64)
    Judgement.objects.create(
        retrieval=row, requested_model="known-7b", prompt_sha256="0" * 64, reason="judge_error"
    )
    html = page(admin_client, url(row))
    assert "judge-a, default, uncalibrated, earlier" in html
    assert "known-7b, default<" in html


def test_an_answer_is_recorded_and_the_next_row_comes(run: Run) -> None:
    rows = [disputed(run, p=0.6 + number / 100) for number in range(3)]
    client = member("Reviewers")
    html = page(client, url(rows[0]))
    assert f'href="{url(rows[1])}"' in html  # skip
    response = answer(client, rows[0], "not_followed", note="it only greps")
    assert response.redirect_chain == [(url(rows[1]), 302)]
    review = Review.objects.get()
    assert (review.followed, review.by, review.note) == (False, "member", "it only greps")
    rows[0].refresh_from_db()
    assert rows[0].tip_followed_review is False
    assert url(rows[0]) not in page(client, reverse(QUEUE))
    assert LogEntry.objects.get().object_id == str(review.pk)

    assert answer(client, rows[2], "followed").redirect_chain == [(url(rows[1]), 302)]  # from above
    response = answer(client, rows[1], "cannot_tell")
    assert response.redirect_chain == [(reverse(QUEUE), 302)]
    html = response.content.decode()
    assert "Nothing to decide here." in html
    assert url(rows[1]) in page(client, reverse(QUEUE), undecided="1")


def test_the_filters_stay_from_row_to_row(run: Run) -> None:
    other = make_run(status=Run.Status.DONE)
    first, second = disputed(run), disputed(run)
    disputed(other)
    client = member("Reviewers")
    query = f"?run={run.pk}"
    html = page(client, reverse(QUEUE), run=run.pk)
    assert f"{url(first)}{query}" in html
    assert html.count("/disagreements/") < 10
    response = answer(client, first, "followed", query=query)
    assert response.redirect_chain == [(f"{url(second)}{query}", 302)]
    response = answer(client, second, "followed", query=query)
    assert response.redirect_chain == [(f"{reverse(QUEUE)}{query}", 302)]


def test_a_second_word_supersedes_and_an_unseen_one_stops(run: Run) -> None:
    row = disputed(run)
    client = member("Reviewers")
    first = record_review(row.pk, followed=True, by="ann", note="I ran it")
    html = page(client, url(row))
    assert "I ran it" in html
    assert f'name="seen" value="{first.pk}"' in html
    response = answer(client, row, "not_followed", seen=0)
    assert response.redirect_chain == [(url(row), 302)]
    assert "was reviewed meanwhile by ann" in response.content.decode()
    answer(client, row, "not_followed", seen=first.pk)
    assert list(Review.objects.values_list("by", "followed")) == [("ann", True), ("member", False)]


def test_what_cannot_be_reviewed_has_no_form(admin_client: Client, run: Run) -> None:
    unseen = make_retrieval(attempt=make_attempt(run=run), shown=False)
    old = make_retrieval(attempt=make_attempt(run=make_run(superseded_at=MOMENT)), llm=True)
    for row, words in ((unseen, "was not shown"), (old, "superseded revision")):
        html = page(admin_client, url(row))
        assert 'name="answer"' not in html
        assert words in html
        response = answer(admin_client, row, "followed")
        assert words in response.content.decode()
    assert not Review.objects.exists()
    assert admin_client.get(reverse("admin:scoring_review_row", args=[0])).status_code == 404


@pytest.mark.parametrize(
    "said",
    [{"answer": "maybe"}, {}, {"answer": "followed", "seen": "x"}, {"answer": "followed", "seen": -1},
     {"answer": "followed", "note": "x" * 10_001}, {"answer": "followed", "note": "a\0b"}],
)  # fmt: skip
def test_a_form_that_makes_no_sense_is_shown_again(run: Run, said: dict[str, Any]) -> None:
    row = disputed(run)
    response = member("Reviewers").post(url(row), {"seen": 0} | said)
    assert response.status_code == 400
    assert "errorlist" in response.content.decode()
    assert not Review.objects.exists()


def test_nonsense_is_no_filter(admin_client: Client, run: Run) -> None:
    row = disputed(run)
    for query in ({"run": "x"}, {"run": "9" * 40}, {"window": "1000000"}, {"cause": "x"},
                  {"skill": "\0"}, {"page": "x"}, {"undecided": "2"}):  # fmt: skip
        assert url(row) in page(admin_client, reverse(QUEUE), **query), query
    assert "Nothing to decide" in page(admin_client, reverse(QUEUE), skill="nothing")


def test_hostile_text_stays_text(admin_client: Client, run: Run) -> None:
    row = disputed(run, HOSTILE)
    record_review(row.pk, followed=None, by=HOSTILE, note=HOSTILE)
    for address, query in ((reverse(QUEUE), {"undecided": "1"}), (url(row), {})):
        html = page(admin_client, address, **query)
        assert url(row) in html or "Did the script follow" in html
        assert "<script>alert" not in html
        assert "<img src=x" not in html
        assert "\u202e" not in html
        assert "\x1b" not in html


def test_a_queue_of_30_takes_as_many_queries_as_one_of_1(admin_client: Client, run: Run) -> None:
    counts = []
    for rows in (1, 29):
        for _ in range(rows):
            row = disputed(run)
        found = []
        for address in (reverse(QUEUE), url(row)):
            admin_client.get(address)
            with CaptureQueriesContext(connection) as queries:
                page(admin_client, address)
            found.append(len(queries))
        counts.append(found)
    assert counts[0] == counts[1]


def test_recording_needs_its_permission_and_a_token(run: Run) -> None:
    row = disputed(run)
    reviewers = Group.objects.get(name="Reviewers")
    viewers = Group.objects.create(name="Viewers")
    viewers.permissions.set(reviewers.permissions.filter(codename__startswith="view_"))
    client = member("Viewers")
    assert 'name="answer"' not in page(client, url(row))
    assert client.post(url(row), {"answer": "followed", "seen": 0}).status_code == 403
    user = User.objects.get(username="member")
    user.groups.set([reviewers])
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    assert strict.post(url(row), {"answer": "followed", "seen": 0}).status_code == 403
    assert Client().post(url(row), {"answer": "followed", "seen": 0}).status_code == 302
    user.groups.clear()
    assert client.get(url(row)).status_code == 403
    assert client.get(reverse(QUEUE)).status_code == 403
    assert not Review.objects.exists()
