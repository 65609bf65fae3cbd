"""A reviewer at work, in a real browser: the misleading tip that is retired, the row that is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group, User

from memory.models import Retrieval, Run, Tip, TipChange
from scoring.models import Judgement, Review
from tests.factories import make_attempt, make_retrieval, make_run, make_tip
from tests.memory.sweep_histories import EARNED, MISLEADING, give_past

if TYPE_CHECKING:
    from pytest_django.live_server_helper import LiveServer

    from tests.browser.webdriver import Browser

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def desk(browser: Browser, live_server: LiveServer) -> Browser:
    """The front page, after a reviewer has logged in."""
    user = User.objects.create_user("reviewer", password="correct horse", is_staff=True)
    user.groups.add(Group.objects.get(name="Reviewers"))
    browser.open(f"{live_server.url}/admin/")
    browser.type("#id_username", "reviewer")
    browser.type("#id_password", "correct horse")
    browser.click("input[type=submit]")
    assert "Reviewers' desk" in browser.text
    return browser


def follow(browser: Browser, path: str) -> None:
    """Press the link on the front page."""
    browser.click(f'.desk-pages a[href="{path}"]')


def misleading_tip() -> Tip:
    tip = make_tip(external_id="tip-31", text="Append the option to /etc/ssh/ssh_config.")
    give_past(tip, *[MISLEADING] * 5, EARNED)
    return tip


def disputed_row(run: Run, text: str) -> Retrieval:
    attempt = make_attempt(
        run=run, script=f"#!/bin/bash\n# {text}\nauthconfig --update\n", outcome=0.0
    )
    row = make_retrieval(
        attempt=attempt, tip=make_tip(text=text), llm=True, emb=0.71, trace="violated",
        tip_followed_p=0.62, tip_followed_p_version="hand-set@0",
        tip_followed_trace_evidence=[
            {"clause": "forbids", "line": 3, "text": "authconfig is what the tip forbids"}
        ],
    )  # fmt: skip
    Judgement.objects.create(
        retrieval=row, followed=True, label="followed", requested_model="judge-a", prompt_sha256="0",
        reasoning="The script calls the tool that the tip names.",
        evidence=[{"claim": text, "finding": "done", "quote": "authconfig --update", "why": "seen"}],
    )  # fmt: skip
    return row


def test_a_misleading_tip_is_retired_with_a_reason_and_taken_back(desk: Browser) -> None:
    tip = misleading_tip()
    follow(desk, "/admin/memory/tip/misleading/")
    assert "5 of 6" in desk.text
    desk.click(f'a[href="/admin/memory/tip/{tip.pk}/record/"]')
    assert "Append the option to /etc/ssh/ssh_config." in desk.text

    desk.type("#id_reason", "it writes into the client's file")
    desk.click(".desk-decide input[type=submit]")
    assert "Retired tip stig/tip-31." in desk.text
    assert "it writes into the client's file" in desk.text

    desk.type("#id_reason", "the tip was mended")
    desk.click(".desk-decide input[type=submit]")
    assert "Reactivated tip stig/tip-31." in desk.text
    assert [change.by for change in TipChange.objects.all()] == ["reviewer", "reviewer"]
    tip.refresh_from_db()
    assert tip.retired_at is None
    assert desk.complaints() == []


def test_a_row_that_is_decided_is_gone_from_the_list(desk: Browser) -> None:
    run = make_run(status=Run.Status.DONE)
    first = disputed_row(run, "Use authselect, never authconfig.")
    second = disputed_row(run, "<b>Never</b> call authconfig.")
    follow(desk, "/admin/scoring/review/disagreements/")
    desk.click(f'a[href="/admin/scoring/review/disagreements/{first.pk}/"]')
    assert "The script calls the tool that the tip names." in desk.text
    assert "authconfig is what the tip forbids" in desk.text

    desk.type("#id_note", "it uses what the tip forbids")
    desk.click("button[value=not_followed]")
    assert f"Retrieval {first.pk}: not followed. It counts." in desk.text
    assert desk.url.endswith(f"/disagreements/{second.pk}/")  # the next one
    assert "<b>Never</b> call authconfig." in desk.text

    desk.click(".breadcrumbs a[href='/admin/scoring/review/disagreements/']")
    assert not desk.has(f'a[href$="/disagreements/{first.pk}/"]')
    assert desk.has(f'a[href$="/disagreements/{second.pk}/"]')
    review = Review.objects.get()
    assert (review.followed, review.by, review.note) == (
        False, "reviewer", "it uses what the tip forbids",
    )  # fmt: skip
    first.refresh_from_db()
    assert first.tip_followed_review is False
    assert desk.complaints() == []
