#!/usr/bin/env python
"""Embedding of a run's (tip, script) pairs: our encoder against a plain loop over the pairs.

Guarantees: both sides run in this process, in turns, with the same number of threads and no cache
from an earlier turn; the plain side is sentence-transformers itself, one `encode([tip, script])`
a pair. Figures are medians. What was computed from them and not measured is marked as such.

Does not guarantee that a ratio carries over to another run: nearly all of it is repetition of
texts, which is printed beside it, and the rest is batching.

Shaped by: a speed-up measured once on distinct texts and promised for runs in which every tip
comes back fifty times, and the other way round.

    python benchmarks/bench_embedding.py RUN_LOG.jsonl [--pairs N] [--repeats R] [--whole] [--json]
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from scoring.embedding import (  # noqa: E402 -- a script finds its project first
    CHUNK_TOKENS,
    MAX_TOKENS,
    Encoder,
    load_encoder,
)
from scoring.vectors import cosine, cosine_max_chunk  # noqa: E402 -- as above
from scoring.weights import model_directory  # noqa: E402 -- as above

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BLOCKS = 10


class Pair(NamedTuple):
    tip: str
    script: str


def attempts_of(log: Path) -> Iterator[list[Pair]]:
    """Pairs of each attempt that has a script, in the order of the log."""
    tips: dict[object, str] = {}
    shown: list[str] = []
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
                kind, data = event["event_type"], event["data"]
            except (ValueError, KeyError, TypeError):
                continue  # a benchmark wants pairs; counting hazards is the reader's work
            if kind == "tip_added":
                tips[data.get("tip_id")] = data.get("text") or ""
            elif kind == "prompt_assembled" and data.get("phase") == "apply_fix":
                loaded = data.get("v2_tips_loaded") or []
                texts = [tip.get("text") or tips.get(tip.get("tip_id"), "") for tip in loaded]
                shown = [text for text in texts if text.strip()]
            elif kind == "tool_call":
                script = (data.get("args") or {}).get("fix_script")
                if isinstance(script, str) and script.strip() and shown:
                    yield [Pair(tip, script) for tip in shown]
                    shown = []


def sample_of(attempts: Sequence[list[Pair]], wanted: int) -> list[Pair]:
    """About `wanted` pairs: whole neighbouring attempts from evenly spaced places of the run.

    Neighbours, because the repetition inside an attempt and its retries is part of the subject.
    """
    total = sum(map(len, attempts))
    if wanted <= 0 or wanted >= total:
        return [pair for attempt in attempts for pair in attempt]
    per_block = max(1, math.ceil(wanted / BLOCKS / (total / len(attempts))))
    stride = len(attempts) / BLOCKS
    picked = dict.fromkeys(
        int(block * stride) + step for block in range(BLOCKS) for step in range(per_block)
    )
    chosen = [pair for index in picked if index < len(attempts) for pair in attempts[index]]
    return chosen[:wanted]


def our_cosines(encoder: Encoder, pairs: Sequence[Pair]) -> list[float]:
    """Both columns of the product are computed; the reference-compatible one is returned."""
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    vectors = dict(zip(texts, encoder.encode(texts), strict=True))
    for tip, script in pairs:
        cosine_max_chunk(vectors[tip], vectors[script])
    return [cosine(vectors[tip], vectors[script]) for tip, script in pairs]


def plain_cosines(model: Any, pairs: Sequence[Pair]) -> list[float]:
    results = []
    for pair in pairs:
        tip, script = model.encode(
            list(pair), normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
        )
        results.append(float(tip @ script))
    return results


def text_costs(model: Any, attempts: Sequence[list[Pair]]) -> dict[str, int]:
    """Number of tokens, special ones included, of each distinct text of the run."""
    texts = list(dict.fromkeys(text for attempt in attempts for pair in attempt for text in pair))
    tokenizer = model.tokenizer.backend_tokenizer
    tokenizer.no_truncation()  # sets it back on its next encode()
    tokenizer.no_padding()
    return {
        text: len(tokens.ids)
        for text, tokens in zip(texts, tokenizer.encode_batch(texts), strict=True)
    }


def plain_tokens(pairs: Sequence[Pair], costs: dict[str, int]) -> int:
    return sum(min(costs[text], MAX_TOKENS) for pair in pairs for text in pair)


def our_tokens(pairs: Sequence[Pair], costs: dict[str, int]) -> int:
    """Heads once, and the chunks of what is longer; chunks are counted as if they were full."""
    total = 0
    for text in {text for pair in pairs for text in pair}:
        tokens = costs[text]
        total += min(tokens, MAX_TOKENS)
        if tokens > MAX_TOKENS:
            total += tokens + 2 * math.ceil(tokens / CHUNK_TOKENS)
    return total


def load_reference() -> Any:
    importlib.import_module("transformers").utils.logging.disable_progress_bar()
    return importlib.import_module("sentence_transformers").SentenceTransformer(
        str(model_directory()), device="cpu", local_files_only=True
    )


def measure_sample(
    encoder: Encoder, model: Any, sample: Sequence[Pair], *, repeats: int, plain_cost: int
) -> dict[str, Any]:
    """Both sides in turns. `plain_cost`: tokens that the plain side reads in one turn."""
    our_cosines(encoder, sample[:5])  # the first pass of either side pays for allocations
    plain_cosines(model, sample[:5])
    ours, plain, apart = [], [], 0.0
    before = encoder.work.tokens
    for _ in range(repeats):
        begun = time.perf_counter()
        our_values = our_cosines(encoder, sample)
        between = time.perf_counter()
        plain_values = plain_cosines(model, sample)
        plain.append(time.perf_counter() - between)
        ours.append(between - begun)
        apart = max(apart, *(abs(a - b) for a, b in zip(our_values, plain_values, strict=True)))
    our_cost = (encoder.work.tokens - before) // repeats
    return {
        "threads": encoder.threads,
        "repeats": repeats,
        "pairs": len(sample),
        "texts": 2 * len(sample),
        "distinct_texts": len({text for pair in sample for text in pair}),
        "ours": figures(len(sample), our_cost, statistics.median(ours)),
        "plain": figures(len(sample), plain_cost, statistics.median(plain)),
        "ratio": statistics.median(plain) / statistics.median(ours),
        "ratio_spread": sorted(b / a for a, b in zip(ours, plain, strict=True)),
        "max_abs_difference_of_cosines": apart,
    }


def measure(
    attempts: Sequence[list[Pair]], *, wanted: int, repeats: int, whole: bool
) -> dict[str, Any]:
    encoder, model = load_encoder(), load_reference()
    run = [pair for attempt in attempts for pair in attempt]
    sample = sample_of(attempts, wanted)
    costs = text_costs(model, attempts)
    report = measure_sample(
        encoder, model, sample, repeats=repeats, plain_cost=plain_tokens(sample, costs)
    )
    report["run"] = {
        "pairs": len(run),
        "texts": 2 * len(run),
        "distinct_texts": len(costs),
        "truncated_texts": sum(tokens > MAX_TOKENS for tokens in costs.values()),
    }
    plain_seconds = plain_tokens(run, costs) / report["plain"]["tokens_per_second"]
    our_seconds = our_tokens(run, costs) / report["ours"]["tokens_per_second"]
    if whole:
        begun = time.perf_counter()
        our_cosines(encoder, run)
        our_seconds = time.perf_counter() - begun
    report["whole_run"] = {
        "ours_seconds": our_seconds,
        "ours_is": "measured once" if whole else "extrapolated",
        "plain_seconds": plain_seconds,
        "plain_is": "extrapolated",
        "ratio": plain_seconds / our_seconds,
    }
    return report


def figures(pairs: int, tokens: int, elapsed: float) -> dict[str, float]:
    return {
        "seconds": elapsed,
        "tokens": tokens,
        "pairs_per_second": pairs / elapsed,
        "tokens_per_second": tokens / elapsed,
    }


def in_words(report: dict[str, Any]) -> str:
    run, whole = report["run"], report["whole_run"]
    lines = [
        f"run: {run['pairs']:,} pairs, {run['texts']:,} texts of which {run['distinct_texts']:,} "
        f"distinct ({run['truncated_texts']:,} longer than {MAX_TOKENS} tokens)",
        f"sample: {report['pairs']} pairs, {report['texts']} texts of which "
        f"{report['distinct_texts']} distinct; median of {report['repeats']} turns, "
        f"{report['threads']} thread(s)",
        f"{'':26}{'s':>8}{'pairs/s':>10}{'tokens/s':>10}{'tokens':>10}",
    ]
    for side, name in (("ours", "ours, cosine and chunks"), ("plain", "plain, pair by pair")):
        row = report[side]
        lines.append(
            f"{name:26}{row['seconds']:8.2f}{row['pairs_per_second']:10.1f}"
            f"{row['tokens_per_second']:10,.0f}{row['tokens']:10,}"
        )
    spread = report["ratio_spread"]
    lines += [
        f"ratio, measured on the sample: {report['ratio']:.1f}x "
        f"(single turns {spread[0]:.1f} to {spread[-1]:.1f})",
        f"largest difference of a cosine: {report['max_abs_difference_of_cosines']:.1e}",
        f"whole run: ours {whole['ours_seconds']:,.0f} s ({whole['ours_is']}), "
        f"plain {whole['plain_seconds']:,.0f} s ({whole['plain_is']} from tokens/s of the "
        f"sample), ratio {whole['ratio']:.1f}x",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", nargs="*", type=Path, help="event logs; default: the examples")
    parser.add_argument("--pairs", type=int, default=150, help="size of the sample; 0: the run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="also run ours on the whole run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logs = options.log or sorted((PROJECT / "contextgraph" / "examples").glob("*.jsonl"))
    attempts = [attempt for log in logs for attempt in attempts_of(log)]
    if not attempts:
        parser.error("no (tip, script) pairs: name an event log that holds tips and scripts")
    report = measure(attempts, wanted=options.pairs, repeats=options.repeats, whole=options.whole)
    report["logs"] = [log.name for log in logs]
    print(json.dumps(report, indent=2) if options.json else in_words(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
