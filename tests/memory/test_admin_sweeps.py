"""Sweeps and passes in the admin: what a sweep shows, who may apply and undo it, a pass's report."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from contextgraph.dream_bodies import STAGES
from memory import dream, eviction
from memory.models import DreamPass, EvictionSweep, Run, Tip
from tests.admin_world import HOSTILE
from tests.factories import make_attempt, make_dream_pass, make_retrieval, make_run, make_tip
from tests.memory.sweep_histories import GATE, bad_tip

pytestmark = pytest.mark.django_db

State = EvictionSweep.State


@pytest.fixture(autouse=True)
def _quick_logins(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def url(name: str, sweep: EvictionSweep) -> str:
    return reverse(f"admin:memory_evictionsweep_{name}", args=[sweep.pk])


def member(*groups: str) -> Client:
    user = User.objects.create_user("member", password="x", is_staff=True)
    user.groups.set(Group.objects.filter(name__in=groups))
    client = Client()
    client.force_login(user)
    return client


def previewed(tips: int = 2) -> EvictionSweep:
    """A sweep that caught this many tips."""
    for _ in range(tips):
        bad_tip()
    gate = GATE.model_copy(update={"cap_share": 1.0})
    return eviction.preview("stig", gate=gate, by="ann")


def retired() -> int:
    return Tip.objects.filter(retired_at__isnull=False).count()


def page(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


def test_an_operator_applies_a_sweep_and_undoes_it() -> None:
    sweep = previewed()
    client = member("Operators")
    html = page(client, url("change", sweep))
    assert "from 3 visits and 7 days on" in html
    assert html.count("misleading</td>") == 2
    assert url("apply", sweep) in html
    assert url("undo", sweep) not in html

    html = client.post(url("apply", sweep), follow=True).content.decode()
    assert f"Sweep {sweep.pk} retired 2 tips, left 0." in html
    assert retired() == 2
    assert url("undo", sweep) in html
    assert "must be" not in html

    html = client.post(url("undo", sweep), follow=True).content.decode()
    assert f"Sweep {sweep.pk} gave back 2 tips, left 0." in html
    assert retired() == 0
    sweep.refresh_from_db()
    assert (sweep.state, sweep.applied_by, sweep.undone_by) == (State.UNDONE, "member", "member")
    assert LogEntry.objects.filter(object_id=str(sweep.pk)).count() == 2
    html = page(client, url("change", sweep))
    assert url("apply", sweep) not in html
    assert url("undo", sweep) not in html


def test_a_sweep_that_is_not_in_that_state_says_so() -> None:
    sweep = previewed(1)
    client = member("Operators")
    html = client.post(url("undo", sweep), follow=True).content.decode()
    assert "it was never applied" in html
    client.post(url("apply", sweep))
    html = client.post(url("apply", sweep), follow=True).content.decode()
    assert "it cannot become applied" in html
    assert retired() == 1


@pytest.mark.parametrize("verb", ["apply", "undo"])
def test_a_button_needs_its_permission_post_and_a_token(verb: str) -> None:
    sweep = previewed(1)
    if verb == "undo":
        eviction.apply(sweep.pk, by="ann")
    before = retired()
    client = member("Reviewers")  # they may see it
    assert url(verb, sweep) not in page(client, url("change", sweep))
    assert client.post(url(verb, sweep)).status_code == 403
    user = User.objects.get(username="member")
    user.groups.set(Group.objects.filter(name="Operators"))
    assert client.get(url(verb, sweep)).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    assert strict.post(url(verb, sweep)).status_code == 403
    assert Client().post(url(verb, sweep)).status_code == 302
    missing = reverse(f"admin:memory_evictionsweep_{verb}", args=[0])
    assert client.post(missing).status_code == 404
    assert retired() == before


def test_the_number_of_queries_is_that_of_one_entry(admin_client: Client) -> None:
    counts = []
    for tips in (1, 29):
        sweep = previewed(tips)
        found = []
        for address in (
            url("change", sweep),
            reverse("admin:memory_evictionsweep_changelist"),
            reverse("admin:memory_sweepentry_changelist"),
        ):
            admin_client.get(address)
            with CaptureQueriesContext(connection) as queries:
                page(admin_client, address)
            found.append(len(queries))
        counts.append(found)
    assert counts[0] == counts[1]


def test_many_entries_are_cut_and_the_rest_is_linked(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = previewed(3)
    monkeypatch.setattr("memory.admin_sweeps.ENTRIES_SHOWN", 2)
    html = page(admin_client, url("change", sweep))
    assert "all 3 entries" in html
    assert html.count("misleading</td>") == 2
    listed = reverse("admin:memory_sweepentry_changelist")
    assert f"{listed}?sweep__exact={sweep.pk}" in html
    page(admin_client, f"{listed}?sweep__exact={sweep.pk}")


def test_hostile_text_stays_text(admin_client: Client) -> None:
    bad_tip(text=HOSTILE, external_id=HOSTILE, tip_type=HOSTILE)
    sweep = eviction.preview("stig", gate=GATE, by=HOSTILE)
    html = page(admin_client, url("change", sweep))
    assert html.count("misleading</td>") == 1
    assert "<script>alert" not in html
    assert "<img src=x" not in html


def test_a_sweep_that_does_not_exist_is_nowhere(admin_client: Client) -> None:
    address = reverse("admin:memory_evictionsweep_change", args=[0])
    assert admin_client.get(address).status_code == 302  # to the front page, which says so
    assert member().get(address).status_code == 403


# --- Dream passes ---------------------------------------------------------------------------------


def dreamt(text: str) -> DreamPass:
    """The pass of a run with a misleading tip whose every word is *text*."""
    run = make_run(external_id=text, status=Run.Status.FINALIZING)
    tip = make_tip(text=text, external_id=text, category=text)
    for _ in range(5):
        attempt = make_attempt(run=run, outcome=0.0, category=text)
        make_retrieval(attempt=attempt, tip=tip, llm=True)
    assert dream.run_pass(run.pk, stages=STAGES) == 1
    return DreamPass.objects.get(run=run)


def test_a_pass_shows_its_report_as_text(admin_client: Client) -> None:
    text = f"# heading\n![x](http://evil/) | {HOSTILE}"
    kept = dreamt(text)
    html = page(admin_client, reverse("admin:memory_dreampass_change", args=[kept.pk]))
    report = html.partition('<pre class="desk-text">')[2].partition("</pre>")[0]
    assert "# Dream pass 1 of run" in report
    assert "helpful when followed | 0 of 5" in report
    assert "\n# heading" not in report
    assert "\u202e" not in report
    assert "<" not in report
    assert "<script>alert" not in html
    assert "<img src=x" not in html


def test_a_pass_of_a_shape_that_is_not_made_any_more_says_so(admin_client: Client) -> None:
    kept = make_dream_pass(summary={"version": 0})
    html = page(admin_client, reverse("admin:memory_dreampass_change", args=[kept.pk]))
    assert "Kept by an older version" in html
