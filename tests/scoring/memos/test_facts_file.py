"""Files of facts: read whole, or refused with the row, the column, the cause and the mend."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from scoring.memos.facts_file import FactsFileError, load_facts

if TYPE_CHECKING:
    from pathlib import Path

CSV = """label,unit,value,materiality,provenance,derived_from,formula
Revenue,USD,394328000000,material,10-K p. 3;10-K p. 4,,
Net income,USD,99803000000,,,,
Net margin,%,25.31,,,Net income;Revenue,percent_of
Filing form,name,10-K,,,,
Filed,date,2025-11-03,,,,
Cost,EUR,,,,,
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_csv(tmp_path: Path) -> None:
    snapshot = load_facts(written(tmp_path, "acme.csv", "\ufeff" + CSV))
    facts = {item.label: item for item in snapshot.facts}
    assert (snapshot.product, snapshot.identifier, snapshot.as_of) == ("external", "acme", None)
    assert facts["Revenue"].provenance == ("10-K p. 3", "10-K p. 4")
    assert facts["Revenue"].is_material
    assert facts["Net margin"].derived_from == (facts["Net income"].id, facts["Revenue"].id)
    assert facts["Filed"].value == date(2025, 11, 3)
    assert facts["Cost"].value is None


def test_json_says_the_same_as_csv(tmp_path: Path) -> None:
    body = {
        "identifier": "acme",
        "as_of": "2026-01-02",
        "facts": [
            {"label": "Revenue", "unit": "USD", "value": 394328000000, "materiality": "material",
             "provenance": ["10-K p. 3", "10-K p. 4"]},
            {"label": "Net income", "unit": "USD", "value": 99803000000.0},
            {"label": "Net margin", "unit": "percent", "value": 25.31,
             "derived_from": ["Net income", "Revenue"], "formula": "percent_of"},
            {"label": "Filing form", "unit": "name", "value": "10-K"},
            {"label": "Filed", "unit": "date", "value": "2025-11-03"},
            {"label": "Cost", "unit": "EUR", "value": None},
        ],
    }  # fmt: skip
    one = load_facts(written(tmp_path, "x.json", json.dumps(body)))
    two = load_facts(written(tmp_path, "acme.csv", CSV))
    assert one.as_of == date(2026, 1, 2)
    assert one.fingerprint() == two.fingerprint()


def test_numbers_never_pass_through_a_float(tmp_path: Path) -> None:
    text = '{"facts": [{"label": "a", "unit": "score", "value": 0.1000000000000000055511151231257827}]}'
    (item,) = load_facts(written(tmp_path, "x.json", text)).facts
    assert item.value == Decimal("0.1000000000000000055511151231257827")


@pytest.mark.parametrize(
    ("name", "text", "row", "column", "cause"),
    [
        ("a.csv", "label,unit,value\nTips,count,1,2\n", 2, "", "4 cells under 3 columns"),
        ("a.csv", "label;unit;value\nTips;count;1\n", 1, "", "semicolons"),
        ("a.csv", "label,unit\nTips,count\n", 2, "value", "missing"),
        ("a.csv", "label,unit,value,colour\nTips,count,1,red\n", 2, "colour", "unknown column"),
        ("a.csv", "label,unit,value,value\nTips,count,1,1\n", 1, "", "stands twice"),
        ("a.csv", 'label,unit,value\nTips,count,"1,234"\n', 2, "value", "separators"),
        ("a.csv", "label,unit,value\nTips,percent,72%\n", 2, "value", "unit in it"),
        ("a.csv", "label,unit,value\nTips,USD,$5\n", 2, "value", "unit in it"),
        ("a.csv", "label,unit,value\nTips,count,five\n", 2, "value", "no number"),
        ("a.csv", "label,unit,value\nTips,count,NaN\n", 2, "", "no quantity"),
        ("a.csv", "label,unit,value\nTips,date,03/04/2025\n", 2, "value", "no day"),
        ("a.csv", "label,unit,value\nTips,furlong,1\n", 2, "", "unknown unit"),
        ("a.csv", "label,unit,value\n,count,1\n", 2, "label", "empty"),
        (
            "a.csv",
            "label,unit,value,materiality\nTips,count,1,high\n",
            2,
            "materiality",
            "no level",
        ),
        ("a.csv", "label,unit,value,formula\nTips,count,1,a*b\n", 2, "formula", "no formula"),
        (
            "a.csv",
            "label,unit,value,derived_from,formula\nT,count,1,X;Y,sum\n",
            2,
            "derived_from",
            "'X'",
        ),
        ("a.csv", 'label,unit,value\n"Tips,count,1\n', 2, "", "not CSV"),
        ("a.csv", "label,unit,value\nTips,count,1\nTips,count,2\n", 0, "", "two facts"),
        ("a.csv", "label,unit,value\n", 0, "", "no facts"),
        ("a.csv", "", 0, "", "empty"),
        ("a.json", '{"facts": [{"label": "a", "unit": "score", "value": NaN}]}', 0, "", "NaN"),
        ("a.json", '{"facts": [1]}', 1, "", "no object"),
        (
            "a.json",
            '{"facts": [{"label": "a", "unit": "count", "value": true}]}',
            1,
            "value",
            "bool",
        ),
        ("a.json", '{"facts": [{"label": "a", "label": "b"}]}', 0, "", "stands twice"),
        ("a.json", '{"facts": [], "colour": 1}', 0, "", "unknown field"),
        ("a.json", '{"facts": {}}', 0, "", "no list of facts"),
        ("a.json", '{"facts": [}', 0, "", "not JSON"),
        ("a.json", "[" * 100_000, 0, "", "nested"),
        ("a.xlsx", "", 0, "", "no format"),
        ("a.csv", "label,unit,value\n\u0394 revenue,USD,3\n", 2, "label", "no memo could state"),
        ("a.csv", "label,unit,value\nTips,count,1\n<b>bold</b>,count,1\n", 3, "label", "markup"),
        (
            "a.csv",
            "label,unit,value\nUmsatz (Mio. \u20ac),EUR,5\n",
            2,
            "label",
            "no memo could state",
        ),
        ("a.csv", "label,unit,value\nTips,count,0e9999\n", 2, "", "more digits"),
        (
            "a.json",
            '{"facts": [{"label": "a", "unit": "USD", "value": 0e99999999}]}',
            1,
            "",
            "more digits",
        ),
        (
            "a.json",
            '{"facts": [{"label": "a", "unit": "count", "value": 1, "provenance": ["a\\u0000b"]}]}',
            1,
            "provenance",
            "hidden characters",
        ),
        (
            "a.json",
            '{"identifier": "a\\u0000b", "facts": [{"label": "a", "unit": "count", "value": 1}]}',
            0,
            "",
            "hidden characters",
        ),
    ],
)
def test_a_bad_file_names_the_place_and_the_cause(
    tmp_path: Path, name: str, text: str, row: int, column: str, cause: str
) -> None:
    with pytest.raises(FactsFileError, match=cause) as caught:
        load_facts(written(tmp_path, name, text))
    assert (caught.value.row, caught.value.column) == (row, column)
    assert "; " in str(caught.value), "an error says how to mend it"


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(FactsFileError, match="check the path"):
        load_facts(tmp_path / "none.csv")
    (tmp_path / "x.csv").write_bytes(b"label\xff")
    with pytest.raises(FactsFileError, match="UTF-8"):
        load_facts(tmp_path / "x.csv")
