"""What a file of cases, and a report that is kept, must hold to be read.

Guarantees: `check_file` and `check_report` raise ShapeError, with the place and what is wanted there,
on anything that the suites or the comparison would trip over; what they let pass has every field, of
its type. Fields beyond those are left alone.

Shaped by files with a field missing, which ended in a traceback and the exit code of a regression.
"""

from __future__ import annotations

from typing import Any, Final

SUITES: Final = ("gate", "guards", "memos", "scenarios")
VARIANTS: Final = ("single", "debate")
ERRORS: Final = ("ReplyTruncated", "JudgeUnreachable")
AUDITS: Final = ("supported", "unsupported", "unclear", "no_claim", "half", "last")
REPLIES: Final = ("draft", "raw", "error", "audit")


class ShapeError(ValueError):
    """A field is missing or of another type; the message names it."""


def check_file(found: object, version: int) -> None:
    """Raise ShapeError unless ``found`` is a file of cases of this version."""
    body = _mapping(found, "the file")
    if body.get("version") != version:
        raise ShapeError(f"version {body.get('version')}, not {version}")
    for name, product in _mapping(body.get("snapshots"), "snapshots").items():
        _text(product, f"the product of snapshot {name!r}")
    for suite in SUITES:
        for number, case in enumerate(_list(body.get(suite), suite), start=1):
            _check_case(suite, _mapping(case, f"{suite}: case {number}"), number)


def _check_case(suite: str, case: dict[str, Any], number: int) -> None:
    where = f"{suite}: case {number}"
    where += f" ({_text(case.get('name'), f'{where}: name')!r})"
    if suite != "guards" or "impersonal" not in case:
        _text(case.get("snapshot"), f"{where}: snapshot")
    if suite == "scenarios":
        _check_scenario(case, where)
        return
    _text(case.get("text"), f"{where}: text")
    if suite == "gate":
        _texts(case.get("expect"), f"{where}: expect")
    if suite == "guards":
        name = "impersonal" if "impersonal" in case else "omits"
        _texts(case.get(name), f"{where}: {name}")


def _check_scenario(case: dict[str, Any], where: str) -> None:
    _one_of(case.get("variant"), VARIANTS, f"{where}: variant")
    expect = _mapping(case.get("expect"), f"{where}: expect")
    _text(expect.get("variant"), f"{where}: expect: variant")
    for name in expect.keys() & {"reason", "verdict"}:
        _text(expect[name], f"{where}: expect: {name}")
    if type(expect.get("calls", 0)) is not int or type(expect.get("accepted", True)) is not bool:
        raise ShapeError(f"{where}: expect: calls is a number, accepted true or false")
    _texts(expect.get("sides", []), f"{where}: expect: sides")
    for number, reply in enumerate(_list(case.get("replies"), f"{where}: replies"), start=1):
        at = f"{where}: reply {number}"
        kinds = [name for name in REPLIES if name in _mapping(reply, at)]
        if len(kinds) != 1:
            raise ShapeError(f"{at}: one of {', '.join(REPLIES)}")
        kind, said = kinds[0], reply[kinds[0]]
        if kind == "draft":
            _texts(said, f"{at}: draft")
        elif kind == "raw":
            _text(said, f"{at}: raw")
        else:
            _one_of(said, ERRORS if kind == "error" else AUDITS, f"{at}: {kind}")


def check_report(found: object, schema: int) -> None:
    """Raise ShapeError unless ``found`` is a report of this schema that can be compared with."""
    if not isinstance(found, dict) or found.get("schema") != schema:
        raise ShapeError(f"no report of schema {schema}")
    _mapping(found.get("config"), "config")
    means = _mapping(_mapping(found.get("rubric"), "rubric").get("means"), "rubric: means")
    for name, value in means.items():
        _number(value, f"rubric: {name}")
    _list(found.get("cases"), "cases")
    if found.get("live") is None:
        return
    arms = _mapping(_mapping(found["live"], "live").get("arms"), "live: arms")
    for arm in VARIANTS:
        numbers = _mapping(arms.get(arm), f"live: {arm}")
        _number(numbers.get("graded"), f"live: {arm}: graded")
        for name in ("own", "accepted", "writing_tokens"):
            _number(numbers.get(name), f"live: {arm}: {name}", empty=True)
        means = _mapping(numbers.get("means"), f"live: {arm}: means")
        _number(means.get("composite"), f"live: {arm}: composite", empty=True)


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ShapeError(f"{where}: an object with fields is wanted")
    return value


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ShapeError(f"{where}: a list is wanted")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ShapeError(f"{where}: a text is wanted")
    return value


def _texts(value: object, where: str) -> None:
    for part in _list(value, where):
        _text(part, where)


def _one_of(value: object, known: tuple[str, ...], where: str) -> None:
    if value not in known:
        raise ShapeError(f"{where}: one of {', '.join(known)}")


def _number(value: object, where: str, *, empty: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        if value is None and empty:
            return
        raise ShapeError(f"{where}: a number is wanted")
