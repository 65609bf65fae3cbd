"""All benchmarks, one after the other (`make bench`): ingest, embedding, pipeline, judge,
memory (which makes a million rows first).

    RUN_LOG=path/to/run.jsonl python benchmarks/run_all.py

Each is a script of its own with `--help`, `--json` and more options. Figures are of this machine, now;
ratios come from one process each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = (
    ("bench_ingest.py", True),
    ("bench_embedding.py", True),
    ("bench_pipeline.py", False),
    ("bench_judge.py", True),
    ("bench_memory.py", False),
)


def main() -> None:
    """Run each; stop at the first that fails."""
    log = os.environ.get("RUN_LOG", "")
    for name, takes_log in SCRIPTS:
        print(f"== {name}", flush=True)
        command = [sys.executable, str(HERE / name), *([log] if log and takes_log else [])]
        done = subprocess.run(command, check=False)
        if done.returncode:
            sys.exit(f"{name} failed with exit code {done.returncode}")


if __name__ == "__main__":
    main()
