"""A whole system on servers of its own: database, queues, the product's processes, a judge stand-in.

Guarantees: the commands are those of ``contextgraph.processes``, with only pool, concurrency and log
level changed; times are short (a lease of 3 s, a sweep every second), by environment alone; every
process that was started is ended, and when a test fails their logs are printed. What a test sees of
the product it reads from the tables or measures at the judge.

One system serves many tests: what is not killed lives on, as in production. After a test that failed
it is thrown away with its database.
Shaped by harnesses so slow that nobody ran them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from celery import Celery
from psycopg import sql
from psycopg.rows import dict_row

from contextgraph.client import RunPublisher
from contextgraph.processes import specs
from tests.faults.programs import Program, wait_until
from tests.faults.runs import FaultRun, fault_run
from tests.faults.saboteur import CHECKOUT
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.faults.servers import EmbeddedServers

FAST = {
    "CONTEXTGRAPH_SCORE_LEASE_S": "3",
    "CONTEXTGRAPH_REDISPATCH_AFTER_S": "3",
    "CONTEXTGRAPH_REAP_EVERY_S": "1",
    "CONTEXTGRAPH_VISIBILITY_TIMEOUT_S": "20",
    "CONTEXTGRAPH_TASK_TIME_LIMIT_S": "15",
    "JUDGE_MODEL": "stand-in-judge",
    "JUDGE_READ_TIMEOUT_S": "1.5",
    "JUDGE_DEADLINE_S": "2",
    "JUDGE_HTTP_TRIES": "1",
    "JUDGE_RETRY_AFTER_S": "2",
    "JUDGE_MAX_TRIES": "8",
    "JUDGE_CACHE": "false",  # the runs all have the same texts: nothing would be asked after the first
}
JUDGE_LATENCY_MS = 700
"""With two at a time a run of five attempts takes more than two seconds: time to strike."""

STANDING = ("consumer", "control", "signals", "scheduler")
"""Processes that live as long as the system, unless a test ends them."""

OWN_SETTINGS = ("JUDGE_", "CELERY_", "CONTEXTGRAPH_", "DATABASE_URL", "DJANGO_")


class System:
    """Use as a context manager; starts nothing but the judge by itself."""

    def __init__(self, servers: EmbeddedServers, *, database: str) -> None:
        self.servers = servers
        self.folder = Path(tempfile.mkdtemp(prefix="cg-faults-logs-"))
        self.programs: dict[str, Program] = {}
        self._restarts: dict[str, Callable[[], Program]] = {}
        self.judge = JudgeServer(latency_ms=JUDGE_LATENCY_MS)
        self.finished: list[tuple[FaultRun, int]] = []
        self.database_url = _clone(servers.template_url, database)
        self.sender = Celery("sender", set_as_current=False)

    def __enter__(self) -> System:
        self.judge.__enter__()
        self.servers.wipe_broker()
        self.servers.wipe_results()
        return self

    def __exit__(self, *_: object) -> None:
        for program in self.programs.values():
            program.kill()
        self.sender.close()
        self.judge.__exit__()

    # --- Processes --------------------------------------------------------------------------------

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """What the processes get: nothing of the caller's own settings but the rest."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(OWN_SETTINGS)}
        return {
            **inherited,
            **FAST,
            "CONTEXTGRAPH_STATE_DIR": str(self.folder / "state"),
            "CONTEXTGRAPH_INTAKE_QUEUE": self.servers.intake_queue,
            "PYTHONUNBUFFERED": "1",
            "DATABASE_URL": self.database_url,
            "CELERY_BROKER_URL": self.servers.broker_url,
            "CELERY_RESULT_BACKEND": self.servers.result_backend,
            "JUDGE_BASE_URL": self.judge.base_url,
            **(extra or {}),
        }

    def start(
        self,
        name: str,
        *,
        plan: str = "none",
        pool: str = "threads",
        env: Mapping[str, str] | None = None,
        label: str = "",
        wait: bool = True,
    ) -> Program:
        """Start (again) the process that ``make up`` calls *name*, as *label* if there are two."""
        key = label or name
        if key in self.programs:
            self.programs[key].kill()
        argv = _argv(name, pool=pool)
        program = Program(key, argv, env=self.environment(env), folder=self.folder, plan=plan)
        self.programs[key] = program
        self._restarts[key] = partial(self.start, name, pool=pool, env=env, label=label, wait=False)
        if wait and name in {"control", "signals", "judge"}:
            program.wait_for_line(" ready.")
        return program

    def start_standing(self) -> None:
        """Start what does not run of the standing processes, all at once."""
        wanted = [name for name in STANDING if not self.is_running(name)]
        for name in wanted:
            self.start(name, wait=False)
        for name in {"control", "signals"} & set(wanted):
            self.programs[name].wait_for_line(" ready.")

    def is_running(self, name: str) -> bool:
        """True if the product's own program runs under this name."""
        program = self.programs.get(name)
        return program is not None and not program.exited() and program.mark.suffix == ".none"

    def tend(self) -> None:
        """Restart what ended by itself, as `make up` and docker do. A planned victim stays dead.

        kombu 5.7 ends a worker ("Unrecoverable error") when Redis goes away amid an acknowledgement.
        """
        for name, program in list(self.programs.items()):
            if program.mark.suffix == ".none" and program.died():
                sys.stdout.write(f"{name} ended by itself and is restarted:\n{program.tail(800)}\n")
                self._restarts[name]()

    def end(self, *names: str) -> None:
        """SIGKILL whole groups."""
        for name in names:
            self.programs.pop(name).kill()

    def manage(self, *argv: str) -> str:
        """Run a command to its end; its output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *argv],
            cwd=CHECKOUT, env=self.environment(), capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def logs(self) -> str:
        """The ends of all logs."""
        found = sorted(self.folder.glob("*.log"))
        return "\n".join(f"=== {log.name}\n{log.read_text()[-6000:]}" for log in found)

    # --- Messages ---------------------------------------------------------------------------------

    def post(self, run: FaultRun | None = None, *, times: int = 1) -> FaultRun:
        """Post a run to the intake queue."""
        run = run or fault_run()
        broker, queue = self.servers.broker_url, self.servers.intake_queue
        with RunPublisher(broker, queue=queue) as publisher:
            for _ in range(times):
                publisher.post(run.envelope)
        return run

    def post_and_wait_until_half_judged(self) -> FaultRun:
        """Post a run and return while a part of it is judged and a part is not.

        On a machine so busy that the moment was missed, another run is posted.
        """
        for _ in range(3):
            run = self.post()
            what = f"4 judged rows of {run.external_id}"
            self.wait_for(partial(self._has_labels, run, 4), within=40, what=what)
            if self.labelled(run) < run.judgeable - 4:
                return run
        raise AssertionError("too late three times: nearly all rows were judged at once")

    def send(self, task: str, *ids: int) -> None:
        """Send a task of the product by name, as a stray or repeated message."""
        queue = "control" if task.startswith("contextgraph.") else task.split(".")[1].split("_")[0]
        # the address is given here because CELERY_BROKER_URL, set for the test run, outranks the app's
        with self.sender.connection_for_write(self.servers.broker_url) as link:
            for number in ids:
                self.sender.send_task(
                    task, args=[number], queue=queue, connection=link, ignore_result=True
                )

    # --- Rows -------------------------------------------------------------------------------------

    def query(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Rows of the system's database, each as a dictionary."""
        with psycopg.connect(self.database_url, autocommit=True, row_factory=dict_row) as link:
            return link.execute(statement, values).fetchall()  # type: ignore[arg-type]

    def run_id(self, run: FaultRun) -> int | None:
        """Primary key, None while the run is not stored."""
        found = self.query("SELECT id FROM runs WHERE external_id = %s", run.external_id)
        return found[0]["id"] if found else None

    def status(self, run: FaultRun) -> str:
        """Of the run; empty while it is not stored."""
        found = self.query("SELECT status FROM runs WHERE external_id = %s", run.external_id)
        return found[0]["status"] if found else ""

    def labelled(self, run: FaultRun) -> int:
        """Rows of the run that the judge has answered."""
        statement = """
            SELECT count(*) AS n FROM tip_retrievals JOIN runs ON runs.id = run_id
            WHERE external_id = %s AND tip_followed_llm IS NOT NULL"""
        return int(self.query(statement, run.external_id)[0]["n"])

    def _has_labels(self, run: FaultRun, number: int) -> bool:
        return self.labelled(run) >= number

    def reasons(self, run: FaultRun) -> set[str]:
        """Why rows of the run have no label, the structural reasons left out."""
        statement = """
            SELECT DISTINCT llm_reason FROM tip_retrievals WHERE run_id = %s
            AND tip_followed_llm IS NULL AND llm_reason NOT IN ('not_shown', 'no_script')"""
        return {row["llm_reason"] for row in self.query(statement, self.run_id(run))}

    def batch_ids(self, run: FaultRun, signal: str) -> list[int]:
        """Score batches of the run's rounds for one signal."""
        statement = "SELECT id FROM scoring_scorebatch WHERE run_id = %s AND signal = %s"
        return [row["id"] for row in self.query(statement, self.run_id(run), signal)]

    def wait_for(self, condition: Any, *, what: str, within: float = 60.0) -> float:
        """Wait for rows, tending the processes meanwhile; a database that is away is waited for too.

        Returns the seconds it took.
        """
        start = time.monotonic()

        def holds() -> bool:
            self.tend()
            with contextlib.suppress(psycopg.OperationalError):
                return bool(condition())
            return False

        wait_until(holds, within=within, what=what)
        return time.monotonic() - start


def _argv(name: str, *, pool: str) -> Sequence[str]:
    """The product's own command line, made to talk more and to judge two rows at a time."""
    spec = next(spec for spec in specs(web_port=None) if spec.name == name)
    program = "celery" if "celery" in spec.argv else "manage"
    start = spec.argv.index("celery") + 1 if program == "celery" else 2
    argv = list(spec.argv[start:])
    if "worker" in argv:
        argv[argv.index("--loglevel") + 1] = "INFO"
        argv[argv.index("-P") + 1] = pool
    if name == "judge":
        argv[argv.index("-c") + 1] = "2"
    return [program, *argv]


def _clone(template_url: str, database: str) -> str:
    """Make a database from the migrated one; its URL."""
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE contextgraph").format(sql.Identifier(database))
    maintenance = template_url.replace("/contextgraph?", "/postgres?")
    with psycopg.connect(maintenance, autocommit=True) as link:
        link.execute(statement)
    return template_url.replace("/contextgraph?", f"/{database}?")


def migrate(servers: EmbeddedServers) -> None:
    """Make the template; once per session."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(OWN_SETTINGS)}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=CHECKOUT,
        env=inherited
        | {
            "CONTEXTGRAPH_STATE_DIR": str(servers.root / "migrate"),
            "DATABASE_URL": servers.template_url,
            "CELERY_BROKER_URL": servers.broker_url,
            "CELERY_RESULT_BACKEND": servers.result_backend,
        },
        check=True,
        timeout=60,
    )
