"""``retire_tip`` and ``reactivate_tip``: one tip, one reason, one author."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from memory.models import Tip, TipChange
from tests.factories import make_tip

pytestmark = pytest.mark.django_db


def run(command: str, *args: str) -> str:
    """What a command prints."""
    out = io.StringIO()
    call_command(command, *args, stdout=out)
    return out.getvalue()


def test_a_tip_goes_and_comes_back() -> None:
    tip = make_tip(external_id="t/1", text="do it\x1b[2J")
    text = run("retire_tip", "stig/t/1", "--reason", "breaks the login", "--by", "ann")
    assert text == f"stig/t/1 (primary key {tip.pk}) is retired: do it\\x1b[2J\n"
    tip.refresh_from_db()
    assert tip.retired_reason == "breaks the login"
    assert "is active again" in run("reactivate_tip", str(tip.pk), "--reason", "r", "--by", "bob")
    assert list(TipChange.objects.values_list("action", "by")) == [
        ("retire", "ann"), ("reactivate", "bob"),
    ]  # fmt: skip


def test_a_dry_run_changes_nothing() -> None:
    make_tip(external_id="t")
    assert "would be retired" in run("retire_tip", "stig/t", "--reason", "r", "--dry-run")
    assert Tip.objects.active().count() == 1
    assert not TipChange.objects.exists()


def test_the_json_says_what_the_tip_is_now() -> None:
    tip = make_tip(external_id="t\u202e")
    raw = run("retire_tip", str(tip.pk), "--reason", "r", "--json")
    assert raw.isascii()
    found = json.loads(raw)
    assert found["retired_at"]
    assert found | {"retired_at": ""} == {
        "dry_run": False, "tip_id": tip.pk, "skill": "stig", "tip": "t\u202e", "retired_at": "",
        "retired_reason": "r",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("command", "args", "message"),
    [
        ("retire_tip", ["stig/u", "--reason", "r"], "no tip 'stig/u'"),
        ("retire_tip", ["stig/t"], "--reason"),
        ("retire_tip", ["stig/t", "--reason", " "], "is no reason"),
        ("retire_tip", ["stig/t", "--reason", "r", "--by", ""], "names nobody"),
        ("reactivate_tip", ["stig/t", "--reason", "r"], r"stig/t .* is not retired"),
        ("retire_tip", ["stig/gone", "--reason", "r"], r"is retired since .*: because\\x1b\[2J"),
    ],
)
def test_errors_name_the_tip_and_the_cause(command: str, args: list[str], message: str) -> None:
    make_tip(external_id="t")
    gone = make_tip(external_id="gone")
    run("retire_tip", str(gone.pk), "--reason", "because\x1b[2J", "--by", "ann")
    with pytest.raises(CommandError, match=message):
        run(command, *args)
    assert TipChange.objects.count() == 1
