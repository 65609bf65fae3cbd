"""What ``up`` says to somebody who starts it for the first time."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import User

from contextgraph.management.commands.up import Command

pytestmark = pytest.mark.django_db


def hint() -> str:
    out = StringIO()
    Command(stdout=out)._hint_at_login()
    return out.getvalue()


def test_who_has_no_account_is_told_how_to_make_one() -> None:
    assert "manage.py createsuperuser" in hint()
    user = User.objects.create_user("reader", is_staff=True)
    assert "manage.py createsuperuser" in hint()
    user.is_superuser = True
    user.save()
    assert hint() == ""
    user.is_active = False
    user.save()
    assert "manage.py createsuperuser" in hint()
