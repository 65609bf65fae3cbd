"""Retired tips whose evidence clears the gate again: which are listed, with what, and where."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memory import eviction
from memory.cleared_tips import cleared_tips
from memory.models import Retrieval, Tip
from memory.retirement import retire
from tests.admin_world import HOSTILE
from tests.memory.sweep_histories import EARNED, GATE, MISLEADING, bad_tip, give_past

if TYPE_CHECKING:
    from django.test import Client

pytestmark = pytest.mark.django_db

ALL = GATE.model_copy(update={"cap_share": 1.0})


def swept(*tips: Tip) -> int:
    """All that the gate catches are retired; the sweep's id."""
    sweep = eviction.preview("stig", gate=ALL, by="ann")
    assert set(eviction.apply(sweep.pk, by="ann").tips) == {tip.pk for tip in tips}
    return sweep.pk


def canary(tip: Tip, *visits: tuple[bool | None, float]) -> None:
    """Shown again since it was retired."""
    give_past(tip, *visits, retrieved_at=timezone.now() + timedelta(minutes=1))


def test_what_the_canaries_showed_is_listed_with_the_command() -> None:
    good, still, unseen = (bad_tip(external_id=name) for name in ("good", "still", "unseen"))
    sweep = swept(good, still, unseen)
    assert cleared_tips("stig", ALL) == []
    canary(good, *[EARNED] * 4)
    canary(still, EARNED, *[MISLEADING] * 3)
    [found] = cleared_tips("stig", ALL)
    assert (found["tip"], found["visits"], found["visits_since"]) == ("good", 7, 4)
    assert (found["mean"], found["sweep"]) == (pytest.approx(4 / 7, abs=1e-6), sweep)
    out = io.StringIO()
    call_command(*found["command"].split()[1:3], "--reason", eviction.RETURNED, stdout=out)
    assert "is active again" in out.getvalue()
    assert cleared_tips("stig", ALL) == []


def test_corrections_clear_a_tip_without_a_visit_and_too_little_evidence_does_not() -> None:
    tip = bad_tip()
    swept(tip)
    Retrieval.objects.filter(tip=tip).update(outcome_value=1.0)
    give_past(tip, run=Retrieval.objects.filter(tip=tip)[0].run)
    [found] = cleared_tips("stig", ALL)
    assert (found["visits"], found["visits_since"]) == (3, 0)
    assert cleared_tips("stig", ALL.model_copy(update={"min_retrievals": 4})) == []
    assert cleared_tips("stig", ALL.model_copy(update={"threshold": 1.0})) != []
    assert cleared_tips("cve", ALL) == []


def test_a_gate_that_asks_for_the_interval_lets_go_whom_it_would_not_catch() -> None:
    tip = bad_tip(visits=8)
    swept(tip)
    careful = ALL.model_copy(update={"interval_below": True})
    assert [one["tip_id"] for one in cleared_tips("stig", careful)] == []
    canary(tip, *[EARNED] * 2)
    assert [one["tip_id"] for one in cleared_tips("stig", careful)] == [tip.pk]
    assert cleared_tips("stig", ALL) == [], "by the mean alone it is caught still"


def test_what_a_person_retired_is_left_to_the_person() -> None:
    tip = bad_tip()
    retire(tip.pk, reason="it is out of date", by="ann")
    canary(tip, *[EARNED] * 9)
    assert cleared_tips("stig", ALL) == []


def test_the_best_comes_first_and_the_queries_do_not_grow() -> None:
    tips = [bad_tip() for _ in range(6)]
    swept(*tips)
    counts = []
    for number, tip in enumerate(tips, start=4):
        canary(tip, *[EARNED] * number)
        with CaptureQueriesContext(connection) as asked:
            found = cleared_tips("stig", ALL)
        counts.append(len(asked))
    assert [one["tip_id"] for one in found] == [tip.pk for tip in reversed(tips)]
    assert set(counts) == {3}


def sweep_command(*args: str) -> str:
    out = io.StringIO()
    call_command("sweep", "stig", "--no-interval-below", *args, stdout=out)
    return out.getvalue()


def test_the_command_lists_them_in_text_and_json() -> None:
    tips = [bad_tip(external_id=f"t{n}\x1b[2J", text=HOSTILE) for n in range(3)]
    swept(*tips)
    title = "Retired, and no longer below the gate (visits since)"
    assert title not in sweep_command()
    assert json.loads(sweep_command("--json"))["cleared"] == []
    for tip in tips:
        canary(tip, *[EARNED] * 4)
    text = sweep_command("--dry-run", "--limit", "2")
    assert f"{title}: 3" in text
    assert f"manage.py reactivate_tip {tips[0].pk} --reason" in text
    assert "and 1 more" in text
    assert "\x1b" not in text
    view = json.loads(sweep_command("--json", "--limit", "2"))
    assert [one["tip_id"] for one in view["cleared"]] == [tip.pk for tip in tips]
    assert view["entries"] == []


@pytest.fixture
def gates(settings: Any, tmp_path: Any) -> None:
    """Skills' files of the test's own; the gate of one cannot be used."""
    for skill in ("stig", "broken"):
        (tmp_path / skill).mkdir()
        policy = 'policy = "none"\n' if skill == "broken" else ""
        (tmp_path / skill / "skill.toml").write_text(
            '[grading]\nversion = "1"\nkind = "binary"\n[eviction]\nmin_retrievals = 3\n'
            f"threshold = 0.3\ninterval_below = false\n{policy}"
        )
    settings.PROMPTS_DIR = tmp_path


PAGE = "admin:memory_evictionsweep_changelist"


@pytest.mark.usefixtures("gates")
def test_the_page_of_sweeps_reads_no_history_and_of_tips_those_that_it_shows(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tips = [bad_tip(text=f"text {number}") for number in range(3)]
    swept(*tips)
    for tip in tips:
        canary(tip, *[EARNED] * 4)
    monkeypatch.setattr("memory.admin_sweeps.ENTRIES_SHOWN", 1)
    with CaptureQueriesContext(connection) as asked:
        html = admin_client.get(reverse(PAGE)).content.decode()
    assert "text 0" in html
    assert "and 2 more" in html
    queries = [query["sql"] for query in asked]
    assert not [sql for sql in queries if "tip_retrievals" in sql]
    [texts] = [sql for sql in queries if '"tips"."text"' in sql]
    assert f'"tips"."id" IN ({tips[0].pk})' in texts


@pytest.mark.usefixtures("gates")
def test_the_page_of_sweeps_lists_them(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = reverse(PAGE)
    tips = [bad_tip(external_id=HOSTILE + str(n), text=HOSTILE) for n in range(3)]
    swept(*tips)
    assert "no longer below the gate" not in admin_client.get(address).content.decode()
    for tip in tips:
        canary(tip, *[EARNED] * 4)
    monkeypatch.setattr("memory.admin_sweeps.ENTRIES_SHOWN", 2)
    html = admin_client.get(address).content.decode()
    assert "Retired, and no longer below the gate<" in html
    assert html.count("manage.py reactivate_tip") == 2
    assert "and 1 more" in html
    assert reverse("admin:memory_tip_record", args=[tips[0].pk]) in html
    assert "<script>alert" not in html
    bad_tip(skill="broken")
    Tip.objects.filter(skill="broken").update(
        retired_at=timezone.now(),
        retired_reason="x",
        retired_sweep=tips[0].sweep_entries.get().sweep,
    )
    html = admin_client.get(address).content.decode()
    assert "broken: " in html
    assert html.count("manage.py reactivate_tip") == 2
