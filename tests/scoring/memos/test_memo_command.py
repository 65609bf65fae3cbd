"""``manage.py memo``: the memo with its sources, or an error that names what was not found."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from scoring.memos.gate import check
from scoring.memos.stored import snapshot_from_dict
from tests.factories import make_run
from tests.scoring.memos.worlds import make_memo_world

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db

FACTS = (
    "label,unit,value,materiality\nRevenue,USD,394328000000,material\nTax rate,percent,14.7,minor\n"
)


@pytest.fixture(autouse=True)
def _world(settings: Any) -> None:
    settings.MEMOS, settings.SIGNALS = "off", ["trace"]
    make_memo_world()


def said(*arguments: object, **options: Any) -> str:
    out = StringIO()
    call_command("memo", *map(str, arguments), stdout=out, **options)
    return out.getvalue()


@pytest.mark.parametrize("arguments", [("run", "run-b"), ("tip", "tip-bad"), ("category", "ssh")])
def test_a_memo_is_printed_with_the_sources_of_its_figures(arguments: tuple[str, str]) -> None:
    text = said(*arguments)
    assert "Gate: passed" in text
    assert "0 material ones left out" in text
    assert "Written by the writer, no model. Written now, 0 calls to a model." in text
    assert "From the cache" in said(*arguments)
    assert "Written now" in said(*arguments, no_memo_cache=True)


def test_each_cited_figure_has_a_line_that_names_its_rows() -> None:
    text = said("run", "run-b")
    assert "misleading retrievals = 6   (dream_passes:" in text
    assert "quadrant=misleading)" in text
    assert "(percent of: [F" in text


def test_the_json_is_whole_and_ascii_and_its_text_passes_on_its_own_facts() -> None:
    raw = said("run", "run-b", json=True)
    assert raw.isascii()
    made = json.loads(raw)
    assert made["gate"] == {"passed": True, "figures": made["gate"]["figures"], "findings": []}
    assert check(made["text"], snapshot_from_dict(made["snapshot"])).passed
    assert made["completeness"]["material_omissions"] == []
    assert (made["cached"], made["verdict"], made["variant"]) == (False, None, "writer")


def test_an_agent_gets_a_line_for_each_fact() -> None:
    made = json.loads(said("run", "run-b", json=True, mode="agent"))
    facts = made["snapshot"]["facts"]
    assert made["text"].count("\n- ") == len(facts)
    assert made["completeness"]["omitted"] == []


def test_a_file_of_facts_gets_a_memo_too(tmp_path: Path) -> None:
    path = tmp_path / "acme.csv"
    path.write_text(FACTS)
    text = said(facts=path)
    assert "- Revenue: $394.3 billion [F1]" in text
    assert "Gate: passed" in text
    assert "From the cache" in said(facts=path)
    path.write_text(FACTS.replace("14.7", "14.9"))
    assert "Written now" in said(facts=path)


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ((), "give PRODUCT"),
        (("run",), "give PRODUCT"),
        (("run", "nosuch"), "'nosuch'"),
        (("run", "run-b", "--skill", "cve"), "'cve'"),
        (("tip", "nosuch"), "'nosuch'"),
        (("category", "nosuch"), "'nosuch'"),
        (("company", "acme"), "there are run, tip, category"),
        (("run", "run-b", "--facts", "x.csv"), "not both"),
        (("--facts", "/no/such/file.csv"), "/no/such/file.csv"),
    ],
)
def test_what_cannot_be_told_is_an_error_that_names_it(
    arguments: tuple[str, ...], cause: str
) -> None:
    with pytest.raises(CommandError, match=cause):
        said(*arguments)


def test_a_bad_file_of_facts_is_refused_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "acme.csv"
    path.write_text(FACTS.replace("14.7", "many"))
    with pytest.raises(CommandError, match="row 3"):
        said(facts=path)


def test_hostile_names_print_as_visible_text() -> None:
    make_run(external_id="evil\x1b[2J\u202e")
    text = said("run", "evil\x1b[2J\u202e")
    assert "\x1b" not in text
    assert "\u202e" not in text
