"""What the benchmarks of the memory share: servers of their own, clocks, percentiles, query plans.

Guarantees: a benchmark works on a Postgres of its own (fsync on, settings of the embedded pair), never on
the data of the checkout; servers and folder are gone afterwards, unless a folder was named. A yardstick
(the same driver, one row, one commit) is measured between the calls, so that a figure can also be read
as a ratio that a busy machine changes less.

Does not make rows: see ``history.py``.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CHECKOUT = Path(__file__).resolve().parent.parent


@contextmanager
def database(root: Path | None, *, keep: bool = False) -> Iterator[Path]:
    """A migrated database of its own below *root* (None: a temporary folder); Django is set up.

    Call it once per process. *keep*: leave the data, so that the next benchmark goes on with it.
    """
    from contextgraph import embedded

    place = root or Path(tempfile.mkdtemp(prefix="cg-bench-"))
    place.mkdir(exist_ok=True)
    place.chmod(0o755)  # traversable, so that the server account of a root run can work in place
    alone = False
    try:
        _set_up(place)
        _refuse_company()
        alone = True
        yield place
    finally:
        if not keep:
            embedded.remove(place)
            if root is None:
                shutil.rmtree(place, ignore_errors=True)
        elif alone:  # else the servers are in use
            embedded.stop(place)


def _set_up(place: Path) -> None:
    from contextgraph import embedded

    os.environ.update(
        CONTEXTGRAPH_STATE_DIR=str(place / ".contextgraph"),
        DJANGO_SETTINGS_MODULE="contextgraph.settings",
        CONTEXTGRAPH_LOG_LEVEL="WARNING",
    )
    endpoints = embedded.ensure_started(place)
    os.environ.update(
        DATABASE_URL=endpoints.database_url,
        CELERY_BROKER_URL=endpoints.broker_url,
        CELERY_RESULT_BACKEND=endpoints.result_backend,
    )
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def _refuse_company() -> None:
    """Two benchmarks on one database would measure, and sweep away, each other. Ends with the session."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtext('benchmark'))")
        if not cursor.fetchone()[0]:
            sys.exit(
                "another benchmark is at work on this database: wait for it, or name another --root"
            )


# --- The machine ----------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the figures hang on."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version'), current_setting('shared_buffers'),"
            " current_setting('fsync')"
        )
        version, buffers, fsync = cursor.fetchone()
    return {
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        "postgres": version,
        "shared_buffers": buffers,
        "fsync": fsync,
    }


def _cpu() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def load() -> float:
    """Processes that wanted to run, on average over the last minute."""
    return round(os.getloadavg()[0], 1)


def disk(place: Path) -> dict[str, int]:
    """Bytes of the database, and bytes free where it lies."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return {"used": cursor.fetchone()[0], "free": shutil.disk_usage(place).free}


# --- Times ----------------------------------------------------------------------------------------


def timed(work: Callable[..., Any], *args: Any, **named: Any) -> tuple[float, Any]:
    """Seconds that *work* took, and what it returned."""
    began = time.perf_counter()
    found = work(*args, **named)
    return time.perf_counter() - began, found


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Percentiles of some hundred measurements, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {
        "n": len(seconds),
        "p50_ms": round(cuts[49] * 1000, 2),
        "p95_ms": round(cuts[94] * 1000, 2),
        "p99_ms": round(cuts[98] * 1000, 2),
        "max_ms": round(max(seconds) * 1000, 2),
    }


def few(seconds: Sequence[float]) -> dict[str, float]:
    """Of a handful of measurements: the median, and the ends; in seconds."""
    return {
        "n": len(seconds),
        "median_s": round(statistics.median(seconds), 3),
        "min_s": round(min(seconds), 3),
        "max_s": round(max(seconds), 3),
    }


class Yardstick:
    """One row and one commit by the same driver: what no store of anything can be faster than."""

    def __init__(self) -> None:
        from django.db import connection

        self.seconds: list[float] = []
        self._connection = connection
        self._run("CREATE TABLE IF NOT EXISTS bench_yardstick (n bigint)")

    def measure(self) -> None:
        """Once."""
        self.seconds.append(timed(self._run, "INSERT INTO bench_yardstick VALUES (1)")[0])

    def _run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)


class Processor:
    """Processor time of this process and of its database session: what is left when others wait less.

    On a machine that is busy with other things it says more than the clock. Of servers elsewhere only
    this process's part is known.
    """

    def __init__(self) -> None:
        import psutil
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        self._python, self._session = psutil.Process(), psutil.Process(pid)
        self._start = self._seconds()

    def used(self) -> tuple[float, float]:
        """Seconds since the last call or the beginning: (python, database)."""
        before, self._start = self._start, self._seconds()
        return self._start[0] - before[0], self._start[1] - before[1]

    def _seconds(self) -> tuple[float, float]:
        times = (self._python.cpu_times(), self._session.cpu_times())
        return times[0].user + times[0].system, times[1].user + times[1].system


# --- Statements -----------------------------------------------------------------------------------


class Statements:
    """What is executed inside the block, in its order; with *explain* each with its plan.

    A plan is made by executing the statement, inside a savepoint that is rolled back: the block has to
    be inside a transaction then.
    """

    KINDS = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "(")

    def __init__(self, *, explain: bool = False) -> None:
        self.executed: list[str] = []
        self.plans: list[tuple[float, str, str]] = []
        self._explain = explain
        self._inside = False

    @contextmanager
    def watched(self) -> Iterator[Statements]:
        """Watch what the block executes."""
        from django.db import connection

        with connection.execute_wrapper(self._executed):
            yield self

    def _executed(self, execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if self._inside:
            return execute(sql, params, many, context)
        self.executed.append(sql)
        if self._explain and sql.lstrip().upper().startswith(self.KINDS):
            self._inside = True
            try:
                self._plan(sql, params, context["connection"])
            finally:
                self._inside = False
        return execute(sql, params, many, context)

    def _plan(self, sql: str, params: Any, connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SAVEPOINT bench_plan")
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {sql}", params)
            lines = [line for (line,) in cursor.fetchall()]
            cursor.execute("ROLLBACK TO SAVEPOINT bench_plan")
        took = next((line for line in lines if line.startswith("Execution Time")), "0 0 0")
        self.plans.append((float(took.split()[2]), sql, "\n".join(lines)))

    def print_plans(self, title: str) -> None:
        """The plans, slowest first, with the beginning of their statements."""
        for milliseconds, sql, plan in sorted(self.plans, reverse=True):
            print(f"-- {title}: {milliseconds:.2f} ms: {' '.join(sql.split())[:160]}")
            print(plan, end="\n\n")


def progress(text: str) -> None:
    """A word to whoever waits."""
    print(text, file=sys.stderr, flush=True)
