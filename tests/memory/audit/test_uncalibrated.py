"""The audit marks judges that no calibration covers, in every section that rests on their verdicts.

Shaped by a list of misleading tips of which nobody could tell that an untried prompt had named them.
"""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from tests.calibrations import make_calibration
from tests.factories import make_attempt, make_retrieval, make_run, make_tip

pytestmark = pytest.mark.django_db

SECTIONS = (
    "4a. Misleading tips", "4b. Lucky neighbours", "Signal coverage", "Agreement of the signals",
)  # fmt: skip


def audited(*args: str) -> str:
    out = StringIO()
    call_command("audit_memory", *args, stdout=out)
    return out.getvalue()


def as_json(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audited(*args, "--json"))
    return found


def section(text: str, title: str) -> list[str]:
    """The lines from *title* to the next empty line."""
    return text[text.index(title) :].split("\n\n")[0].splitlines()


def make_suspects(source: str, *, skill: str = "stig") -> None:
    """A misleading tip and a lucky neighbour, by the word of this judge."""
    run = make_run(skill=skill)
    for outcome, llm in ((0.0, True), (1.0, False)):
        attempt = make_attempt(run=run, outcome=outcome)
        make_retrieval(attempt=attempt, tip=make_tip(skill=skill), llm=llm, llm_source=source)


def test_each_section_names_the_judges_in_scope_with_their_rows() -> None:
    make_calibration("known-7b", "p1")
    for source in ("known-7b@p1", "known-7b@p2", "new-7b@p1", "new-7b@p1"):
        make_suspects(source)
    make_suspects("elsewhere-7b@p1", skill="cve")
    text = audited("--skill", "stig")
    for title in SECTIONS:
        marked = [line for line in section(text, title) if line.startswith("! ")]
        assert marked == ["! uncalibrated judges: known-7b@p2 2 rows, new-7b@p1 4 rows"], title
    assert text.count("said by llm (uncalibrated)") == 6
    assert text.count("said by llm") == 8
    found = as_json("--skill", "stig")
    assert found["uncalibrated_sources"] == [
        {"source": "known-7b@p2", "rows": 2, "in_figures": True},
        {"source": "new-7b@p1", "rows": 4, "in_figures": True},
    ]
    marks = [tip["evidence"][0]["uncalibrated"] for tip in found["misleading"]]
    assert sorted(marks) == [False, True, True, True]


def test_evidence_of_another_signal_has_no_mark() -> None:
    attempt = make_attempt(outcome=0.0)
    make_retrieval(attempt=attempt, llm=False, review=True, llm_source="new-7b@p1")
    (tip,) = as_json()["misleading"]
    assert (tip["evidence"][0]["source"], tip["evidence"][0]["uncalibrated"]) == ("review", False)


def test_where_every_judge_is_calibrated_nothing_is_marked() -> None:
    make_calibration("known-7b", "p1")
    make_suspects("known-7b@p1")
    assert "uncalibrated" not in audited()
    assert as_json()["uncalibrated_sources"] == []


def test_the_line_holds_as_many_judges_as_a_list_may_and_the_json_holds_all() -> None:
    for number in range(3):
        make_suspects(f"judge\x1b[2J{number}@p")
    text = audited("--limit", "2")
    expected = "! uncalibrated judges: judge\\x1b[2J0@p 2 rows, judge\\x1b[2J1@p 2 rows, and 1 more"
    assert expected in text.splitlines()
    assert "\x1b" not in text
    assert len(as_json("--limit", "2")["uncalibrated_sources"]) == 3


def test_a_model_too_small_for_figures_is_in_no_agreement_and_hides_no_other_pair() -> None:
    attempt = make_attempt()
    make_retrieval(attempt=attempt, llm=True, emb=0.9, trace="followed", llm_source="judge-7b@p")
    for _ in range(3):
        make_retrieval(
            attempt=attempt, llm=False, emb=0.9, trace="followed", llm_source="SmolLM2-135M@p"
        )
    pairs = {(pair["first"], pair["second"]): pair for pair in as_json()["agreement"]}
    for second in ("emb", "trace"):
        found = pairs["llm", second]["agreement"]
        assert (found["hits"], found["n"]) == (1, 1)
    assert pairs["emb", "trace"]["agreement"]["n"] == 4
    line = "SmolLM2-135M@p 3 rows (too small a model: left out of the agreement)"
    assert line in audited()
