"""Every page of the admin: it opens, it writes nothing, it escapes, and it keeps to its queries."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from contextgraph.models import IncomingPart, RejectedMessage
from memory.admin_base import ReadOnlyAdmin
from memory.models import Retrieval, Run, Tip
from tests.admin_world import HOSTILE, MODELS, make_rejected, make_world
from tests.factories import MOMENT

if TYPE_CHECKING:
    from django.db.models import Model

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quick_logins(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick logins


def page_of(model: type[Model], page: str, *args: Any) -> str:
    """URL of an admin page."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def test_every_model_of_ours_has_pages_and_they_are_read_only() -> None:
    models = {
        model
        for label in ("contextgraph", "memory", "scoring")
        for model in apps.get_app_config(label).get_models()
    }
    assert models - set(MODELS) == {IncomingPart}  # bytes on their way: the document tells of them
    ours = {
        model: site
        for model, site in admin.site._registry.items()
        if model._meta.app_label in {"contextgraph", "memory", "scoring"}
    }
    assert set(ours) == set(MODELS)
    assert all(isinstance(site, ReadOnlyAdmin) for site in ours.values())


@pytest.mark.parametrize("model", MODELS)
def test_every_page_opens_and_hostile_text_stays_text(
    admin_client: Client, model: type[Model]
) -> None:
    world = make_world(HOSTILE, 1)
    for url in (page_of(model, "changelist"), page_of(model, "change", world[model].pk)):
        response = admin_client.get(url)
        assert response.status_code == 200
        html = response.content.decode()
        assert "<script>alert" not in html
        assert "<img src=x" not in html


@pytest.mark.parametrize("model", MODELS)
def test_no_page_writes_even_for_a_superuser(admin_client: Client, model: type[Model]) -> None:
    row = make_world("x", 1)[model]
    pages = (
        page_of(model, "add"),
        page_of(model, "delete", row.pk),
        page_of(model, "change", row.pk),
    )
    assert [admin_client.post(url, {}).status_code for url in pages] == [403, 403, 403]
    response = admin_client.post(
        page_of(model, "changelist"), {"action": "delete_selected", "_selected_action": [row.pk]}
    )
    assert response.status_code in {200, 302}
    assert model._default_manager.filter(pk=row.pk).exists()


def test_a_list_of_30_takes_as_many_queries_as_a_list_of_3(admin_client: Client) -> None:
    counts: list[dict[str, int]] = []
    for first, last in ((0, 3), (3, 30)):
        for number in range(first, last):
            make_world("x", number)
        found = {}
        for model in MODELS:
            url = page_of(model, "changelist")
            admin_client.get(url)  # content types and the theme are cached by the first page
            with CaptureQueriesContext(connection) as queries:
                response = admin_client.get(url)
            assert len(response.context["cl"].result_list) == last
            found[model.__name__] = len(queries)
        counts.append(found)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("model", MODELS)
def test_a_search_finds_whole_ids_only_and_refuses_nothing(
    admin_client: Client, model: type[Model]
) -> None:
    row = make_world("x", 1)[model]
    url = page_of(model, "changelist")
    link = page_of(model, "change", row.pk)
    assert link in admin_client.get(url, {"q": str(row.pk)}).content.decode()
    for term in (f"{row.pk}9", "9" * 40, "%", "'\"", "²", "no such id"):
        response = admin_client.get(url, {"q": term})
        assert response.status_code == 200
        assert link not in response.content.decode()


def test_an_external_id_finds_its_run_tips_and_retrievals(admin_client: Client) -> None:
    world = make_world("x", 1)
    run, tip = world[Run], world[Tip]
    make_world("x", 2)
    for model, term in (
        (Run, run.external_id),
        (Tip, tip.external_id),
        (Retrieval, tip.external_id),
    ):
        found = (
            admin_client.get(page_of(model, "changelist"), {"q": term}).context["cl"].result_list
        )
        assert [row.pk for row in found] == [world[model].pk]
    rows = admin_client.get(f"{page_of(Retrieval, 'changelist')}?run__exact={run.pk}")
    assert [row.pk for row in rows.context["cl"].result_list] == [world[Retrieval].pk]
    assert f"?run__exact={run.pk}" in admin_client.get(page_of(Run, "changelist")).content.decode()


def test_strangers_are_sent_to_the_login(client: Client) -> None:
    for model in MODELS:
        response = client.get(page_of(model, "changelist"))
        assert response.status_code == 302
        assert "/login/" in response["Location"]


# --- The one action -------------------------------------------------------------------------------


def replay(client: Client, *rows: RejectedMessage) -> Any:
    """Press the button."""
    data = {"action": "replay_selected", "_selected_action": [row.pk for row in rows]}
    return client.post(page_of(RejectedMessage, "changelist"), data, follow=True)


def test_a_message_that_is_refused_again_says_why_and_is_logged(admin_client: Client) -> None:
    row = make_rejected(body=b"<script>alert(1)</script>", content_type="application/json")
    html = replay(admin_client, row).content.decode()
    assert "0 of 1 messages went through." in html
    assert f"Message {row.pk}: " in html
    assert "<script>alert" not in html
    row.refresh_from_db()
    assert (row.replays, row.resolved_at) == (1, None)
    assert "refused again" in LogEntry.objects.get(object_id=str(row.pk)).change_message


def test_a_message_that_was_resolved_is_left_alone(admin_client: Client) -> None:
    row = make_rejected(resolved_at=MOMENT)
    assert "0 of 0 messages" in replay(admin_client, row).content.decode()
    row.refresh_from_db()
    assert row.replays == 0


def test_replay_needs_its_own_permission() -> None:
    row = make_rejected(content_type="application/json")
    reader = User.objects.create_user("reader", password="x", is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_rejectedmessage"))
    client = Client()
    client.force_login(reader)
    assert (
        "replay_selected" not in client.get(page_of(RejectedMessage, "changelist")).content.decode()
    )
    replay(client, row)
    row.refresh_from_db()
    assert row.replays == 0

    reader.user_permissions.add(Permission.objects.get(codename="replay_message"))
    replay(client, row)
    row.refresh_from_db()
    assert row.replays == 1


# --- Its name -------------------------------------------------------------------------------------


def test_the_theme_has_the_products_name_unless_somebody_chose_another(
    admin_client: Client,
) -> None:
    themes = apps.get_model("admin_interface", "Theme").objects
    migration = importlib.import_module("contextgraph.migrations.0002_admin_theme")
    assert admin.site.site_header == "contextgraph"
    themes.all().delete()
    for title, expected in (("Django administration", "contextgraph"), ("Ours", "Ours")):
        themes.all().update(title=title)
        migration.name_the_theme(apps, None)
        assert themes.get().title == expected
    assert "Ours" in admin_client.get(reverse("admin:index")).content.decode()
