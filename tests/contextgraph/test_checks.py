"""Settings that would lose work are refused, by id; the shipped settings pass."""

from __future__ import annotations

from shutil import copytree
from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import run_checks
from django.db import connection, connections

if TYPE_CHECKING:
    from pathlib import Path

CASES: dict[str, dict[str, Any]] = {
    "contextgraph.E001": {"CELERY_RESULT_BACKEND": "django-db"},
    "contextgraph.E002": {"CELERY_TASK_ACKS_LATE": False},
    "contextgraph.E003": {"CELERY_TASK_REJECT_ON_WORKER_LOST": False},
    "contextgraph.E004": {"CELERY_ACCEPT_CONTENT": ["json", "pickle"]},
    "contextgraph.E005": {"CELERY_BROKER_URL": "sqla+postgresql://localhost/x"},
    "contextgraph.E006": {"CELERY_RESULT_EXPIRES": 3},
    "contextgraph.E007": {"VISIBILITY_TIMEOUT": 2},
    "contextgraph.E008": {
        "JUDGE_BASE_URL": "http://127.0.0.1:1/v1",
        "JUDGE_MODEL": "m",
        "SCORE_LEASE_S": 5.0,
    },
    "contextgraph.E009": {"CREDIT_POLICY": "luck"},
    "contextgraph.E011": {"JUDGE_BASE_URL": "ftp://judge", "JUDGE_MODEL": "m"},
    "contextgraph.E012": {"SIGNALS": ["trace", "vibes"]},
    "contextgraph.E015": {"JUDGE_MODE": "per_moon"},
    "contextgraph.E017": {"JUDGE_HIGH_STAKES_MODEL": "m" * 121},
    "contextgraph.E019": {"MEMO_VARIANT": "quarrel"},
    "contextgraph.W002": {"JUDGE_HIGH_STAKES_MODEL": "m"},
    "contextgraph.W001": {"JUDGE_BASE_URL": "http://127.0.0.1:1/v1"},
}


def ours() -> set[str]:
    return {str(found.id) for found in run_checks() if str(found.id).startswith("contextgraph.")}


def test_the_shipped_settings_pass() -> None:
    assert ours() == set()


@pytest.mark.parametrize("identifier", CASES)
def test_a_setting_that_would_lose_work_is_refused(identifier: str, settings: Any) -> None:
    for name, value in CASES[identifier].items():
        setattr(settings, name, value)
    assert identifier in ours()


def test_a_skill_file_that_does_not_fit_is_refused(tmp_path: Path, settings: Any) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "skill.toml").write_text("[grading]\nversion = 1\n")
    settings.PROMPTS_DIR = tmp_path
    assert "contextgraph.E010" in ours()


@pytest.mark.parametrize("part", ["ranking", "eviction"])
def test_a_skill_file_that_names_no_credit_policy_is_refused(
    part: str, tmp_path: Path, settings: Any
) -> None:
    copytree(settings.PROMPTS_DIR, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "odd" / "skill.toml"
    file.parent.mkdir()
    file.write_text(f'[grading]\nversion = "1"\nkind = "binary"\n[{part}]\npolicy = "luck"\n')
    settings.PROMPTS_DIR = tmp_path
    (found,) = [one for one in run_checks() if str(one.id).startswith("contextgraph.")]
    assert found.id == "contextgraph.E018"
    assert f"{file}: {part}.policy: unknown credit policy 'luck'" in found.msg


def test_another_database_than_postgres_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "ENGINE", "django.db.backends.sqlite3")
    assert "contextgraph.E013" in ours()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("version", "found"), [(140_022, {"contextgraph.E016"}), (150_000, set()), (180_001, set())]
)
def test_a_server_without_what_the_tables_need_is_refused(
    version: int, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections["default"].__dict__, "pg_version", version)
    ids = {str(message.id) for message in run_checks(databases=["default"])}
    assert {name for name in ids if name.startswith("contextgraph.")} == found


@pytest.mark.django_db
def test_the_server_in_use_is_new_enough() -> None:
    ids = {str(message.id) for message in run_checks(databases=["default"])}
    assert "contextgraph.E016" not in ids


@pytest.mark.parametrize("address", ["http://user:pw@host/v1", "http:///v1", "http://h?x=1"])
def test_a_judge_address_that_can_never_work_is_refused(address: str, settings: Any) -> None:
    settings.JUDGE_BASE_URL, settings.JUDGE_MODEL = address, "m"
    assert "contextgraph.E011" in ours()


def test_a_broken_judge_prompt_is_refused(tmp_path: Path, settings: Any) -> None:
    copytree(settings.PROMPTS_DIR, tmp_path, dirs_exist_ok=True)
    prompt = tmp_path / "stig" / "tip_follow_judge.md"
    prompt.write_text(prompt.read_text().replace("## System", "## Sistem"))
    settings.PROMPTS_DIR = tmp_path
    assert "contextgraph.E014" in ours()


def test_a_broken_memo_prompt_is_refused(tmp_path: Path, settings: Any) -> None:
    copytree(settings.PROMPTS_DIR, tmp_path, dirs_exist_ok=True)
    (tmp_path / "memo" / "judge.md").write_text("no front matter\n")
    settings.PROMPTS_DIR = tmp_path
    assert "contextgraph.E014" in ours()


def test_every_error_says_how_to_mend_it(settings: Any) -> None:
    settings.CELERY_TASK_ACKS_LATE = False
    settings.CREDIT_POLICY = "luck"
    assert all(found.hint for found in run_checks() if str(found.id).startswith("contextgraph."))
