"""Runs a program of the product with one planned murder: ``saboteur PLAN MARK PROGRAM ARG...``.

PROGRAM is ``celery`` or ``manage``. The plan wraps one function in this process and SIGKILLs it there;
the product holds no failpoint of its own. MARK is a file: a plan that strikes once makes it first, one
that strikes every time adds a line to it, so a test can see that the blow really fell. Plan ``none``
becomes the program itself (exec). All of them die with the process that started them.

Does not simulate anything: after the blow there is no process left that could clean up.
Shaped by fault tests that raised an exception and called it a crash.
"""

from __future__ import annotations

import ctypes
import functools
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKOUT = Path(__file__).resolve().parents[2]
POISON = "poison-that-kills-the-judge"
"""A tip that holds this word kills the process that asks about it, under plan ``die-on-poison``."""
PUBLISHED_BEFORE_DEATH = 4
_PR_SET_PDEATHSIG = 1


def die() -> None:
    """End this process as an out-of-memory killer does."""
    os.kill(os.getpid(), signal.SIGKILL)


def first_time(mark: Path) -> bool:
    """True for one caller ever, across processes and restarts."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def before(target: Any, name: str, strike: Callable[..., None]) -> None:
    """Call *strike* with the arguments of each call of ``target.name``, then the function itself."""
    original = getattr(target, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        strike(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(target, name, wrapped)


def die_before_ack(mark: Path) -> None:
    """The rows are committed, the message is not acknowledged."""
    from kombu.message import Message

    before(Message, "ack", lambda *_a, **_k: first_time(mark) and die())


def die_on_poison(mark: Path) -> None:
    """One tip kills its process each time the judge is asked about it."""
    from scoring.judge.client import JudgeClient

    def strike(_client: Any, messages: Any, **_kwargs: Any) -> None:
        if POISON in str(messages):
            with mark.open("a") as file:
                file.write("killed\n")
            die()

    before(JudgeClient, "ask", strike)


def die_while_publishing(mark: Path) -> None:
    """Some headers of a chord are sent, the others are not."""
    from kombu import Producer

    sent = []

    def strike(*_args: Any, routing_key: str = "", **_kwargs: Any) -> None:
        if routing_key == "judge":
            sent.append(routing_key)
        if len(sent) > PUBLISHED_BEFORE_DEATH and first_time(mark):
            die()

    before(Producer, "publish", strike)


def die_before_finish(mark: Path) -> None:
    """The round is claimed (FINALIZING), nothing is recounted."""
    from contextgraph import pipeline

    before(pipeline, "finish", lambda *_a, **_k: first_time(mark) and die())


def die_in(stage: str) -> Callable[[Path], None]:
    """A plan: the stage of a dream pass has done all of its work, and nothing of it is committed."""

    def lay(mark: Path) -> None:
        from memory import dream

        def strike(row: Any, *_args: Any, **_kwargs: Any) -> None:
            if row.stage == stage and first_time(mark):
                die()

        before(dream, "close_stage", strike)

    return lay


def die_before_done(mark: Path) -> None:
    """Every stage of the pass is committed, the run is not DONE."""
    from memory import dream

    original = dream.run_pass

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        over = original(*args, **kwargs)
        return over if not first_time(mark) else die()

    dream.run_pass = wrapped


def redeliver_soon(mark: Path) -> None:
    """No murder: Redis gives unacknowledged runs back after 2 s, not a minute; acks are noted."""
    from kombu.message import Message

    from contextgraph import consumer

    original = consumer.transport_options
    soon = {"visibility_timeout": 2, "unacked_restore_throttle": 1}
    consumer.transport_options = lambda url: original(url) and original(url) | soon

    def note(*_args: Any, **_kwargs: Any) -> None:
        with mark.open("a") as file:
            file.write("acknowledged\n")

    before(Message, "ack", note)


PLANS: dict[str, Callable[[Path], None]] = {
    "die-before-ack": die_before_ack,
    "die-on-poison": die_on_poison,
    "die-while-publishing": die_while_publishing,
    "die-before-finish": die_before_finish,
    "die-before-done": die_before_done,
    "die-in-score": die_in("score"),
    "die-in-credit": die_in("credit"),
    "die-in-evict": die_in("evict"),
    "die-in-report": die_in("report"),
    "redeliver-soon": redeliver_soon,
}


def main() -> None:
    """Tie this process to its parent, lay the trap, become the program."""
    plan, mark, program, *args = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if plan == "none":
        argv = ["-m", "celery"] if program == "celery" else [str(CHECKOUT / "manage.py")]
        os.execv(sys.executable, [sys.executable, *argv, *args])  # noqa: S606 - no shell is meant
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "contextgraph.settings")
    import django

    django.setup()
    PLANS[plan](Path(mark))
    sys.argv = [program, *args]
    if program == "celery":
        from celery.__main__ import main as celery

        celery()
    else:
        runpy.run_path(str(CHECKOUT / "manage.py"), run_name="__main__")


if __name__ == "__main__":
    main()
