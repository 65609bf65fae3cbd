"""What the memory costs as it grows: retrieving, sweeping, dreaming, on a history of realistic shape.

    python benchmarks/bench_memory.py [--sizes 10000,100000,1000000] [--explain] [--json]

Three parts, each in a file of its own: ``memory_retrieve`` (rank, log and commit; at every size),
``memory_sweep`` (preview, apply, undo over 20,000 tips) and ``memory_dream`` (the pass of a run of
7,405 retrievals), the last two at the largest size. The rows are made by ``history``, the database is
one of its own in a temporary folder (fsync on) and is removed afterwards; a size for which the disk has
no room is left out, and that is said. A million rows take minutes to make; ``--root`` keeps them.

Targets (issue 4): retrieve and log below 50 ms at p95 with 1,000,000 rows, a dream pass below 10 s.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from benchmarks import history, memory_dream, memory_retrieve, memory_sweep, scratch  # noqa: E402

PARTS = ("retrieve", "sweep", "dream")
ROW_BYTES = 2_500
"""Of the database for one more retrieval, with its attempt, evidence, indexes and share of the log."""
LEAVE_FREE = 10 * 2**30


def grow(rows: int, root: Path) -> dict[str, Any]:
    """Make the history *rows* long; what that took, or why it was left."""
    need = max(rows - history.size(), 0) * ROW_BYTES + LEAVE_FREE
    free = scratch.disk(root)["free"]
    if need > free:
        return {"left_out": f"needs {need / 2**30:.0f} GiB of disk, {free / 2**30:.0f} are free"}
    seconds, added = scratch.timed(history.grow, rows, scratch.progress)
    found = {"rows_added": added, "rows_made_s": round(seconds, 1)}
    if added:  # else it was counted by the benchmark that made them
        counted, _ = scratch.timed(history.count_evidence, scratch.progress)
        found["all_evidence_counted_s"] = round(counted, 1)
    return found | {"database_mb": round(scratch.disk(root)["used"] / 1e6)}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for."""
    found: dict[str, Any] = {}
    how = {"explain": options.explain, "say": scratch.progress}
    with scratch.database(options.root, keep=options.root is not None) as root:
        found["machine"] = scratch.machine()
        history.prepare()
        memory_sweep.give_all_back()
        for rows in options.sizes:
            size = found[f"{rows:,} rows"] = grow(rows, root)
            if "left_out" not in size and "retrieve" in options.parts:
                size["retrieve"] = memory_retrieve.part(options.requests, **how)
        if "sweep" in options.parts:
            found["sweep"] = memory_sweep.part(options.repeats, **how)
        if "dream" in options.parts:
            found["dream"] = memory_dream.part(options.repeats, **how)
    return found


def show(found: Any, depth: int = 0) -> None:
    """As indented lines; what holds plain values only is one line."""
    for name, value in found.items():
        if isinstance(value, dict) and any(isinstance(one, dict) for one in value.values()):
            print(f"{'  ' * depth}{name}")
            show(value, depth + 1)
        elif isinstance(value, dict):
            print(f"{'  ' * depth}{name:<24}" + "  ".join(f"{k} {v}" for k, v in value.items()))
        else:
            print(f"{'  ' * depth}{name:<24}{value}")


def numbers(text: str) -> list[int]:
    """``10000,100000`` -> [10000, 100000]."""
    return sorted(int(part) for part in text.split(","))


def parts(text: str) -> list[str]:
    """``sweep,dream`` -> ["sweep", "dream"]. Raises ValueError for an unknown one."""
    found = text.split(",")
    if not set(found) <= set(PARTS):
        msg = f"there are {', '.join(PARTS)}"
        raise ValueError(msg)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=numbers, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--parts", type=parts, default=list(PARTS), help=",".join(PARTS))
    parser.add_argument("--requests", type=int, default=300, help="retrieve calls per figure")
    parser.add_argument("--repeats", type=int, default=5, help="sweeps and passes per figure")
    parser.add_argument("--root", type=Path, help="keep the database here and go on with it")
    parser.add_argument("--explain", action="store_true", help="print the plan of every statement")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options)
    if options.json:
        print(json.dumps(found))
        return
    show(found)


if __name__ == "__main__":
    main()
