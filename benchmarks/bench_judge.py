"""The judge's service against the shape that it replaced: one call per retrieval, 8 at a time, no cache.

    python benchmarks/bench_judge.py [RUN_LOG ...] [--sample N] [--threads N] [--json]

Both shapes score the same run in the same process tree, with only the judge signal on: real broker,
real worker processes, real HTTP, a stand-in that takes 200 ms a call and is asked by 8 at a time. The
bound is what no client can beat: calls x latency / concurrency. ``--sample`` judges only that many
retrievals in the old shape and scales its time up (0: all of them). Servers of its own in a temporary
folder, fsync on. Measured from the dispatch to the run's final state. Speed only: which mode judges
better cannot be seen with a stand-in.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
CONCURRENCY = 8
LATENCY_MS = 200
SHAPES = {
    "per_attempt, cache": {"JUDGE_MODE": "per_attempt", "JUDGE_CACHE": "true"},
    "per_tip, no cache": {"JUDGE_MODE": "per_tip", "JUDGE_CACHE": "false"},
}
WANTED_RATIO, WANTED_DISTANCE = 4.0, 0.15


def prepare(root: Path, base_url: str) -> None:
    """Own servers, own settings; must run before Django is set up."""
    from contextgraph import embedded

    os.environ.update(
        CONTEXTGRAPH_STATE_DIR=str(root / ".contextgraph"),
        CONTEXTGRAPH_SIGNALS="judge",
        JUDGE_BASE_URL=base_url,
        JUDGE_MODEL="stand-in-judge",
        JUDGE_CONCURRENCY=str(CONCURRENCY),
        DJANGO_SETTINGS_MODULE="contextgraph.settings",
        CONTEXTGRAPH_LOG_LEVEL="WARNING",
    )
    endpoints = embedded.ensure_started(root)
    os.environ.update(
        DATABASE_URL=endpoints.database_url,
        CELERY_BROKER_URL=endpoints.broker_url,
        CELERY_RESULT_BACKEND=endpoints.result_backend,
    )


class Server:
    """The stand-in in a process of its own."""

    def __init__(self) -> None:
        argv = [
            "-m",
            "tests.stand_ins.judge_server",
            "--print-port",
            "--latency-ms",
            str(LATENCY_MS),
        ]
        self._process = subprocess.Popen(
            [sys.executable, *argv], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.root = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def reset(self) -> None:
        """Count from zero."""
        body = json.dumps({"reset": True}).encode()
        request = urllib.request.Request(f"{self.root}/control", body)  # noqa: S310 - our own address
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310 - our own address

    def counters(self) -> dict[str, int]:
        """What it was asked."""
        with urllib.request.urlopen(f"{self.root}/counters", timeout=10) as reply:  # noqa: S310 - our own address
            found: dict[str, int] = json.load(reply)
        return found

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(timeout=10)


def worker(
    queue: str, threads: int, env: dict[str, str], *, number: int = 1
) -> subprocess.Popen[bytes]:
    """A real worker process."""
    return subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "contextgraph", "worker", "-Q", queue, "-P", "threads",
         "-c", str(threads), "-n", f"{queue}-{number}@bench", "--loglevel", "ERROR", "--without-gossip",
         "--without-mingle"],
        cwd=CHECKOUT, env=os.environ | env, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def processor_s(process: subprocess.Popen[bytes]) -> float:
    """Processor time of a process so far: what is left of the wall time when machines are noisy."""
    used = psutil.Process(process.pid).cpu_times()
    return float(used.user + used.system)


def wait_for_workers(count: int) -> None:
    """Until all answer; start-up is not what is measured."""
    from contextgraph.celery import app

    while len(app.control.ping(timeout=1.0)) < count:
        time.sleep(0.2)


def ingest(paths: list[Path]) -> list[int]:
    """Store the runs of the logs through the product's own door."""
    from contextgraph.ingest import ingest_document

    runs = []
    for path in paths:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with path.open("rb") as stream:
            results = ingest_document(stream, name=path.name, log_sha256=digest, skill="stig")
        runs += [result.run_id for result in results]
    return runs


def start_over(runs: list[int], sample: int) -> int:
    """Forget every verdict; leave *sample* rows to be judged (0: all). Returns how many there are."""
    from django.db import connection

    from memory.models import Retrieval, Run

    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE scoring_judgement, scoring_judgecall, scoring_verdictcache, "
            "scoring_scorebatch, dream_passes"
        )
    # signals that are off would be marked during the measurement; that is not the judge's work
    for reason in ("emb_reason", "trace_reason"):
        Retrieval.objects.filter(run_id__in=runs, **{reason: ""}).update(**{reason: "skipped"})
    rows = Retrieval.objects.filter(run_id__in=runs, shown=True)
    rows.filter(attempt__script__isnull=False, attempt__script_truncated=False).update(
        llm_label="", tip_followed_llm=None, llm_reason="", llm_source="", llm_tries=0,
        llm_retry_at=None, tip_followed_computed_at=None,
    )  # fmt: skip
    Run.objects.filter(pk__in=runs).update(status="ingested", scoring_round=0, done_at=None)
    pending = Retrieval.objects.filter(run_id__in=runs).llm_pending().order_by("pk")
    if sample:
        kept = list(pending.values_list("pk", flat=True)[:sample])
        pending.exclude(pk__in=kept).update(llm_reason="skipped")
    return pending.count()


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """All of them, and wait for it."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(timeout=30)


def measure(
    name: str, runs: list[int], server: Server, *, sample: int, threads: int
) -> dict[str, Any]:
    """Judge the runs in one shape, with as many worker processes as a host has."""
    from contextgraph import pipeline
    from contextgraph.processes import JUDGE_PROCESSES
    from memory.models import Retrieval, Run

    rows = start_over(runs, sample)
    numbers = range(1, JUDGE_PROCESSES + 1)
    judges = [worker("judge", threads, SHAPES[name], number=number) for number in numbers]
    try:
        wait_for_workers(1 + JUDGE_PROCESSES)
        server.reset()
        busy = -sum(map(processor_s, judges))
        started = time.perf_counter()
        for run in runs:
            pipeline.dispatch(run)
        while Run.objects.filter(pk__in=runs).exclude(status="done").exists():
            time.sleep(0.05)
        seconds = time.perf_counter() - started
        busy += sum(map(processor_s, judges))
    finally:
        end(judges)
    counted = server.counters()
    labelled = Retrieval.objects.filter(run_id__in=runs).exclude(llm_label="").count()
    assert labelled == rows, f"{rows - labelled} of {rows} rows have no label"
    bound = counted["questions"] * LATENCY_MS / 1000 / CONCURRENCY
    return {
        "shape": name,
        "rows": rows,
        "calls": counted["questions"],
        "most_at_once": counted["in_flight_max"],
        "seconds": round(seconds, 2),
        "bound_s": round(bound, 2),
        "over_bound": round(seconds / bound - 1, 3),
        "rows_per_s": round(rows / seconds, 1),
        "worker_cpu_ms_a_call": round(1000 * busy / counted["questions"], 1),
    }


def compare(paths: list[Path], *, sample: int, threads: int) -> dict[str, Any]:
    """Both shapes, on servers of their own."""
    from contextgraph import embedded

    root = Path(tempfile.mkdtemp(prefix="cg-bench-"))
    root.chmod(0o755)
    server = Server()
    control: subprocess.Popen[bytes] | None = None
    try:
        prepare(root, f"{server.root}/v1")
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        control = worker("control", 2, {})
        runs = ingest(paths)
        new, old = SHAPES
        results = [
            measure(new, runs, server, sample=0, threads=threads),
            measure(old, runs, server, sample=sample, threads=threads),
        ]
    finally:
        if control is not None:
            control.terminate()
            control.wait(timeout=30)
        server.stop()
        embedded.remove(root)
        shutil.rmtree(root, ignore_errors=True)
    old_seconds = results[1]["seconds"] * results[0]["rows"] / results[1]["rows"]
    return {
        "threads": threads,
        "shapes": results,
        "old_seconds_for_all_rows": round(old_seconds, 1),
        "times_faster": round(old_seconds / results[0]["seconds"], 2),
        "wanted": {"times_faster": WANTED_RATIO, "over_bound": WANTED_DISTANCE},
    }


def main() -> None:
    """Measure and print."""
    from contextgraph.examples import RUN_LOGS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("logs", nargs="*", type=Path, default=RUN_LOGS, metavar="RUN_LOG")
    parser.add_argument("--sample", type=int, default=800, help="rows in the old shape; 0: all")
    parser.add_argument("--threads", type=int, default=CONCURRENCY, help="of each judge worker")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = compare(list(options.logs), sample=options.sample, threads=options.threads)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{LATENCY_MS} ms a call, {CONCURRENCY} at a time; bound = calls x latency / concurrency")
    for row in found["shapes"]:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    print(f"{found['times_faster']} times less wall time (wanted: {WANTED_RATIO})")


if __name__ == "__main__":
    main()
