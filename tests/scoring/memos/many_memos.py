"""Counts lies that pass and true memos that are refused, over as many generated memos as are asked for.

    python -m tests.scoring.memos.many_memos 10000 [FIRST SEED]

The suite does the same with fewer. Exits 1 if there is one of either.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from random import Random

from scoring.memos.facts import Snapshot
from scoring.memos.gate import check
from tests.scoring.memos import generated, generated_lies
from tests.scoring.memos.generated_change_lies import CHANGE_LIES


def true_refused(seed: int) -> str:
    """Return what the gate says against the true memo of ``seed``, "" if it passes."""
    rng = Random(seed)
    given = generated.snapshot(rng)
    text = generated.text_of(generated.memo(rng, given))
    if direction := generated.true_direction(rng, given):
        text += f"\n\n{direction}"
    report = check(text, given)
    if not report.passed:
        return f"{text!r}\n{report.feedback()}"
    return true_of_twice_refused(rng, given)


def true_of_twice_refused(rng: Random, given: Snapshot) -> str:
    """Return what the gate says against a true sentence about two runs, "" if it passes."""
    both = generated.twice(rng)
    labels = {item.id for item in both.facts}
    others = tuple(item for item in given.facts if item.formula is None and item.id not in labels)
    given = replace(given, facts=others + both.facts)
    text = generated.true_of_twice(rng, both, given)
    report = check(text, given)
    return "" if report.passed else f"{text!r}\n{report.feedback()}"


def change_lie_passed(seed: int) -> tuple[str, str] | None:
    """Return the lie about two runs that ``seed`` tells, and its text if it passes."""
    rng = Random(seed)
    both = generated.twice(rng)
    given = Snapshot("run", "run-7", None, both.facts)
    name = rng.choice(sorted(CHANGE_LIES))
    text = CHANGE_LIES[name](rng, given, both)
    if text is None:
        return None
    return name, text if check(text, given).passed else ""


def lie_passed(seed: int) -> tuple[str, str] | None:
    """Return the lie that ``seed`` tells and its memo if it passes; its name and "" if not."""
    rng = Random(seed)
    given = generated.snapshot(rng)
    told = generated_lies.lie(rng, given, generated.memo(rng, given))
    if told is None:
        return None
    name, text = told
    return name, text if check(text, given).passed else ""


def main(count: int, first: int) -> int:
    refused = [found for seed in range(first, first + count) if (found := true_refused(seed))]
    told: Counter[str] = Counter()
    passed: list[tuple[str, str]] = []
    seed = first
    while told.total() < count:
        result = change_lie_passed(seed) if seed % 4 == 0 else lie_passed(seed)
        seed += 1
        if result is not None:
            told[result[0]] += 1
            if result[1]:
                passed.append(result)
    for text in refused[:10]:
        sys.stdout.write(f"REFUSED {text}\n")
    for name, text in passed[:10]:
        sys.stdout.write(f"PASSED {name}: {text!r}\n")
    sys.stdout.write(f"true memos refused: {len(refused)} of {count}\n")
    sys.stdout.write(f"lies passed: {len(passed)} of {told.total()} {dict(told)}\n")
    return int(bool(refused or passed))


if __name__ == "__main__":
    arguments = [int(part) for part in sys.argv[1:]]
    sys.exit(main(*(arguments + [10_000, 0][len(arguments) :])))
