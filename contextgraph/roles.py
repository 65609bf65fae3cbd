"""Two groups of users that a deployment starts with: reviewers and operators.

Guarantees: after every ``migrate`` the groups are there with at least these permissions, and nothing that
an administrator gave them besides is taken away. Whoever wants less makes a group of another name. Gives
nobody a role: users are put into groups in the admin, and need "staff status" to log in there.

Read-only users need no group of ours: the permissions to view are Django's.

Shaped by: one shared superuser, because nobody could say which of eighty permissions a reviewer needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db.models import Q

if TYPE_CHECKING:
    from django.apps import AppConfig

APPS: Final = ("contextgraph", "memory", "scoring")

DECIDES: Final = ("memory.change_tip", "scoring.add_review")
"""Retire and reactivate a tip; record a review."""
OPERATES: Final = ("memory.change_evictionsweep", "contextgraph.replay_message")
"""Apply and undo a sweep; replay a refused message."""

ROLES: Final = {"Reviewers": DECIDES, "Operators": (*DECIDES, *OPERATES)}
"""Both may view every table of ours, too. "Change" gives no form: the admin's pages stay read-only."""


def make_roles(sender: AppConfig, **_kwargs: Any) -> None:
    """Handler of ``post_migrate``: once, after the last of our apps has its permissions."""
    if sender.label != APPS[-1]:
        return
    from django.contrib.auth.models import Group, Permission

    ours = Permission.objects.filter(content_type__app_label__in=APPS)
    for name, more in ROLES.items():
        wanted = Q(codename__startswith="view_")
        for permission in more:
            label, _, codename = permission.partition(".")
            wanted |= Q(content_type__app_label=label, codename=codename)
        group, _ = Group.objects.get_or_create(name=name)
        group.permissions.add(*ours.filter(wanted))
