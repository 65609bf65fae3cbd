"""Settings from the environment: a wrong value is refused by name. So far: the price table."""

from __future__ import annotations

import pytest

from contextgraph.env import BadSetting, env_prices


def test_prices_are_read_and_absent_ones_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRICES", raising=False)
    assert env_prices("PRICES") == {}
    monkeypatch.setenv("PRICES", '{"judge-a": [0.15, 0.6], "judge-b": [0, 1]}')
    assert env_prices("PRICES") == {"judge-a": (0.15, 0.6), "judge-b": (0.0, 1.0)}


@pytest.mark.parametrize(
    "wrong",
    [
        "free",
        "[]",
        '{"m": 1}',
        '{"m": [1]}',
        '{"m": [1, 2, 3]}',
        '{"m": [-1, 2]}',
        '{"m": ["x", 2]}',
        '{"m": [NaN, 2]}',
        '{"m": [1, Infinity]}',
        '{"m": null}',
    ],
)
def test_a_price_table_that_makes_no_sense_is_refused_by_name(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRICES", wrong)
    with pytest.raises(BadSetting, match="PRICES"):
        env_prices("PRICES")
