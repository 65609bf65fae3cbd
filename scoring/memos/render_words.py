"""Whole numbers in English words, as a memo may spell them.

Guarantees: `spelled` and the reader of `scoring.memos.figures_words` are inverse on its range. It
writes no ordinals, no fractions and no "and" unless asked.
"""

from __future__ import annotations

from typing import Final

SMALL: Final = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
LIMIT: Final = 10**15


def spelled(number: int, *, with_and: bool = False) -> str:
    """Return ``number`` in words, 0 to 10**15 - 1; raises ValueError beyond."""
    if not 0 <= number < LIMIT:
        raise ValueError(f"{number} is not spelled out: 0 to {LIMIT - 1} are")
    for word, scale in reversed(SCALES.items()):
        if number >= scale:
            head, rest = divmod(number, scale)
            return f"{spelled(head, with_and=with_and)} {word}" + (
                f" {spelled(rest, with_and=with_and)}" if rest else ""
            )
    if number >= 100:
        head, rest = divmod(number, 100)
        joint = " and " if with_and else " "
        return f"{SMALL[head]} hundred" + (f"{joint}{spelled(rest)}" if rest else "")
    if number >= 20:
        tens, ones = divmod(number, 10)
        return TENS[tens - 2] + (f"-{SMALL[ones]}" if ones else "")
    return SMALL[number]
