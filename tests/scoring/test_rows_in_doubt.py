"""``rows_in_doubt``: the rows that a person or a stronger judge should look at, and no others."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.factories import make_attempt, make_retrieval, make_run

pytestmark = pytest.mark.django_db


def told(*args: str) -> Any:
    out = StringIO()
    call_command("rows_in_doubt", *args, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_the_row_with_most_causes_comes_first_and_settled_rows_are_left_out() -> None:
    attempt = make_attempt()
    make_retrieval(attempt=attempt, llm=True, emb=0.7, trace="followed")
    make_retrieval(attempt=attempt, llm=True, trace="violated", review=False)
    against_both = make_retrieval(attempt=attempt, llm=True, emb=0.1, trace="violated")
    against_cosine = make_retrieval(attempt=attempt, llm=True, emb=0.1, trace="followed")
    found = told("--run", attempt.run.external_id)
    assert [row["retrieval_id"] for row in found["rows"]] == [against_both.pk, against_cosine.pk]
    assert {"judge_against_trace", "judge_against_cosine"} <= set(found["rows"][0]["causes"])
    assert found["in_doubt"] == 2


def test_for_judge_leaves_out_what_no_judge_can_be_asked_about() -> None:
    attempt = make_attempt()
    cut = make_retrieval(attempt=attempt, trace="followed", llm_reason="script_truncated",
                         tip_followed_p=0.5, tip_followed_p_version="hand-set@1")  # fmt: skip
    make_retrieval(attempt=attempt, llm=True, emb=0.1, trace="violated")
    run = attempt.run.external_id
    assert cut.pk in {row["retrieval_id"] for row in told("--run", run)["rows"]}
    assert cut.pk not in {row["retrieval_id"] for row in told("--run", run, "--for-judge")["rows"]}


def test_latest_reads_no_older_run_and_another_skill_is_not_asked() -> None:
    old, new = make_run(), make_run()
    for run in (old, new, make_run(skill="cve")):
        make_retrieval(attempt=make_attempt(run=run), llm=True, trace="violated")
    found = told("--latest", "1", "--skill", "stig")
    assert [row["run"] for row in found["rows"]] == [new.external_id]


def test_the_table_shows_hostile_names_as_text() -> None:
    attempt = make_attempt(rule_id="rule\x1b[2J")
    make_retrieval(attempt=attempt, llm=True, trace="violated")
    out = StringIO()
    call_command("rows_in_doubt", "--latest", stdout=out)
    assert "1 rows in doubt in 1 runs" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


@pytest.mark.parametrize("args", [["--run", "nobody"], ["--latest", "--skill", "nobody"]])
def test_an_unknown_scope_is_an_error(args: list[str]) -> None:
    with pytest.raises(CommandError, match="nobody"):
        call_command("rows_in_doubt", *args)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--run", ""), "no run has the external id or primary key ''"),
        (("--latest", "--skill", ""), "nothing is stored about a skill ''"),
        (("--latest", "--skill", "a\0"), "nothing is stored about a skill 'a.x00'"),
        (("--latest", "--skill", "\ud800"), "nothing is stored about a skill"),
    ],
)
def test_what_names_no_run_or_skill_is_an_error_and_never_all_of_them(
    args: tuple[str, ...], message: str
) -> None:
    make_retrieval(llm=True, trace="violated")
    with pytest.raises(CommandError, match=message):
        told(*args)
