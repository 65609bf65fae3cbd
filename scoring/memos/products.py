"""The facts of a run, a tip or a category, from rows: what a memo about it may say.

Guarantees: a subject is found by its name or not at all, never replaced by another; every fact says
which row holds it, or which rows were counted; what is read is bounded by the one run or tip (a stored
pass, sums kept beside the rows, the attempts of that run), never the history; all of one snapshot is
read at one moment. Two snapshots of unchanged rows have one fingerprint.

It says nothing of runs whose rows changed since their last dream pass: a pass is what is told.
Source: issue 5 (item 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory.models import Run, Tip
from memory.querysets import AmbiguousRun, UnknownRun, can_be_stored
from memory.retirement import UnknownTip, tip_named
from memory.snapshot import one_moment
from memory.terminal import visible
from scoring.memos.product_category import CategoryUnknown, category_snapshot
from scoring.memos.product_run import run_snapshot
from scoring.memos.product_tip import tip_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scoring.memos.facts import Snapshot

PRODUCTS: Final = ("run", "tip", "category")
NAME_SHOWN: Final = 120


class UnknownProduct(ValueError):
    """There are memos about runs, tips and categories; facts from a file are read by ``facts_file``."""


class UnknownSubject(LookupError):
    """No run, tip or category has this name, or several have; says which and what to give instead."""


def snapshot_of(product: str, identifier: str, *, skill: str | None = None) -> Snapshot:
    """Return the facts of one subject.

    Args:
        product: run, tip or category.
        identifier: run: external id or primary key; tip: external id or primary key; category: its
            name. ``SKILL/NAME`` names any of them.
        skill: needed where several skills use the name.

    Raises:
        UnknownProduct, UnknownSubject: nothing was found; never answered with another subject.
    """
    if product not in PRODUCTS:
        raise UnknownProduct(f"no memo about {visible(product)!r}: there are {', '.join(PRODUCTS)}")
    with one_moment():
        match product:
            case "run":
                return run_snapshot(run_named(identifier, skill=skill))
            case "tip":
                return tip_snapshot(_tip(identifier, skill))
            case _:
                return _category(identifier, skill)


def _splits(identifier: str) -> Iterator[tuple[str, str]]:
    """The ways to read SKILL/NAME; either part may hold slashes."""
    for at, char in enumerate(identifier):
        if char == "/" and 0 < at < len(identifier) - 1:
            yield identifier[:at], identifier[at + 1 :]


def snapshot_of_run(run_id: int) -> Snapshot:
    """Return the facts of the run with this primary key; raises Run.DoesNotExist."""
    with one_moment():
        return run_snapshot(Run.objects.get(pk=run_id))


def run_named(identifier: str, *, skill: str | None = None) -> Run:
    """Return the run called so, see `snapshot_of`; raises UnknownSubject."""
    try:
        return Run.objects.named(identifier, skill=skill)
    except AmbiguousRun as error:
        raise UnknownSubject(str(error)) from None
    except UnknownRun as error:
        if skill is None and can_be_stored(identifier):
            for one, name in _splits(identifier):
                found = Run.objects.current().filter(skill=one, external_id=name).first()
                if found is not None:
                    return found
        raise UnknownSubject(str(error)) from None


def _tip(identifier: str, skill: str | None) -> Tip:
    if can_be_stored(f"{identifier}{skill}"):
        named = Tip.objects.filter(external_id=identifier)
        found = list((named.filter(skill=skill) if skill else named)[:2])
        if len(found) > 1:
            raise UnknownSubject(f"several skills have a tip {_said(identifier)}: name one's skill")
        if found:
            return found[0]
    try:
        tip = tip_named(identifier)
    except UnknownTip as error:
        raise UnknownSubject(str(error)) from None
    if skill is not None and tip.skill != skill:
        raise UnknownSubject(f"skill {_said(skill)} has no tip {_said(identifier)}")
    return tip


def _category(identifier: str, skill: str | None) -> Snapshot:
    readings = [(skill, identifier)] if skill is not None else list(_splits(identifier))
    if skill is None:
        skills = list(Run.objects.current().order_by("skill").values_list("skill").distinct()[:2])
        readings += [(skills[0][0], identifier)] if len(skills) == 1 else []
    for one, name in readings:
        try:
            return category_snapshot(one, name)
        except CategoryUnknown:
            continue
    hint = "" if skill is not None else ": name its skill, or give SKILL/CATEGORY"
    of = f" of skill {_said(skill)}" if skill is not None else ""
    raise UnknownSubject(f"no run lately dreamed of{of} has a category {_said(identifier)}{hint}")


def _said(name: str | None) -> str:
    return repr(visible(name or "", limit=NAME_SHOWN))
