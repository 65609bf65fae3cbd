"""README, compose file and Makefile say only what is true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands

CHECKOUT = Path(__file__).resolve().parents[2]
README = (CHECKOUT / "README.md").read_text()
MAKEFILE = (CHECKOUT / "Makefile").read_text()
COMPOSE = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
SETTINGS = (CHECKOUT / "contextgraph" / "settings.py").read_text()


def test_every_manage_command_of_the_readme_exists() -> None:
    named = set(re.findall(r"manage\.py (\w+)", README))
    assert named
    assert named - set(get_commands()) == set()


def test_every_command_of_ours_is_in_the_readme_or_behind_make() -> None:
    ours = {
        name for name, app in get_commands().items() if app in {"contextgraph", "memory", "scoring"}
    }
    files = ("docker-compose.yml", "contextgraph/processes.py")
    text = README + MAKEFILE + "".join((CHECKOUT / name).read_text() for name in files)
    assert {name for name in ours if name not in text} == set()


def test_every_make_target_of_the_readme_exists() -> None:
    named = set(re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", README, re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    assert {a or b for a, b in named} - targets == set()


def test_every_file_that_the_readme_names_exists() -> None:
    for name in re.findall(r"`([\w/.-]+/[\w.-]+|[\w-]+\.(?:md|yml|py))`", README):
        assert (CHECKOUT / name).exists(), name


def test_every_environment_variable_of_the_readme_is_read_by_the_settings() -> None:
    named = set(re.findall(r"\b([A-Z][A-Z0-9]+_[A-Z0-9_]+)\b", README))
    named -= {"RUN_ID", "RUN_LOG", "PIP_EXTRA_INDEX_URL"}  # not the product's
    assert {name for name in named if name.removesuffix("_FILE") not in SETTINGS} == set()


def test_the_compose_file_bakes_in_no_password() -> None:
    text = (CHECKOUT / "docker-compose.yml").read_text()
    for name in ("POSTGRES_PASSWORD", "RABBITMQ_PASSWORD", "VALKEY_PASSWORD", "DJANGO_SECRET_KEY"):
        assert f"${{{name}:?" in text
        assert f"${{{name}:-" not in text


def test_the_compose_file_publishes_on_loopback_only() -> None:
    for name, service in COMPOSE["services"].items():
        for port in service.get("ports", []):
            assert str(port).startswith("127.0.0.1:"), (name, port)


@pytest.mark.parametrize("queue", ["control", "judge", "embed", "trace"])
def test_the_compose_file_has_a_worker_per_queue(queue: str) -> None:
    commands = [" ".join(service.get("command") or []) for service in COMPOSE["services"].values()]
    served = [q for c in commands if (m := re.search(r"-Q ([\w,]+)", c)) for q in m[1].split(",")]
    assert served.count(queue) == 1


def test_every_long_lived_service_has_a_health_check() -> None:
    without = {n for n, s in COMPOSE["services"].items() if "healthcheck" not in s}
    assert without == {"migrate"}


def test_every_dependency_says_why_it_is_there() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text()
    block = text[text.index("dependencies = [") : text.index("[dependency-groups]")]
    above = ""
    for line in block.splitlines()[1:]:
        if line.strip().startswith('"'):
            assert above.strip().startswith(("#", '"')), line
        above = line
    assert tomllib.loads(text)["project"]["license"] == "Apache-2.0"


def test_every_direct_dependency_is_pinned_in_the_lock() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    pinned = {
        re.sub(r"[-_.]+", "-", line.split("==")[0]).lower()
        for line in (CHECKOUT / "requirements.lock").read_text().splitlines()
        if "==" in line
    }
    for requirement in project["dependencies"]:
        name = re.split(r"[\[<>=]", requirement)[0]
        assert re.sub(r"[-_.]+", "-", name).lower() in pinned, name


def test_check_ids_are_documented_once_each() -> None:
    text = (CHECKOUT / "contextgraph" / "checks.py").read_text()
    ids = re.findall(r'id="(contextgraph\.[EW]\d{3})"', text)
    assert len(ids) == len(set(ids))
