"""Reviewers and operators: what the groups may do after a migration, and what migrating leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command

from contextgraph.roles import APPS, ROLES, make_roles

pytestmark = pytest.mark.django_db


def held(name: str) -> set[str]:
    rows = Group.objects.get(name=name).permissions.select_related("content_type")
    return {f"{row.content_type.app_label}.{row.codename}" for row in rows}


def views() -> set[str]:
    return {
        f"{label}.view_{model._meta.model_name}"
        for label in APPS
        for model in apps.get_app_config(label).get_models()
    }


def test_each_group_may_do_what_its_work_needs_and_no_more() -> None:
    assert held("Reviewers") == views() | {"memory.change_tip", "scoring.add_review"}
    assert held("Operators") == views() | {
        "memory.change_tip",
        "scoring.add_review",
        "memory.change_evictionsweep",
        "contextgraph.replay_message",
    }


def test_migrating_again_mends_the_groups_and_takes_nothing_away() -> None:
    group = Group.objects.get(name="Reviewers")
    more = Permission.objects.get(codename="view_user")
    group.permissions.remove(Permission.objects.get(codename="add_review"))
    group.permissions.add(more)
    Group.objects.get(name="Operators").delete()
    call_command("migrate", verbosity=0)
    assert "scoring.add_review" in held("Reviewers")
    assert "auth.view_user" in held("Reviewers")
    assert set(ROLES) == set(Group.objects.values_list("name", flat=True))


def test_an_app_that_is_not_the_last_of_ours_makes_nothing() -> None:
    Group.objects.all().delete()
    make_roles(apps.get_app_config("memory"))
    assert not Group.objects.exists()
    make_roles(apps.get_app_config("scoring"))
    assert Group.objects.count() == len(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_a_permission_to_change_opens_no_form(client: Any, role: str) -> None:
    user = User.objects.create_user("member", password="x", is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    client.force_login(user)
    assert client.get("/admin/memory/tip/").status_code == 200
    assert client.get("/admin/scoring/review/add/").status_code == 403
    assert client.get("/admin/auth/user/").status_code == 403
