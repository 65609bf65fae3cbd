"""What must run before a command: settings that make sense, and the embedded servers they ask for.

Guarantees: a wrong setting or a server that does not start is one line with the cause and the mend,
not a traceback; a command that touches no row starts nothing (help, version, static checks); the
first command of a fresh checkout finds a migrated database.

Shaped by a first command that ended in "relation does not exist" and forty lines of traceback.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NEEDS_NO_SERVER: Final = frozenset(
    {
        "", "help", "version", "--help", "-h", "--version", "check", "check_run_log", "collectstatic",
        "compilemessages", "diffsettings", "down", "eval_follow", "findstatic", "json_schema",
        "makemessages", "makemigrations", "startapp", "startproject", "status", "test",
    }
)  # fmt: skip
MIGRATES_BY_ITSELF: Final = frozenset({"migrate", "run_example", "up", "sqlmigrate", "dbshell"})


@contextmanager
def one_line() -> Iterator[None]:
    """Turn what an operator can mend into one line and exit code 1."""
    from dj_database_url import ParseError, UnknownSchemeError

    from contextgraph.embedded import EmbeddedError
    from contextgraph.env import BadSetting

    try:
        yield
    except (BadSetting, EmbeddedError) as error:
        sys.exit(str(error))
    except (ParseError, UnknownSchemeError):
        sys.exit(
            "DATABASE_URL cannot be read: postgresql://user:password@host:5432/name is its form"
        )


def start_servers_for(argv: Sequence[str]) -> None:
    """Start the embedded pair unless the command needs none, or all servers are configured.

    Raises:
        BadSetting, EmbeddedError: see :func:`one_line`.
    """
    from django.conf import settings

    command = argv[1] if len(argv) > 1 else ""
    uses_embedded = settings.USES_EMBEDDED  # reads the settings, and with them every wrong one
    offline = command in NEEDS_NO_SERVER or (command == "eval_memos" and "--live" not in argv)
    if offline or {"--help", "-h"} & set(argv) or not uses_embedded:
        return
    from contextgraph import embedded

    try:
        embedded.ensure_started(settings.BASE_DIR)
    except embedded.EmbeddedError as error:
        if command != "doctor":  # the doctor goes on and says what else is wrong
            raise
        sys.stderr.write(f"{error}\n")
        return
    if settings.USES_EMBEDDED_DATABASE and command not in MIGRATES_BY_ITSELF:
        _migrate_when_empty()


def _migrate_when_empty() -> None:
    """Lay the tables on the first use of an embedded database; an older schema is left to `migrate`."""
    import django
    from django.core.management import call_command
    from django.db import connection

    django.setup()
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('django_migrations')")
        (there,) = cursor.fetchone()
    if there is None:
        sys.stderr.write("First use: laying the tables of the embedded database.\n")
        call_command("migrate", verbosity=0, interactive=False)
    connection.close()
