"""A report as plain data: what ``json.dumps`` takes without being told more.

Guarantees: an object that knows its own form (``as_dict``) is asked for it; other dataclasses become
their fields; floats are rounded, times are ISO 8601. An unknown type is an error, not its ``repr``.
"""

from __future__ import annotations

import dataclasses
import enum
from datetime import datetime
from typing import Any

from memory.rates import rounded


def plain_data(value: Any) -> Any:
    """*value* as dicts, lists, strings and numbers.

    Raises:
        TypeError: a value of a type that no report should hold.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, (str, enum.Enum)):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_data(item) for item in value]
    if hasattr(value, "as_dict"):
        return plain_data(value.as_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return fields_as_data(value)
    msg = f"a report cannot hold {type(value).__name__}"
    raise TypeError(msg)


def fields_as_data(record: Any) -> dict[str, Any]:
    """The fields of a dataclass instance, by name."""
    fields = dataclasses.fields(record)
    return {field.name: plain_data(getattr(record, field.name)) for field in fields}
