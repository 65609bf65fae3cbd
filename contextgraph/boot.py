"""What must run before a command: the embedded servers, when no URL points elsewhere.

Guarantees: a command that touches no row starts nothing (help, version, static checks); a failure to
start is one line with the cause and the mend, not a traceback.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NEEDS_NO_SERVER: Final = frozenset(
    {
        "", "help", "version", "--help", "-h", "--version", "check", "check_run_log", "collectstatic",
        "compilemessages", "diffsettings", "down", "eval_follow", "findstatic", "json_schema",
        "makemessages", "startapp", "startproject", "status", "test",
    }
)  # fmt: skip


def start_servers_for(argv: Sequence[str]) -> None:
    """Start the embedded pair unless the command needs none, or both are configured elsewhere."""
    command = argv[1] if len(argv) > 1 else ""
    if command in NEEDS_NO_SERVER or {"--help", "-h"} & set(argv):
        return
    from django.conf import settings

    from contextgraph import embedded

    if not settings.USES_EMBEDDED:
        return
    try:
        embedded.ensure_started(settings.BASE_DIR)
    except embedded.EmbeddedError as error:
        sys.stderr.write(f"The embedded servers did not start: {error}\n")
        if command != "doctor":  # the doctor goes on and says what else is wrong
            sys.exit(1)
