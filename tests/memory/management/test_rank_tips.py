"""``rank_tips``: a list that can be read, parsed and trusted on a terminal, and that writes nothing."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from memory.models import Retrieval
from tests.memory.ranking_rows import RULE, history, rule_tip, skill_files

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db

HOSTILE = "append it\x1b[2J\x07 [bold red]now[/] \u202e<script>"


def rank_tips(*args: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("rank_tips", *args, stdout=out)
    return out.getvalue()


@pytest.fixture(autouse=True)
def _tips() -> None:
    tip = rule_tip(external_id="helpful", text="Use FIPS")
    rule_tip(external_id="again", text="use fips.")
    rule_tip(external_id="hostile", text=HOSTILE)
    history(tip, {"llm": True})


def test_the_table_shows_ranks_scores_and_duplicates() -> None:
    text = rank_tips("stig", RULE, "--category", "audit")
    assert "2 tips for" in text
    assert "+1 alike" in text
    assert text.index("helpful") < text.index("hostile")
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_reasons_are_printed_on_demand() -> None:
    text = rank_tips("stig", RULE, "--category", "audit", "--explain")
    for part in ("prefix +1.0000", "category +0.3000", "credit, rule:", "alike: again", "note: by"):
        assert part in text
    assert "prefix" not in rank_tips("stig", RULE)


def test_the_json_is_the_whole_ranking_and_ascii() -> None:
    text = rank_tips("stig", RULE, "--category", "audit", "--explain", "--k", "1", "--json")
    assert text.isascii()
    data = json.loads(text)
    (tip,) = data["tips"]
    assert tip["external_id"] == "helpful"
    assert tip["parts"]["composite"] == tip["score"]
    assert data["request"]["k"] == 1
    assert data["candidates"] == 3


def test_nothing_is_written_and_nothing_known_is_said() -> None:
    before = Retrieval.objects.count()
    assert "No tip scores above 0." in rank_tips("stig", "sshd_x")
    assert Retrieval.objects.count() == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nobody", RULE), "nothing is stored about a skill 'nobody'"),
        (("stig", RULE, "--policy", "nonsense"), "invalid choice"),
        (("stig", RULE, "--k", "0"), "not a whole number"),
        (("stig", "a\0b"), "NUL"),
    ],
)
def test_what_makes_no_sense_is_an_error(args: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        rank_tips(*args)


@pytest.mark.parametrize(
    ("ranking", "message"),
    [
        ('policy = "luck"', "no credit policy 'luck'"),
        ("prefix = nan", "ranking.prefix: Input should be a finite number"),
        ("shrinkage = inf", "ranking.shrinkage: Input should be a finite number"),
        ("helpfulness = 1e308", "ranking.helpfulness: Input should be less than or equal to 1000"),
        ("candidates = 3000000000", "ranking.candidates: Input should be less than or equal to"),
    ],
)
def test_a_skill_file_that_makes_no_sense_is_an_error(
    ranking: str, message: str, tmp_path: Path, settings: Any
) -> None:
    settings.PROMPTS_DIR = skill_files(tmp_path, ranking=ranking)
    with pytest.raises(CommandError, match=message):
        rank_tips("stig", RULE)
