#!/usr/bin/env python
"""Run a command. When no server is configured, the embedded pair of this checkout is started first."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Start what the command needs, then hand over to Django. A wrong setting is one line, exit 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "contextgraph.settings")
    from django.core.management import execute_from_command_line

    from contextgraph.boot import one_line, start_servers_for

    with one_line():
        start_servers_for(sys.argv)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
