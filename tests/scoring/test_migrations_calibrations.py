"""Calibrations that were stored before their judges named what answered, brought up to today.

Shaped by schema changes that were tried on empty tables.
"""

from __future__ import annotations

import pytest

from scoring.calibrated import standing
from scoring.models import Calibration
from tests.scoring.test_migrations import migrate, rows

OLD_ROW = """
    INSERT INTO scoring_calibration (signal, model, prompt_sha256, version, labels, pairs_sha256,
        n, decided, report, coefficients, created_at)
    VALUES (%s, 'judge-7b', 'abc', '1', 'pairs', '0', 40, 40, '{}', %s, now())"""


@pytest.mark.django_db(transaction=True)
def test_the_fit_that_was_in_use_stays_in_use_and_nothing_is_claimed_about_servers() -> None:
    try:
        migrate("0005_memos")
        rows(OLD_ROW, "combined", '{"weights": {}}')
        rows(OLD_ROW, "judge", None)
        migrate(None)
        found = Calibration.objects.order_by("pk").values_list(
            "signal", "adopted", "served", "asked"
        )
        assert list(found) == [("combined", True, [], {}), ("judge", False, [], {})]
        assert standing(["judge-7b@abc"]).uncalibrated == set(), "no judgement says otherwise"
        migrate("0005_memos")
        assert rows("SELECT count(*) FROM scoring_calibration") == [(2,)]
    finally:
        migrate(None)
