"""Arguments that several commands share: who acts, by which gate, how many lines.

Guarantees: a number out of range is refused with the range, never replaced by a default (0 is no
minimum); an option that was not given is no override. Reads no database.
"""

from __future__ import annotations

import getpass
from argparse import ArgumentTypeError, BooleanOptionalAction
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from memory.credit import POLICIES

if TYPE_CHECKING:
    from argparse import ArgumentParser

ID_MAX = 2**63 - 1
COUNT_AT_MOST = 100_000
GATE_SETTINGS = (
    "threshold", "min_retrievals", "min_age_days", "interval_below", "policy", "protected_types", "cap",
    "cap_share",
)  # fmt: skip


def add_author(parser: ArgumentParser) -> None:
    """``--by``: under whose name the change is written down."""
    parser.add_argument("--by", metavar="NAME", help="who does this (default: the system user)")


def author_of(options: dict[str, Any]) -> str:
    """``--by``, or the name of the system user. Raises CommandError when that one has no name."""
    if options["by"] is not None:
        return str(options["by"])
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        msg = "the system does not say who you are: give --by NAME"
        raise CommandError(msg) from error


def add_gate(parser: ArgumentParser) -> None:
    """Settings of the gate that may differ from the skill's file."""
    parser.add_argument(
        "--threshold", type=float, metavar="X", help="credit below it is caught, [-1, 1]"
    )
    parser.add_argument(
        "--min-retrievals", type=int, metavar="N", help="visits with credit, at least (1 or more)"
    )
    parser.add_argument(
        "--min-age-days", type=int, metavar="D", help="younger tips are left alone (0: none is)"
    )
    parser.add_argument(
        "--policy", choices=sorted(POLICIES), help="credit policy on whose scale the threshold is"
    )
    parser.add_argument(
        "--interval-below",
        action=BooleanOptionalAction,
        help="whether the whole 95 %% interval must lie below the threshold, or the mean alone",
    )
    parser.add_argument(
        "--protected-types", type=_names, metavar="T,…", help="types of tips left alone ('': none)"
    )
    parser.add_argument("--cap", type=int, metavar="N", help="tips retired per sweep, at most")
    parser.add_argument(
        "--cap-share", type=float, metavar="X",
        help="of the active tips, at most, [0, 1]; one is always allowed",
    )  # fmt: skip


def gate_overrides(options: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given."""
    return {name: options[name] for name in GATE_SETTINGS if options[name] is not None}


def _names(text: str) -> list[str]:
    """Parts between commas; a list, for that is what a skill's file holds."""
    return [name.strip() for name in text.split(",") if name.strip()]


def positive_number(text: str) -> int:
    """An argument that counts something."""
    readable = text.isascii() and text.isdigit() and len(text) <= len(str(COUNT_AT_MOST))
    if not readable or not 1 <= int(text) <= COUNT_AT_MOST:
        msg = f"{text!r} is not a whole number from 1 to {COUNT_AT_MOST}"
        raise ArgumentTypeError(msg)
    return int(text)


def positive_id(text: str) -> int:
    """An argument that is a primary key."""
    readable = text.isascii() and text.isdigit() and len(text) <= len(str(ID_MAX))
    if not readable or not 1 <= int(text) <= ID_MAX:
        msg = f"{text!r} is no primary key"
        raise ArgumentTypeError(msg)
    return int(text)
