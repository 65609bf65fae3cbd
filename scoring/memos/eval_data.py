"""The cases by which memos are evaluated: a folder of snapshots and one file of texts and scripts.

Guarantees: a folder that does not fit is refused with the case and the cause before anything is run
(`scoring.memos.eval_shape` says what a case holds); `EvalData.digest` names the cases themselves;
``{label}`` in a text becomes the citation of the fact of that label, so that no case hangs on numbering.
The bundled folder is data of ours, made up; an operator may give another. Source: issue 5 (item 8).
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scoring.memos.eval_shape import SUITES, check_file
from scoring.memos.facts import FactError
from scoring.memos.facts_file import load_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scoring.memos.facts import Snapshot

BUNDLED: Final = Path(__file__).parent / "eval_cases"
FILE_NAME: Final = "cases.json"
VERSION: Final = 1

_LABEL: Final = re.compile(r"\{([^{}]+)\}")


class EvalDataError(ValueError):
    """The folder of cases does not fit; the message names the case and the cause."""


@dataclass(frozen=True, slots=True)
class EvalData:
    """Snapshots by name, and the cases of each suite of `SUITES`, as they stand in the file."""

    snapshots: Mapping[str, Snapshot]
    cases: Mapping[str, tuple[Mapping[str, Any], ...]]

    @property
    def digest(self) -> str:
        """64 hex digits that change with any word of any case."""
        shown = json.dumps(
            {name: list(cases) for name, cases in self.cases.items()}, sort_keys=True
        )
        return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()

    def snapshot(self, case: Mapping[str, Any]) -> Snapshot:
        """The snapshot that a case is about; raises EvalDataError."""
        try:
            return self.snapshots[case["snapshot"]]
        except KeyError:
            raise EvalDataError(f"{case.get('name')!r}: no such snapshot") from None


def read_cases(folder: Path = BUNDLED) -> EvalData:
    """Read a folder; raises EvalDataError."""
    path = folder / FILE_NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        check_file(found, VERSION)
        snapshots = {
            name: replace(load_facts(folder / f"{name}.json"), product=product)
            for name, product in found["snapshots"].items()
        }
    except OSError as error:
        raise EvalDataError(f"{path}: {error.strerror}") from error
    except FactError as error:
        raise EvalDataError(f"a snapshot of {folder} does not fit: {error}") from error
    except (ValueError, RecursionError) as error:
        raise EvalDataError(f"{path} does not fit: {error}") from error
    data = EvalData(snapshots, {suite: tuple(found[suite]) for suite in SUITES})
    _check(data, path)
    return data


def _check(data: EvalData, path: Path) -> None:
    for suite, cases in data.cases.items():
        names = [case.get("name") for case in cases]
        if len(set(names)) != len(names) or not all(names):
            raise EvalDataError(f"{path}: {suite}: each case needs a name of its own")
        for case in cases:
            if "snapshot" in case:
                cited(case.get("text", ""), data.snapshot(case))
                for reply in case.get("replies", ()):
                    for part in reply.get("draft", ()):
                        cited(part, data.snapshot(case))


def cited(text: str, snapshot: Snapshot) -> str:
    """Return ``text`` with each ``{label}`` as the citation of that fact; raises EvalDataError."""
    refs = {item.label: f"[{snapshot.citations[item.id]}]" for item in snapshot.facts}

    def citation(hit: re.Match[str]) -> str:
        if hit[1] not in refs:
            raise EvalDataError(f"no fact of {snapshot.identifier!r} is called {hit[1]!r}")
        return refs[hit[1]]

    return _LABEL.sub(citation, text)
