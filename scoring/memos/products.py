"""The facts of a run, a tip or a category, from rows: what a memo about it may say.

Guarantees: a subject is found by its name or not at all, never replaced by another; to find it costs a
few queries, whatever was asked for. Every fact says which row holds it, or which rows were counted; what
is read is bounded by the one run or tip (a stored pass, sums kept beside the rows, the attempts of that
run), never the history; all of one snapshot is read at one moment. Two snapshots of unchanged rows have
one fingerprint.

It says nothing of runs whose rows changed since their last dream pass: a pass is what is told.
Source: issue 5 (item 1).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from django.db.models import Q

from memory.models import Run, Tip
from memory.querysets import AmbiguousRun, UnknownRun, can_be_stored
from memory.retirement import UnknownTip, tip_named
from memory.snapshot import one_moment
from memory.terminal import visible
from scoring.memos.product_category import CategoryUnknown, category_snapshot
from scoring.memos.product_run import run_snapshot
from scoring.memos.product_tip import tip_snapshot

if TYPE_CHECKING:
    from scoring.memos.facts import Snapshot

PRODUCTS: Final = ("run", "tip", "category")
NAME_SHOWN: Final = 120
NAME_CHARS: Final = 500
"""What the columns of names hold; SKILL/NAME has twice as many."""


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


def _splits(identifier: str) -> list[tuple[str, str]]:
    """The ways to read SKILL/NAME of which the skill has runs; either part may hold slashes."""
    if not can_be_stored(identifier):
        return []
    names = {
        identifier[:at]: identifier[at + 1 :]
        for at, char in enumerate(identifier)
        if char == "/" and 0 < at < len(identifier) - 1
    }
    skills = Run.objects.current().filter(skill__in=names).values_list("skill", flat=True)
    return [(skill, names[skill]) for skill in skills.distinct().order_by("skill")]


def _check_length(product: str, identifier: str, skill: str | None) -> None:
    """Raise UnknownSubject for what no row can be called."""
    if len(identifier) > 2 * NAME_CHARS + 1 or len(skill or "") > NAME_CHARS:
        of = f" of skill {_said(skill)}" if skill is not None else ""
        raise UnknownSubject(f"no {product}{of} is called {_said(identifier)}: names are shorter")


def snapshot_of_run(run_id: int) -> Snapshot:
    """Return the facts of the run with this primary key; raises Run.DoesNotExist."""
    with one_moment():
        return run_snapshot(Run.objects.get(pk=run_id))


def run_named(identifier: str, *, skill: str | None = None) -> Run:
    """Return the run called so, see `snapshot_of`; raises UnknownSubject."""
    _check_length("run", identifier, skill)
    try:
        return Run.objects.named(identifier, skill=skill)
    except AmbiguousRun as error:
        raise UnknownSubject(str(error)) from None
    except UnknownRun as error:
        found = _runs_of_skills(identifier) if skill is None else []
        if len(found) != 1:
            why = f"several runs are called {_said(identifier)}: name the skill"
            raise UnknownSubject(why if found else str(error)) from None
        return found[0]


def _runs_of_skills(identifier: str) -> list[Run]:
    """The runs that SKILL/NAME may mean, two at most."""
    names = Q(pk__in=[])
    for skill, name in _splits(identifier):
        names |= Q(skill=skill, external_id=name)
    return list(Run.objects.current().filter(names)[:2])


def _tip(identifier: str, skill: str | None) -> Tip:
    _check_length("tip", identifier, skill)
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
    _check_length("category", identifier, skill)
    readings = [(skill, identifier)] if skill is not None else _splits(identifier)
    if skill is None:
        skills = list(Run.objects.current().order_by("skill").values_list("skill").distinct()[:2])
        readings += [(skills[0][0], identifier)] if len(skills) == 1 else []
    found = []
    for one, name in readings:
        with contextlib.suppress(CategoryUnknown):
            found.append(category_snapshot(one, name))
    if len(found) > 1:
        raise UnknownSubject(f"several categories are called {_said(identifier)}: name the skill")
    if found:
        return found[0]
    hint = "" if skill is not None else ": name its skill, or give SKILL/CATEGORY"
    of = f" of skill {_said(skill)}" if skill is not None else ""
    raise UnknownSubject(f"no run lately dreamed of{of} has a category {_said(identifier)}{hint}")


def _said(name: str | None) -> str:
    return repr(visible(name or "", limit=NAME_SHOWN))
