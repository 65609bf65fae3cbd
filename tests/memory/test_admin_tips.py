"""The reviewers' pages about tips: what they show, and who may press which button."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.models import Tip, TipChange
from tests.admin_world import HOSTILE
from tests.factories import make_tip
from tests.memory.sweep_histories import EARNED, LUCKY, MISLEADING, give_past

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db

LIST = "admin:memory_tip_misleading"


@pytest.fixture(autouse=True)
def _quick_logins(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def url(name: str, tip: Tip) -> str:
    return reverse(f"admin:memory_tip_{name}", args=[tip.pk])


def member(*groups: str, permissions: tuple[str, ...] = ()) -> Client:
    """A logged-in user of these groups."""
    user = User.objects.create_user("member", password="x", is_staff=True)
    user.groups.set(Group.objects.filter(name__in=groups))
    client = Client(enforce_csrf_checks=False)
    client.force_login(user)
    return client


def bad_tip(**fields: Any) -> Tip:
    tip = make_tip(**fields)
    give_past(tip, *[MISLEADING] * 4, EARNED, LUCKY)
    return tip


def page(client: Client, address: str, **query: Any) -> str:
    response = client.get(address, query)
    assert response.status_code == 200, address
    return response.content.decode()


def test_the_front_page_leads_to_the_list_and_the_list_to_the_record(admin_client: Client) -> None:
    tip = bad_tip(external_id="tip-a")
    assert reverse(LIST) in page(admin_client, reverse("admin:index"))
    html = page(admin_client, reverse(LIST))
    assert url("record", tip) in html
    assert "4 of 5" in html
    assert "policy <code>quadrant</code>" in html
    record = page(admin_client, url("record", tip))
    (row,) = tip.retrievals.filter(outcome_value=1.0, tip_followed_llm=False)
    assert reverse("admin:memory_retrieval_change", args=[row.pk]) in record
    assert record.count("/change/") > 10
    assert url("record", tip) in page(admin_client, reverse("admin:memory_tip_changelist"))


@pytest.mark.parametrize("unit", ["visit", "retrieval"])
def test_the_pages_say_what_a_mean_counts_and_what_it_is_shrunk_toward(
    unit: str, admin_client: Client, settings: Any, tmp_path: Path
) -> None:
    (tmp_path / "stig").mkdir()
    (tmp_path / "stig" / "skill.toml").write_text(
        f'[grading]\nversion = "1"\nkind = "binary"\n[ranking]\nunit = "{unit}"\n'
    )
    settings.PROMPTS_DIR = tmp_path
    tip = bad_tip()
    found = " ".join(page(admin_client, reverse(LIST), skill="stig").split())
    record = " ".join(page(admin_client, url("record", tip)).split())
    for html in (found, record):
        assert "shrunk toward the mean of the skill's tips" in html
        assert "other tips" not in html
    assert f"one observation per {unit}" in found
    assert ("a run's attempts at one rule" in found) is (unit == "visit")
    assert record.count(f"<td>{unit}</td>") == 5  # a row for each policy


def test_the_list_is_filtered_and_nonsense_is_no_filter(admin_client: Client) -> None:
    tip, other = bad_tip(), bad_tip(skill="cve")
    here, there = url("record", tip), url("record", other)
    html = page(admin_client, reverse(LIST), skill="cve")
    assert there in html
    assert here not in html
    assert here in page(admin_client, reverse(LIST), skill="stig", against="lucky_neighbour")
    assert here not in page(admin_client, reverse(LIST), skill="stig", pool="retired")
    for query in ({"skill": "\0"}, {"against": "x"}, {"pool": "\ud7ff"}, {"page": "-1"},
                  {"page": "x"}):  # fmt: skip
        page(admin_client, reverse(LIST), **query)
    assert "No such tip" in page(admin_client, reverse(LIST), skill="nothing")


def test_the_pages_work_on_an_empty_system(admin_client: Client) -> None:
    assert "No such tip" in page(admin_client, reverse(LIST))
    assert "No final run has retrieved it" in page(admin_client, url("record", make_tip()))
    assert admin_client.get(reverse("admin:memory_tip_record", args=[0])).status_code == 404


def test_hostile_text_stays_text_on_every_page(admin_client: Client) -> None:
    tip = make_tip(
        text=HOSTILE, mechanism=HOSTILE, external_id=HOSTILE, category=HOSTILE, tip_type=HOSTILE,
        source_rule_id=HOSTILE,
    )  # fmt: skip
    give_past(tip, *[MISLEADING] * 4, category=HOSTILE)
    admin_client.post(url("retire", tip), {"reason": HOSTILE})
    tip.retrievals.update(rule_id=HOSTILE)
    for address, query in (
        (reverse(LIST), {"pool": "all"}),
        (url("record", tip), {}),
        (reverse("admin:index"), {}),
    ):
        html = page(admin_client, address, **query)
        assert "<script>alert" not in html
        assert "<img src=x" not in html
        if address != reverse("admin:index"):  # Django's own list of recent actions
            assert "\u202e" not in html
            assert "\x1b" not in html


def test_a_page_of_30_takes_as_many_queries_as_a_page_of_1(admin_client: Client) -> None:
    counts = []
    for tips in (1, 29):
        for _ in range(tips):
            bad_tip()
        newest = Tip.objects.order_by("-pk")[0]
        if tips > 1:
            give_past(newest, *[MISLEADING] * 29, *[LUCKY] * 29)
        found = []
        for address in (reverse(LIST), url("record", newest)):
            admin_client.get(address)
            with CaptureQueriesContext(connection) as queries:
                page(admin_client, address)
            found.append(len(queries))
        counts.append(found)
    assert counts[0] == counts[1]


# --- The buttons ----------------------------------------------------------------------------------


def test_a_reviewer_retires_a_tip_and_takes_it_back() -> None:
    tip = bad_tip()
    client = member("Reviewers")
    assert url("retire", tip) in page(client, url("record", tip))
    response = client.post(url("retire", tip), {"reason": " breaks the login "}, follow=True)
    html = response.content.decode()
    assert response.redirect_chain == [(url("record", tip), 302)]
    assert "breaks the login" in html
    assert url("reactivate", tip) in html
    assert url("retire", tip) not in html
    client.post(url("reactivate", tip), {"reason": "mended"})
    assert list(TipChange.objects.values_list("action", "reason", "by")) == [
        ("retire", "breaks the login", "member"),
        ("reactivate", "mended", "member"),
    ]
    tip.refresh_from_db()
    assert tip.retired_at is None
    assert [entry.object_id for entry in LogEntry.objects.all()] == [str(tip.pk)] * 2


def test_without_a_reason_nothing_happens_and_the_page_says_so() -> None:
    tip = bad_tip()
    client = member("Reviewers")
    for reason in ("", "   ", "x" * 2001, "a\0b"):
        response = client.post(url("retire", tip), {"reason": reason})
        assert response.status_code == 400
        assert "errorlist" in response.content.decode()
    assert not TipChange.objects.exists()


def test_twice_is_an_error_that_is_told() -> None:
    tip = bad_tip()
    client = member("Reviewers")
    client.post(url("retire", tip), {"reason": "first"})
    html = client.post(url("retire", tip), {"reason": "second"}, follow=True).content.decode()
    assert "is retired since" in html
    assert TipChange.objects.count() == 1


@pytest.mark.parametrize("verb", ["retire", "reactivate"])
def test_a_button_needs_its_permission_post_and_a_token(verb: str) -> None:
    tip = bad_tip()
    reviewers = Group.objects.get(name="Reviewers")
    viewers = Group.objects.create(name="Viewers")
    viewers.permissions.set(reviewers.permissions.filter(codename__startswith="view_"))
    client = member("Viewers")
    html = page(client, url("record", tip))
    assert "csrfmiddlewaretoken" not in html.partition('id="content-main"')[2]
    assert client.post(url(verb, tip), {"reason": "r"}).status_code == 403
    user = User.objects.get(username="member")
    user.groups.set([reviewers])
    assert client.get(url(verb, tip)).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    assert strict.post(url(verb, tip), {"reason": "r"}).status_code == 403
    assert Client().post(url(verb, tip), {"reason": "r"}).status_code == 302  # to the login
    assert client.post(url(verb, make_tip(pk=10**9)), {"reason": "r"}).status_code == 302
    assert client.post(reverse(f"admin:memory_tip_{verb}", args=[0]), {}).status_code == 404
    tip.refresh_from_db()
    assert tip.retired_at is None


def test_who_may_see_nothing_sees_nothing() -> None:
    tip = bad_tip()
    client = member()
    assert client.get(reverse(LIST)).status_code == 403
    assert client.get(url("record", tip)).status_code == 403
    assert reverse(LIST) not in page(client, reverse("admin:index"))
    assert Client().get(reverse(LIST)).status_code == 302
