"""Typed reads of the environment: a wrong value fails at start, by name, never later by surprise.

Secrets may come from a file (``NAME_FILE``), as container platforms mount them; a value is never logged.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path


class BadSetting(ValueError):
    """An environment variable that cannot be what it says."""


def env_str(name: str, default: str = "") -> str:
    """The value of *name*, or *default* when it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def env_bool(name: str, *, default: bool = False) -> bool:
    """1/true/yes/on or 0/false/no/off."""
    raw = env_str(name).lower()
    if not raw:
        return default
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off"}:
        return False
    msg = f"{name}={raw!r} is neither true nor false"
    raise BadSetting(msg)


def env_int(name: str, default: int, *, low: int = 0, high: int = 2**31 - 1) -> int:
    """A whole number in [low, high]."""
    raw = env_str(name)
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError:
        msg = f"{name}={raw!r} is not a whole number"
        raise BadSetting(msg) from None
    if not low <= value <= high:
        msg = f"{name}={value} is outside [{low}, {high}]"
        raise BadSetting(msg)
    return value


def env_float(name: str, default: float, *, low: float = 0.0, high: float = 1e9) -> float:
    """A number in [low, high]."""
    raw = env_str(name)
    if not raw:
        return default
    try:
        value = float(raw)
    except ValueError:
        msg = f"{name}={raw!r} is not a number"
        raise BadSetting(msg) from None
    if not low <= value <= high:
        msg = f"{name}={value} is outside [{low}, {high}]"
        raise BadSetting(msg)
    return value


def env_list(name: str, default: str = "") -> list[str]:
    """Comma-separated words."""
    return [word.strip() for word in env_str(name, default).split(",") if word.strip()]


def env_secret(name: str) -> str:
    """A secret from ``NAME`` or from the file that ``NAME_FILE`` names; empty when neither is set."""
    path = env_str(f"{name}_FILE")
    if not path:
        return env_str(name)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        msg = f"{name}_FILE={path!r} cannot be read: {error.strerror}"
        raise BadSetting(msg) from None


def env_prices(name: str) -> dict[str, tuple[float, float]]:
    """``{"model": [price in, price out]}``, per million tokens, as JSON; empty when it is unset."""
    raw = env_str(name)
    try:
        found = json.loads(raw or "{}")
        prices = {str(model): (float(pair[0]), float(pair[1])) for model, pair in found.items()}
        sane = all(len(pair) == 2 for pair in found.values())
        sane = sane and all(0 <= price < math.inf for pair in prices.values() for price in pair)
    except (ValueError, TypeError, AttributeError, LookupError):
        sane = False
    if not sane:
        msg = f'{name} must be JSON like {{"model": [0.15, 0.60]}}: prices in and out, from 0 on'
        raise BadSetting(msg)
    return prices
