"""Who vouches for a judge: one question for all of them, and nobody until somebody does.

Shaped by verdicts of a new prompt that stood in a report like those of the one that was measured.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import Retrieval
from memory.provenance import Standing, standing_of, uncalibrated_sources
from tests.calibrations import make_calibration
from tests.factories import make_attempt, make_retrieval

ROOT = Path(__file__).parents[2]
ALONE = """
from memory.provenance import Standing, standing_of
assert standing_of(["a@1", ""]) == Standing(uncalibrated=frozenset({"a@1"}))
"""


def test_without_a_room_that_answers_every_judge_has_the_mark() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.django_db
def test_any_number_of_judges_is_one_question_and_none_is_no_question() -> None:
    make_calibration("judge-3", "sha")
    names = [f"judge-{number}@sha" for number in range(40)]
    with CaptureQueriesContext(connection) as queries:
        found = standing_of([*names, *names, ""])
    assert len(queries) == 2, "the calibrations, and what answered under the names"
    assert found.uncalibrated == set(names) - {"judge-3@sha"}
    with CaptureQueriesContext(connection) as queries:
        assert standing_of(["", ""]) == Standing()
    assert len(queries) == 0


@pytest.mark.django_db
def test_verdicts_are_counted_per_uncalibrated_judge_abstentions_included() -> None:
    make_calibration("known-7b", "p1")
    attempt = make_attempt()
    make_retrieval(attempt=attempt, llm=True, llm_source="known-7b@p1")
    make_retrieval(attempt=attempt, llm=True, llm_source="known-7b@p2")
    make_retrieval(
        attempt=attempt, llm_label="unclear", llm_reason="unclear", llm_source="known-7b@p2"
    )
    make_retrieval(attempt=attempt, llm=False, llm_source="tiny-random@p1")
    make_retrieval(attempt=attempt, llm_reason="judge_error", llm_source="silent-7b@p1")
    make_retrieval(attempt=attempt, emb=0.9)
    with CaptureQueriesContext(connection) as queries:
        found = uncalibrated_sources(Retrieval.objects.all())
    assert len(queries) == 3
    assert [(judge.source, judge.rows, judge.in_figures) for judge in found] == [
        ("known-7b@p2", 2, True),
        ("tiny-random@p1", 1, False),
    ]
