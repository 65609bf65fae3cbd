"""Pipeline overhead per retrieval: real broker, real worker, a judge that answers in 0 ms and 200 ms.

    python benchmarks/bench_pipeline.py [--rows N] [--json]

Each latency is one run of N retrievals with only the judge signal on. The bound is what no pipeline
can beat: calls x latency / concurrency. Overhead is (measured - bound) / rows. Measured from the
dispatch to the run's final state, on servers of its own in a temporary folder (fsync on).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.stand_ins.judge_server import JudgeServer

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
CONCURRENCY = 8
LATENCIES_MS = (0, 200)


def prepare(root: Path, base_url: str) -> None:
    """Own servers, own settings; must run before Django is set up."""
    from contextgraph import embedded

    os.environ.update(
        CONTEXTGRAPH_STATE_DIR=str(root / ".contextgraph"),
        CONTEXTGRAPH_SIGNALS="judge",
        JUDGE_CACHE="false",
        JUDGE_MODE="per_tip",
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


def make_run(rows: int, name: str) -> int:
    """A run of *rows* retrievals, five tips an attempt, ingested through the product's own door."""
    from contextgraph.ingest import ingest_envelope

    tips = [{"tip": f"{name}-{n}", "text": f"Set option {n} in /etc/app.conf"} for n in range(5)]
    attempts = [
        {
            "rule_id": f"rule-{n}",
            "number": 1,
            "script": f"echo 'option {n} on' >> /etc/app.conf\n",
            "passed": n % 2 == 0,
            "retrievals": [{"tip": tip["tip"], "rank": r} for r, tip in enumerate(tips, start=1)],
        }
        for n in range(rows // 5)
    ]
    header = {"skill": "stig", "external_id": name, "started_at": "2026-01-01T00:00:00Z"}
    envelope = {"schema": "contextgraph.run/1", "run": header, "tips": tips, "attempts": attempts}
    return ingest_envelope(envelope)[0].run_id


def worker(queue: str, threads: int) -> subprocess.Popen[bytes]:
    """A real worker process."""
    return subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "contextgraph", "worker", "-Q", queue, "-P", "threads",
         "-c", str(threads), "-n", f"{queue}@bench", "--loglevel", "ERROR", "--without-gossip",
         "--without-mingle"],
        cwd=CHECKOUT,
    )  # fmt: skip


def wait_for_workers() -> None:
    """Until both answer; start-up is not what is measured."""
    from contextgraph.celery import app

    while len(app.control.ping(timeout=1.0)) < 2:
        time.sleep(0.2)


def measure(rows: int, latency_ms: int, server: JudgeServer) -> dict[str, float]:
    """Seconds from dispatch to final state; calls as the server counted them."""
    from contextgraph import pipeline
    from memory.models import Run

    run_id = make_run(rows, f"bench-{latency_ms}")
    asked = server.counters()["questions"]
    started = time.perf_counter()
    pipeline.dispatch(run_id)
    while Run.objects.values_list("status", flat=True).get(pk=run_id) != "done":
        time.sleep(0.05)
    seconds = time.perf_counter() - started
    calls = server.counters()["questions"] - asked
    bound = calls * latency_ms / 1000 / CONCURRENCY
    return {
        "latency_ms": latency_ms,
        "rows": rows,
        "calls": calls,
        "seconds": round(seconds, 2),
        "bound_s": round(bound, 2),
        "overhead_ms_per_row": round((seconds - bound) / rows * 1000, 2),
    }


def main() -> None:
    """Measure both latencies and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=800, help="retrievals a run, a multiple of 5")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    from tests.stand_ins.judge_server import JudgeServer

    root = Path(tempfile.mkdtemp(prefix="cg-bench-"))
    root.chmod(0o755)
    workers: list[subprocess.Popen[bytes]] = []
    from contextgraph import embedded

    try:
        with JudgeServer() as server:
            prepare(root, server.base_url)
            import django
            from django.core.management import call_command

            django.setup()
            call_command("migrate", verbosity=0)
            workers += [worker("judge", CONCURRENCY), worker("control", 2)]
            wait_for_workers()
            results = []
            for latency in LATENCIES_MS:
                server.control(latency_ms=latency)
                results.append(measure(options.rows, latency, server))
    finally:
        for process in workers:
            process.terminate()
        for process in workers:
            process.wait(timeout=30)
        embedded.remove(root)
        shutil.rmtree(root, ignore_errors=True)
    if options.json:
        print(json.dumps(results))
        return
    print(f"judge with {CONCURRENCY} calls at a time; bound = calls x latency / concurrency")
    for row in results:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
