"""SIGKILL in each stage of a dream pass: the reaper finishes it, and the result is that of a calm one.

A real ``manage.py dream --force`` is killed by the saboteur when a stage has done all of its work and
has not committed it, and, once, right after such a commit. The run's twin in another skill is dreamed of
in peace; what the two passes made (summary, evidence, retired tips) must be the same.
Shaped by a pass that marked itself done last and added its credit again after each crash.
"""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from contextgraph import pipeline
from memory import evidence
from memory.dream import Stage, stages_of
from memory.models import DreamPass, EvictionSweep, Retrieval, Run, Tip, TipEvidence
from tests.factories import MOMENT, make_attempt, make_retrieval, make_run, make_tip
from tests.faults.programs import Program, wait_until
from tests.faults.saboteur import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]

RULES, TIPS = 12, 3
SKILL_FILE = """
[grading]
version = "1"
kind = "binary"
[eviction]
policy = "quadrant"
min_retrievals = 3
threshold = 0.0
min_age_days = 0
"""


@pytest.fixture
def prompts(tmp_path: Path, settings: Any) -> Path:
    """Two skills, whose gate catches a tip that was followed into many failures."""
    folder = tmp_path / "prompts"
    shutil.copytree(CHECKOUT / "prompts", folder)
    for skill in ("killed", "calm"):
        (folder / skill).mkdir()
        (folder / skill / "skill.toml").write_text(SKILL_FILE)
    settings.PROMPTS_DIR = folder
    settings.SIGNALS = ["trace"]
    return folder


def scored_run(skill: str) -> Run:
    """A run before its first pass, after another of the same tips: every stage of the pass has work."""
    tips = [
        make_tip(skill=skill, external_id=f"tip-{n}", text=f"advice {n}", created_at=MOMENT)
        for n in range(TIPS)
    ]
    for name, day in (("before", 0), ("run", 1)):
        started = MOMENT + timedelta(days=day)
        run = make_run(skill=skill, external_id=name, status="finalizing", started_at=started)
        for rule in range(RULES):
            attempt = make_attempt(run=run, rule_id=f"rule-{rule}", outcome=float(rule % 2))
            for rank, tip in enumerate(tips, start=1):
                make_retrieval(attempt=attempt, tip=tip, rank=rank, emb=0.1 * (rule % 9))
        if name == "before":
            assert pipeline.finish(run.pk)
            assert not EvictionSweep.objects.filter(skill=skill).exists()
    told = Retrieval.objects.filter(run=run, tip=tips[0])
    told.update(tip_followed_review=True, tip_followed_review_by="r", outcome_value=0.0)
    return run


def made_by_a_pass(run: Run) -> dict[str, Any]:
    """All that a pass leaves, by names that both skills share."""
    names = dict(Tip.objects.filter(skill=run.skill).values_list("pk", "external_id"))
    kept = DreamPass.objects.filter(run=run).order_by("-number")[0]
    summary = {key: value for key, value in kept.summary.items() if key != "run"}
    for tip in summary["tips"]:
        del tip["tip_id"]
    columns = [
        field.attname
        for field in TipEvidence._meta.concrete_fields
        if field.name not in ("id", "skill", "tip")
    ]
    sums = TipEvidence.objects.filter(skill=run.skill)
    return {
        "passes": DreamPass.objects.filter(run=run).count(),
        "summary": summary,
        "flags": [(flag["tip"], flag["after"]) for flag in kept.report["since_last_run"]["flags"]],
        "evidence": sorted(
            (names.get(row["tip_id"], ""), *(str(row[column]) for column in columns))
            for row in sums.values("tip_id", *columns)
        ),
        "retired": sorted(
            Tip.objects.filter(skill=run.skill, retired_at__isnull=False).values_list(
                "external_id", flat=True
            )
        ),
        "sweeps": EvictionSweep.objects.filter(skill=run.skill).count(),
        "stages": [(row.stage, row.state) for row in stages_of(run)],
    }


def killed_amid(run: Run, plan: str, prompts: Path, folder: Path) -> Program:
    """``manage.py dream --force`` on the database of this test, until its murder."""
    database = connection.settings_dict
    environment = os.environ | {
        "DATABASE_URL": f"postgresql://{database['USER']}@/{database['NAME']}"
        f"?host={database['HOST']}&port={database['PORT']}",
        "CONTEXTGRAPH_PROMPTS_DIR": str(prompts),
        "CONTEXTGRAPH_SIGNALS": "trace",
    }
    argv = ["manage", "dream", str(run.pk), "--force"]
    program = Program("dream", argv, env=environment, folder=folder, plan=plan)
    try:
        wait_until(program.exited, within=60, what=f"the kill: {program.tail()}")
    finally:
        program.kill()
    assert program.mark.exists(), program.tail()
    return program


@pytest.mark.parametrize(
    ("plan", "left"),
    [
        ("die-in-score", list(Stage)),
        ("die-in-credit", list(Stage)[1:]),
        ("die-in-evict", list(Stage)[2:]),
        ("die-in-report", list(Stage)[3:]),
        ("die-before-done", []),
    ],
)
def test_a_pass_that_is_killed_in_a_stage_ends_as_one_that_was_not(
    plan: str, left: list[Stage], prompts: Path, tmp_path: Path
) -> None:
    calm = scored_run("calm")
    assert pipeline.recount(calm.pk, force=True)
    run = scored_run("killed")
    killed_amid(run, plan, prompts, tmp_path)
    run.refresh_from_db()
    assert run.status == "finalizing"
    assert [row.stage for row in stages_of(run) if row.state == "new"] == left
    assert pipeline.reap(inline=True, impatient=True).finalized == [run.pk]
    run.refresh_from_db()
    assert (run.status, run.dream_number) == ("done", 1)
    expected = made_by_a_pass(calm)
    assert expected["retired"] == ["tip-0"], "the pass had something to do in every stage"
    assert expected["flags"]
    assert made_by_a_pass(run) == expected
    assert evidence.check() == []
