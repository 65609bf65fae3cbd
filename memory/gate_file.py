"""Writes a gate into a skill's own file, and nothing else into it.

Guarantees: only the keys given change, comments and order stay; the new text is read as a whole, by the
reader of skill files, before it takes the place of the old one in one rename, so that no reader meets
half a file or one that does not fit; a file that changed meanwhile is left as it is. Does not reach
processes that have read the file before: they keep the old gate until they are started again.

Shaped by: a threshold in a Python class that was changed without a look at which tips it would catch.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from contextgraph.skills import DEFAULT, FILE_NAME, FOLDER_NAME, SkillError, folder_for, load_skill

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = "eviction"


def save_gate(root: Path, skill: str, settings: Mapping[str, Any]) -> Path:
    """Set *settings* in the ``[eviction]`` table of *skill*'s file below *root*; returns its path.

    Raises:
        SkillError: the skill has no file of its own (names the one to make), the file cannot be read
            or written, or would not fit with these settings. The file is as it was.
    """
    load_skill(root, skill)
    folder = folder_for(root, skill, FILE_NAME)
    if folder != skill:
        raise SkillError(_how_to_make_one(root, skill))
    path = root / folder / FILE_NAME
    try:
        _replace(path, skill, settings)
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise SkillError(msg) from error
    except (UnicodeDecodeError, TOMLKitError) as error:
        msg = f"{path} is not TOML: {error}"
        raise SkillError(msg) from error
    load_skill.cache_clear()
    return path


def _how_to_make_one(root: Path, skill: str) -> str:
    served = f"skill {skill!r} has no file of its own and is served by {root / DEFAULT / FILE_NAME}"
    if not FOLDER_NAME.fullmatch(skill):
        return f"{served}; its name is none that a folder may have"
    return f"{served}; make {root / skill / FILE_NAME} first, for example as a copy of that one"


def _replace(path: Path, skill: str, settings: Mapping[str, Any]) -> None:
    target = path.resolve()  # a link stays a link
    before = target.read_bytes()
    # beside the file: a rename is atomic within one file system only
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".gate-") as room:
        draft = Path(room) / skill / FILE_NAME
        draft.parent.mkdir()
        draft.write_bytes(_changed(before.decode("utf-8"), settings).encode("utf-8"))
        shutil.copymode(target, draft)
        _checked(draft, shown_as=path, root=Path(room), skill=skill)
        if target.read_bytes() != before:
            msg = f"{path} was changed by someone else meanwhile: look at it and try again"
            raise SkillError(msg)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(target)


def _changed(text: str, settings: Mapping[str, Any]) -> str:
    document = tomlkit.parse(text)
    table: Any = document.setdefault(TABLE, tomlkit.table())
    for key in settings.keys() & table.keys():
        table[key] = settings[key]
    # comments that stand before the next header belong to that one: new keys go above them
    body = getattr(table.value, "body", [])
    end = next((at for at in range(len(body), 0, -1) if body[at - 1][0] is not None), 0)
    trailing = [item for _, item in body[end:]]
    del body[end:]
    for key in [key for key in settings if key not in table]:
        table[key] = settings[key]
    for item in trailing:
        table.add(item)
    return tomlkit.dumps(document)


def _checked(draft: Path, *, shown_as: Path, root: Path, skill: str) -> None:
    """Read *draft* as any reader would, outside the cache; errors name the file that it stands for."""
    try:
        load_skill.__wrapped__(root, skill)
    except SkillError as error:
        raise SkillError(str(error).replace(str(draft), str(shown_as))) from error
