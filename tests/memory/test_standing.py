"""Protection and exemption: one door, written down, and heeded by sweep and coin."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from memory.models import TipChange
from memory.retirement import RetirementError, UnknownTip
from memory.standing import COLUMN, AlreadyMarked, mark
from tests.factories import make_tip

pytestmark = pytest.mark.django_db
Action = TipChange.Action


@pytest.mark.parametrize("action", COLUMN)
def test_a_mark_is_set_once_and_written_down(action: Action) -> None:
    column, value = COLUMN[action]
    tip = make_tip(**{column: not value})
    mark(tip.pk, action, reason="asked by audit", by="ana")
    tip.refresh_from_db()
    assert getattr(tip, column) is value
    with pytest.raises(AlreadyMarked, match="already"):
        mark(tip.pk, action, reason="again", by="ana")
    [change] = TipChange.objects.filter(tip=tip)
    assert (change.action, change.reason, change.by) == (action, "asked by audit", "ana")


def test_an_unknown_tip_an_empty_reason_and_nobody_are_refused() -> None:
    tip = make_tip()
    with pytest.raises(UnknownTip):
        mark(tip.pk + 1, Action.PROTECT, reason="r", by="ana")
    for reason, by in ((" ", "ana"), ("r", "")):
        with pytest.raises(RetirementError):
            mark(tip.pk, Action.PROTECT, reason=reason, by=by)
    assert not TipChange.objects.exists()


def test_the_command_marks_and_a_dry_run_does_not() -> None:
    tip = make_tip()
    out = StringIO()
    key = f"stig/{tip.external_id}"
    call_command("mark_tip", key, "--protect", "--reason", "r", "--dry-run", stdout=out)
    tip.refresh_from_db()
    assert not tip.protected
    call_command("mark_tip", key, "--protect", "--reason", "r", stdout=out)
    tip.refresh_from_db()
    assert tip.protected
    assert "would be protected from sweeps" in out.getvalue()
    with pytest.raises(CommandError, match="already"):
        call_command("mark_tip", key, "--protect", "--reason", "r")
