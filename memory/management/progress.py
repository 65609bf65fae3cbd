"""A progress bar for commands that go through many runs.

Guarantees: it stands on standard error, so that the output stays what was asked for, and is gone when the
work is done.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def bar(title: str, *, hidden: bool) -> Iterator[Callable[[int, int], None]]:
    """Gives what to call with the number of things done and of all there are."""
    with Progress(console=Console(stderr=True), transient=True, disable=hidden) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
