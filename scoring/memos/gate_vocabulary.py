"""The words of direction that the gate knows.

Guarantees: closed sets, disjoint but for the words of place. A verb that is in none of them says no
direction to the gate; the value and the sign of the figure beside it are still checked.
"""

from __future__ import annotations

from typing import Final

UP: Final = frozenset({
    "accelerate", "accelerated", "accelerates", "accelerating", "advance", "advanced", "advances",
    "advancing", "balloon", "ballooned", "ballooning", "balloons", "beaten", "beats", "boost",
    "boosted", "boosting", "boosts", "climb", "climbed", "climbing", "climbs", "doubled", "dwarf",
    "dwarfed", "dwarfs", "eclipsed", "eclipses", "escalate", "escalated", "escalates", "escalating",
    "exceed", "exceeded", "exceeding", "exceeds", "expand", "expanded", "expanding", "expands",
    "gain", "gained", "gaining", "gains", "grew", "grow", "growing", "grown", "grows", "growth",
    "hike", "hiked", "hikes", "hiking", "increase", "increased", "increases", "increasing",
    "intensified", "intensifies", "intensify", "intensifying", "jump", "jumped", "jumping", "jumps",
    "lifted", "lifting", "lifts", "multiplied", "multiplies", "multiplying", "outdid", "outdo",
    "outdoes", "outdone", "outnumber", "outnumbered", "outnumbering", "outnumbers", "outpace",
    "outpaced", "outpaces", "outpacing", "outperform", "outperformed", "outperforming",
    "outperforms", "outstrip", "outstripped", "outstrips", "outweigh", "outweighed", "outweighing",
    "outweighs", "overtake", "overtaken", "overtakes", "overtaking", "overtook", "raise", "raised",
    "raises", "raising", "rebound", "rebounded", "rebounding", "rebounds", "rise", "risen", "rises",
    "rising", "rose", "skyrocket", "skyrocketed", "skyrocketing", "skyrockets", "soar", "soared",
    "soaring", "soars", "spike", "spiked", "spikes", "spiking", "strengthen", "strengthened",
    "strengthening", "strengthens", "surge", "surged", "surges", "surging", "surpass", "surpassed",
    "surpasses", "surpassing", "swell", "swelled", "swelling", "swells", "swollen", "topped",
    "topping", "tops", "tripled", "uplift", "upped", "upsurge", "upswing", "uptick", "upturn",
    "upward", "upwards",
})  # fmt: skip
"""Verbs and nouns of a rise, or of being more."""

DOWN: Final = frozenset({
    "abate", "abated", "abates", "abating", "collapse", "collapsed", "collapses", "collapsing",
    "contracted", "contracting", "contraction", "contracts", "crashed", "crashes", "crashing",
    "cratered", "cut", "cuts", "cutting", "decline", "declined", "declines", "declining",
    "decrease", "decreased", "decreases", "decreasing", "deflate", "deflated", "deflates",
    "deflating", "diminish", "diminished", "diminishes", "diminishing", "dip", "dipped", "dipping",
    "dips", "downswing", "downtick", "downturn", "downward", "downwards", "drawdown", "drop",
    "dropped", "dropping", "drops", "dwindle", "dwindled", "dwindles", "dwindling", "eased",
    "eases", "easing", "ebbed", "ebbing", "ebbs", "erode", "eroded", "erodes", "eroding", "fall",
    "fallen", "falling", "falls", "fell", "halved", "lagged", "lagging", "lags", "lessened",
    "lessening", "lessens", "lose", "loses", "losing", "lowered", "lowering", "lowers", "nosedive",
    "nosedived", "nosedives", "nosediving", "pared", "pares", "paring", "plummet", "plummeted",
    "plummeting", "plummets", "plunge", "plunged", "plunges", "plunging", "recede", "receded",
    "recedes", "receding", "reduce", "reduced", "reduces", "reducing", "reduction", "retreat",
    "retreated", "retreating", "retreats", "sagged", "sagging", "sags", "sank", "setback", "shed",
    "shedding", "sheds", "shrank", "shrink", "shrinkage", "shrinking", "shrinks", "shrivel",
    "shriveled", "shriveling", "shrivels", "shrunk", "sink", "sinking", "sinks", "slashed",
    "slashes", "slashing", "slid", "slide", "slides", "sliding", "slip", "slipped", "slipping",
    "slips", "slowed", "slowing", "slows", "slump", "slumped", "slumping", "slumps", "soften",
    "softened", "softening", "softens", "subside", "subsided", "subsides", "subsiding", "sunk",
    "tanked", "tanking", "tanks", "trailed", "trailing", "trails", "trimmed", "trimming", "trims",
    "tumble", "tumbled", "tumbles", "tumbling", "undercut", "undercuts", "undershoot",
    "undershoots", "undershot", "wane", "waned", "wanes", "waning", "weaken", "weakened",
    "weakening", "weakens",
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
    "backslid", "better", "deteriorate", "deteriorated", "deteriorates", "deteriorating",
    "deterioration", "healthier", "improve", "improved", "improvement", "improvements", "improves",
    "improving", "poorer", "progressed", "recovered", "regressed", "regression", "stronger",
    "weaker", "worse", "worsen", "worsened", "worsening", "worsens",
})  # fmt: skip
"""Words whose direction depends on what is measured."""

STILL: Final = frozenset({
    "constant", "flat", "plateaued", "stable", "stagnant", "stagnated", "static", "steady",
    "unaltered", "unchanged",
})  # fmt: skip
"""Words that say a change of zero."""

LOSS: Final = frozenset({
    "deficit", "loss", "losses", "lost", "minus", "negative", "shortfall",
})  # fmt: skip

PROFIT: Final = frozenset({
    "positive", "profit", "profits", "surplus",
})  # fmt: skip

CHANGES: Final = frozenset({
    "change", "delta", "difference", "gap", "lift", "margin", "movement",
})  # fmt: skip
