"""The coin: fair, independent, the same everywhere; and its audit, which finds what does not fit."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from scipy.stats import binom, chi2_contingency

from memory.holdout import coin, draw
from memory.holdout_audit import audit_holdout
from memory.models import Retrieval
from memory.retrieval import RankRequest, rank
from memory.retrieval_log import log
from tests.factories import make_attempt, make_retrieval, make_run
from tests.memory.ranking_rows import RULE, rule_tip, skill_files, swept

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import SettingsWrapper

    from memory.models import Run

SPOT: dict[str, Any] = {
    "skill": "stig",
    "run": "run-1",
    "rule_id": "rule",
    "attempt": 1,
    "tip": "t",
}


def tosses(count: int, **fields: Any) -> list[float]:
    """Coins of *count* rules, one attempt each."""
    return [coin("seed", **(SPOT | fields | {"rule_id": f"rule_{n}"})) for n in range(count)]


def test_the_coin_is_the_same_on_every_machine() -> None:
    # computed apart from the code: the first 53 bits of the digest over the length-prefixed fields
    assert coin("contextgraph", **SPOT) == 0.003869622107264492


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01])
def test_over_100_000_draws_the_rate_is_the_rate(rate: float) -> None:
    withheld = sum(toss >= 1.0 - rate for toss in tosses(100_000))
    # exact bounds; the seed is fixed, so that this either holds or the coin is not fair
    low, high = binom.interval(0.999, 100_000, rate)
    assert low <= withheld <= high


def test_coins_are_uniform_and_below_one() -> None:
    found = tosses(100_000)
    assert 0.0 <= min(found) < 1e-3
    assert 1.0 - 1e-3 < max(found) < 1.0
    tenths = [sum(int(toss * 10) == tenth for toss in found) for tenth in range(10)]
    low, high = binom.interval(0.9999, 100_000, 0.1)
    assert all(low <= count <= high for count in tenths)


@pytest.mark.parametrize("field", ["tip", "attempt", "run", "skill"])
def test_coins_of_different_rows_are_independent(field: str) -> None:
    other = {"tip": "u", "attempt": 2, "run": "run-2", "skill": "cve"}[field]
    pairs = zip(tosses(20_000), tosses(20_000, **{field: other}), strict=True)
    table = [[0, 0], [0, 0]]
    for one, two in pairs:
        table[one < 0.5][two < 0.5] += 1
    assert chi2_contingency(table).pvalue > 1e-3


def test_every_field_matters_and_fields_do_not_run_into_each_other() -> None:
    shifted = SPOT | {"skill": "stigr", "run": "un-1"}
    others = [SPOT | {name: f"{value}2"} for name, value in SPOT.items() if name != "attempt"]
    coins = [coin("s", **one) for one in (SPOT, shifted, SPOT | {"attempt": 2}, *others)]
    coins.append(coin("s2", **SPOT))
    assert len(set(coins)) == len(coins)


# --- Draws and rows -------------------------------------------------------------------------------


@pytest.fixture
def rates(tmp_path: Path, settings: SettingsWrapper) -> None:
    settings.PROMPTS_DIR = skill_files(
        tmp_path,
        holdout='rate = 0.4\nexempt_types = ["warning"]',
        eviction="canary_rate = 0.25",
    )


def attempts(run: Run, count: int) -> list[Retrieval]:
    """Rows of as many attempts at RULE, ranked, tossed and logged."""
    rows = []
    for number in range(1, count + 1):
        attempt = make_attempt(run=run, rule_id=RULE, number=number, category="audit", outcome=None)
        ranking = rank(RankRequest(run.skill, RULE, category="audit", run=run.external_id))
        rows += log(attempt, ranking, draw(ranking, attempt=number), retrieved_at=timezone.now())
    return rows


@pytest.mark.django_db
@pytest.mark.usefixtures("rates")
def test_every_row_has_its_true_propensity_and_exempt_tips_are_always_shown() -> None:
    plain, typed, exempt = rule_tip(), rule_tip(tip_type="warning"), rule_tip(holdout_exempt=True)
    retired = swept(rule_tip())
    rows = attempts(make_run(status="recording"), 80)
    by_tip = {tip: [row for row in rows if row.tip_id == tip.pk] for tip in (plain, typed, exempt)}
    assert len(rows) == 4 * 80
    assert {(row.propensity, row.coin is None) for row in by_tip[plain]} == {(0.6, False)}
    for tip in (typed, exempt):
        assert {(r.propensity, r.coin, r.shown) for r in by_tip[tip]} == {(1.0, None, True)}
    withheld = sum(row.withheld for row in by_tip[plain])
    low, high = binom.interval(0.999, 80, 0.4)
    assert low <= withheld <= high
    canaries = [row for row in rows if row.canary]
    assert {(row.tip_id, row.propensity) for row in canaries} == {(retired.pk, 0.25)}
    shown = sum(row.shown for row in canaries)
    low, high = binom.interval(0.999, 80, 0.25)
    assert low <= shown <= high
    assert audit_holdout().wrong_coins == 0


@pytest.mark.django_db
def test_with_a_rate_of_zero_nothing_is_drawn() -> None:
    rule_tip()
    ranking = rank(RankRequest("stig", RULE))
    (drawn,) = draw(ranking, run="run-x", attempt=1)
    assert (drawn.shown, drawn.propensity, drawn.coin) == (True, 1.0, None)


@pytest.mark.django_db
def test_a_draw_needs_a_run_and_an_attempt() -> None:
    ranking = rank(RankRequest("stig", RULE))
    with pytest.raises(ValueError, match="needs a run"):
        draw(ranking, attempt=1)
    with pytest.raises(ValueError, match="needs a run"):
        draw(ranking, run="x", attempt=0)


@pytest.mark.django_db
@pytest.mark.usefixtures("rates")
def test_a_withheld_tip_is_not_replaced() -> None:
    for _ in range(8):
        rule_tip()
    rows = attempts(make_run(status="recording"), 10)
    assert len(rows) == 5 * 10
    assert len({row.tip_id for row in rows}) == 5


# --- The audit ------------------------------------------------------------------------------------


def audit(*args: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    call_command("audit_holdout", *args, stdout=out)
    return out.getvalue()


@pytest.fixture
def tossed(rates: None) -> Run:
    for _ in range(3):
        rule_tip()
    run = make_run(external_id="run-x", status="recording")
    attempts(run, 30)
    return run


@pytest.mark.django_db
def test_an_honest_log_passes(tossed: Run) -> None:
    found = audit_holdout(run=tossed)
    assert (found.rows, found.coins, found.wrong_coins, found.suspicious) == (90, 90, 0, ())
    assert [(share.propensity, share.rows) for share in found.shares] == [(0.6, 90)]
    text = audit("--run", "run-x")
    assert "90 with a coin, 0 of these wrong" in text
    data = json.loads(audit("--skill", "stig", "--json"))
    assert data["coins"] == 90


@pytest.mark.django_db
@pytest.mark.usefixtures("tossed")
@pytest.mark.parametrize("key", ["", "nobody"])
def test_a_run_that_is_none_is_an_error_and_never_all_of_them(key: str) -> None:
    with pytest.raises(CommandError, match="no run has the external id or primary key"):
        audit("--run", key)


@pytest.mark.django_db
def test_a_row_that_was_changed_is_named(tossed: Run) -> None:
    row = tossed.retrievals.filter(withheld=False).first()
    assert row is not None
    Retrieval.objects.filter(pk=row.pk).update(coin=0.123)
    with pytest.raises(CommandError, match=f"1 of 90 coins are wrong, first retrieval {row.pk} "):
        audit()


@pytest.mark.django_db
@pytest.mark.usefixtures("tossed")
def test_another_seed_is_recognised_as_one(settings: SettingsWrapper) -> None:
    settings.HOLDOUT_SEED = "another"
    with pytest.raises(CommandError, match="CONTEXTGRAPH_HOLDOUT_SEED is not the seed"):
        audit()
    found = audit_holdout()
    assert (found.wrong_coins, len(found.wrong)) == (90, 20)


@pytest.mark.django_db
def test_rows_that_went_missing_show_in_the_share(tossed: Run) -> None:
    tossed.retrievals.filter(withheld=True).delete()
    with pytest.raises(CommandError, match="keeps rows out"):
        audit("--run", "run-x")


@pytest.mark.django_db
def test_rows_without_a_coin_are_counted_and_not_judged() -> None:
    make_retrieval(shown=False, withheld=True, propensity=0.5)
    text = audit()
    assert "1 withheld without a coin" in text
    assert "No coin was tossed" in text
    with pytest.raises(CommandError, match="no run"):
        audit("--run", "nobody")
    with pytest.raises(CommandError, match="nothing is stored about a skill"):
        audit("--skill", "nobody")
