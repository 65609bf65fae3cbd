"""Ingest: rows per second and peak memory, for a run log and for one several times as long.

    python benchmarks/bench_ingest.py [RUN_LOG.jsonl] [--copies N] [--json]

Guarantees: each figure is one process that ingests one document through the product's own door, on a
Postgres of its own in a temporary folder, with fsync on. The long log is the first one repeated under
other run ids, so memory that grows with the document would show. ``baseline`` is the same process
before it reads anything.

Does not measure the queue: decoding and reassembly of messages are not in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
EXAMPLE = CHECKOUT / "contextgraph" / "examples" / "harbor-run-01.jsonl"
sys.path.insert(0, str(CHECKOUT))


def peak_mib() -> float:
    """Highest resident size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would start at what the parent had reached before it forked
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024  # macOS: bytes


def ingest(path: Path) -> dict[str, Any]:
    """Ingest one document in this process and measure it."""
    import django

    django.setup()
    from django.db import connection

    from contextgraph.ingest import ingest_document

    connection.ensure_connection()
    baseline = peak_mib()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        started = time.perf_counter()
        results = ingest_document(file, name=path.name, log_sha256=digest)
        seconds = time.perf_counter() - started
    retrievals = sum(result.retrievals for result in results)
    return {
        "bytes": path.stat().st_size,
        "runs": len(results),
        "retrievals": retrievals,
        "seconds": round(seconds, 2),
        "retrievals_per_s": round(retrievals / seconds),
        "baseline_mib": round(baseline, 1),
        "peak_mib": round(peak_mib(), 1),
    }


def repeated(path: Path, target: Path, copies: int) -> Path:
    """The runs of *path*, *copies* times, each time under other run ids."""
    with target.open("wb") as out:
        for copy in range(copies):
            with path.open("rb") as lines:
                for line in lines:
                    if b'"run_start"' in line or b'"consolidation_complete"' in line:
                        event = json.loads(line)
                        run_id = event["data"].get("run_id")
                        if run_id is not None:
                            event["data"]["run_id"] = f"{run_id}-copy-{copy}"
                        line = json.dumps(event).encode() + b"\n"
                    out.write(line)
    return target


def in_a_process_of_its_own(path: Path) -> dict[str, Any]:
    """Figures of one document, with a fresh process's memory."""
    done = subprocess.run(
        [sys.executable, __file__, str(path), "--child"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def prepare(root: Path) -> None:
    """Own servers; every child inherits where they are."""
    from contextgraph import embedded

    root.chmod(0o755)  # traversable, so that the server account of a root run can work in place
    os.environ.update(
        CONTEXTGRAPH_STATE_DIR=str(root / ".contextgraph"),
        DJANGO_SETTINGS_MODULE="contextgraph.settings",
        CONTEXTGRAPH_LOG_LEVEL="WARNING",
    )
    endpoints = embedded.ensure_started(root)
    os.environ.update(
        DATABASE_URL=endpoints.database_url,
        CELERY_BROKER_URL=endpoints.broker_url,
        CELERY_RESULT_BACKEND=endpoints.result_backend,
    )
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def measure(log: Path, copies: int) -> dict[str, Any]:
    """Both documents on one fresh database."""
    from contextgraph import embedded

    root = Path(tempfile.mkdtemp(prefix="cg-bench-"))
    try:
        prepare(root)
        once = in_a_process_of_its_own(log)
        long = repeated(log, root / "long.jsonl", copies)
        return {"log": log.name, "once": once, f"x{copies}": in_a_process_of_its_own(long)}
    finally:
        embedded.remove(root)
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Ingest: rows per second and peak memory.")
    parser.add_argument("log", nargs="?", type=Path, default=EXAMPLE)
    parser.add_argument("--copies", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(ingest(options.log)))
        return
    found = measure(options.log.resolve(), options.copies)
    if options.json:
        print(json.dumps(found))
        return
    print(f"ingest of {found.pop('log')}")
    for name, figures in found.items():
        grown = figures["peak_mib"] - figures["baseline_mib"]
        print(
            f"  {name:>5}: {figures['bytes'] / 1e6:7.1f} MB, {figures['retrievals']:6,} retrievals in"
            f" {figures['seconds']:6.2f} s = {figures['retrievals_per_s']:,}/s;"
            f" peak {figures['peak_mib']:.0f} MiB ({grown:+.0f} over the idle process)"
        )


if __name__ == "__main__":
    main()
