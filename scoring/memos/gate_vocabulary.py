"""The words of direction that the gate knows.

Guarantees: closed sets, disjoint but for the words of place. A verb that is in none of them says no
direction to the gate; the value and the sign of the figure beside it are still checked.
"""

from __future__ import annotations

from typing import Final

UP: Final = frozenset({
    "accelerated", "advance", "advanced", "ballooned", "beats", "boost", "boosted", "climb",
    "climbed", "climbing", "climbs", "doubled", "dwarfs", "eclipses", "exceed", "exceeded",
    "exceeding", "exceeds", "expanded", "expands", "gain", "gained", "gaining", "gains", "grew",
    "grow", "growing", "grown", "grows", "growth", "hike", "hiked", "increase", "increased",
    "increases", "increasing", "jump", "jumped", "jumping", "jumps", "lifted", "outdoes",
    "outnumber", "outnumbered", "outnumbers", "outpaced", "outperformed", "outperforms",
    "outstrips", "outweighs", "overtakes", "overtook", "raised", "raises", "rebounded", "rise",
    "risen", "rises", "rising", "rose", "skyrocketed", "soar", "soared", "spike", "spiked",
    "strengthened", "surge", "surged", "surges", "surpassed", "surpasses", "swelled", "topped",
    "tops", "tripled", "uplift", "upped", "uptick", "upturn",
})  # fmt: skip
"""Verbs and nouns of a rise, or of being more."""

DOWN: Final = frozenset({
    "abated", "collapse", "collapsed", "contracted", "contraction", "crashed", "cratered", "cut",
    "cuts", "decline", "declined", "declines", "declining", "decrease", "decreased", "decreases",
    "decreasing", "diminished", "dip", "dipped", "downtick", "downturn", "drop", "dropped",
    "dropping", "drops", "dwindled", "eased", "ebbed", "eroded", "fall", "fallen", "falling",
    "falls", "fell", "halved", "lagged", "lags", "lose", "loses", "losing", "lowered", "lowers",
    "nosedived", "pared", "plummeted", "plunge", "plunged", "reduce", "reduced", "reduces",
    "reducing", "reduction", "retreated", "sagged", "sank", "setback", "shed", "shrank", "shrink",
    "shrinking", "shrinks", "shrunk", "sinks", "slashed", "slid", "slide", "slides", "slipped",
    "slips", "slowed", "slump", "slumped", "softened", "sunk", "tanked", "trailed", "trails",
    "trimmed", "tumbled", "undercuts", "undershoots", "waned", "weakened",
})  # fmt: skip
"""Verbs and nouns of a fall, or of being less."""

MORE: Final = frozenset({
    "above", "additional", "ahead", "another", "beyond", "bigger", "extra", "further", "greater",
    "higher", "larger", "longer", "more", "up",
})  # fmt: skip
"""Words of comparison, which are ordinary English too: they count beside a figure only."""

LESS: Final = frozenset({
    "behind", "below", "down", "fewer", "less", "lower", "shorter", "smaller", "under",
})  # fmt: skip

PLACES: Final = frozenset({
    "above", "ahead", "behind", "below", "beyond", "under",
})  # fmt: skip
"""Prepositions, which compare only between two figures of one unit."""

UNCLEAR: Final = frozenset({
    "better", "deteriorated", "deterioration", "improve", "improved", "improvement", "improves",
    "improving", "worse", "worsen", "worsened", "worsening", "worsens",
})  # fmt: skip
"""Words whose direction depends on what is measured."""

LOSS: Final = frozenset({
    "deficit", "loss", "losses", "lost", "minus", "negative", "shortfall",
})  # fmt: skip

PROFIT: Final = frozenset({
    "positive", "profit", "profits", "surplus",
})  # fmt: skip

CHANGES: Final = frozenset({
    "change", "delta", "difference", "gap", "lift", "margin", "movement",
})  # fmt: skip
