"""Snapshots and verdicts as plain JSON, and back.

Guarantees: what was stored reads back to the same fingerprint and the same citations; what does not read
back raises ValueError, so that a row that was tampered with is no memo. Pure.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from scoring.memos.facts import Fact, FactError, Materiality, Snapshot, Value
from scoring.memos.facts_formula import Formula
from scoring.memos.memo_judge import MemoVerdict
from scoring.memos.units import Measure

if TYPE_CHECKING:
    from collections.abc import Mapping


def snapshot_as_dict(snapshot: Snapshot) -> dict[str, Any]:
    """Plain data: ``facts`` in the order of their citations, numbers as texts."""
    return {
        "product": snapshot.product,
        "identifier": snapshot.identifier,
        "as_of": snapshot.as_of.isoformat() if snapshot.as_of else None,
        "facts": [
            {
                "citation": ref,
                "id": item.id,
                "label": item.label,
                "unit": item.unit,
                "value": None if item.value is None else _text(item.value),
                "materiality": str(item.materiality),
                "provenance": list(item.provenance),
                "derived_from": list(item.derived_from),
                "formula": str(item.formula) if item.formula else "",
            }
            for ref, item in snapshot.by_citation.items()
        ],
    }


def _text(value: Decimal | date | str) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def snapshot_from_dict(data: Mapping[str, Any]) -> Snapshot:
    """Read what `snapshot_as_dict` gave; raises ValueError on anything else."""
    try:
        day = data["as_of"]
        return Snapshot(
            str(data["product"]), str(data["identifier"]), date.fromisoformat(day) if day else None,
            tuple(_fact(row) for row in data["facts"]),
        )  # fmt: skip
    except FactError:
        raise
    except (KeyError, TypeError, AttributeError, InvalidOperation) as error:
        raise ValueError(f"no snapshot: {type(error).__name__}: {error}") from None


def _fact(row: Mapping[str, Any]) -> Fact:
    return Fact(
        row["label"], row["unit"], _value(row["value"], row["unit"]), Materiality(row["materiality"]),
        tuple(row["provenance"]), tuple(row["derived_from"]),
        Formula(row["formula"]) if row["formula"] else None,
    )  # fmt: skip


def _value(text: str | None, unit: str) -> Value:
    if text is None or unit == Measure.NAME:
        return text
    return date.fromisoformat(text) if unit == Measure.DATE else Decimal(text)


def verdict_from_dict(data: Mapping[str, Any]) -> MemoVerdict:
    """Read what `MemoVerdict.as_dict` gave; raises ValueError on anything else."""
    try:
        share = data["faithfulness"]
        known = {**data, "items": tuple(data["items"])}
        return MemoVerdict(**known | {"faithfulness": None if share is None else Decimal(share)})
    except (KeyError, TypeError, InvalidOperation) as error:
        raise ValueError(f"no verdict: {type(error).__name__}: {error}") from None
