"""What the facts of runs, tips and categories are called: one label each, for maker and teller.

Guarantees: a label is a plural or a share that reads well after its figure ("5 failed attempts"), holds
no word that the gate takes for a denial, an average or a rate, and is never the beginning of what
another label means. `Subject` labels carry a name in backticks, and give it back. A figure about a part
of what another label is about has the label of the part (`Subject.within`), never the whole's. Pure; no
values here.

Shaped by: the memo of a category that gave the category's figures under labels of the whole run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final


@dataclass(frozen=True)
class Subject:
    """A label with a name in it; ``{}`` stands for each name."""

    pattern: str

    def of(self, *names: str) -> str:
        """Return the label about ``names``."""
        return self.pattern.format(*(f"`{name}`" for name in names))

    @cached_property
    def within(self) -> Subject:
        """The same of a part, whose name comes last: "times {} was followed in {}"."""
        return Subject(f"{self.pattern} in {{}}")

    @cached_property
    def _shape(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.pattern).replace(r"\{\}", "`([^`]+)`"))

    def names(self, label: str) -> tuple[str, ...]:
        """Return the names in ``label``, () if it is not one of these."""
        found = self._shape.fullmatch(label)
        return found.groups() if found else ()


# --- A run ----------------------------------------------------------------------------------------

ATTEMPTS: Final = "attempts"
SUCCESSFUL: Final = "successful attempts"
FAILED: Final = "failed attempts"
UNGRADED: Final = "ungraded attempts"
GRADED: Final = "graded attempts"
SUCCESS_SHARE: Final = "share of graded attempts that succeeded"

RULES: Final = "graded rules"
REMEDIATED: Final = "remediated rules"
REMEDIATED_SHARE: Final = "share of graded rules remediated"
REMEDIATED_CHANGE: Final = "change in the share of graded rules remediated"

RETRIEVALS: Final = "retrievals"
SHOWN: Final = "shown retrievals"
FOLLOWED: Final = "followed retrievals"
IGNORED: Final = "ignored retrievals"
UNANSWERED: Final = "unanswered retrievals"
ANSWERED: Final = "answered retrievals"
FOLLOW_SHARE: Final = "share of answered retrievals that were followed"
FOLLOW_CHANGE: Final = "change in the share of answered retrievals that were followed"

EARNED: Final = "earned retrievals"
MISLEADING: Final = "misleading retrievals"
LUCKY: Final = "lucky neighbour retrievals"
BYSTANDER: Final = "bystander retrievals"
FOLLOWED_GRADED: Final = "graded followed retrievals"
MISLED_SHARE: Final = "share of graded followed retrievals that failed"
MISLEADING_CHANGE: Final = "change in misleading retrievals"
QUADRANTS: Final = {
    "earned": EARNED,
    "misleading": MISLEADING,
    "lucky_neighbour": LUCKY,
    "bystander": BYSTANDER,
}

TIPS: Final = "tips retrieved"
TIPS_CALLED: Final = {
    "misleading": "misleading tips",
    "earned": "earned tips",
    "lucky_neighbour": "lucky neighbour tips",
    "bystander": "bystander tips",
    "untested": "untested tips",
}
WORST_TIP: Final = "tip that misled most"
FLAGS_CHANGED: Final = "tips called otherwise than at the last pass"
CREDITS_CHANGED: Final = "tips credited otherwise than at the last pass"
RETIRED: Final = "tips retired by the sweep"
POLICY: Final = "credit policy"

# --- In another run, or in a category of this one; `within`: in a category of a run named ------------

RULES_IN: Final = Subject("graded rules in {}")
REMEDIATED_IN: Final = Subject("remediated rules in {}")
REMEDIATED_SHARE_IN: Final = Subject("share of graded rules remediated in {}")
FOLLOWED_IN: Final = Subject("followed retrievals in {}")
ANSWERED_IN: Final = Subject("answered retrievals in {}")
FOLLOW_SHARE_IN: Final = Subject("share of answered retrievals that were followed in {}")
MISLEADING_IN: Final = Subject("misleading retrievals in {}")
SIGNAL_IN: Final = Subject("signal in {}")
POLICY_IN: Final = Subject("credit policy in {}")

REMEDIATED_CHANGE_IN: Final = Subject(REMEDIATED_CHANGE).within
FOLLOW_CHANGE_IN: Final = Subject(FOLLOW_CHANGE).within
MISLEADING_CHANGE_IN: Final = Subject(MISLEADING_CHANGE).within
SIGNAL_CHANGE_IN: Final = Subject("change in the signal in {}")

# --- A tip ----------------------------------------------------------------------------------------

TIMES_RETRIEVED: Final = Subject("times {} was retrieved")
TIMES_SHOWN: Final = Subject("times {} was shown")
TIMES_FOLLOWED: Final = Subject("times {} was followed")
TIMES_IGNORED: Final = Subject("times {} was ignored")
INTO_SUCCESS: Final = Subject("times {} was followed into a success")
INTO_FAILURE: Final = Subject("times {} was followed into a failure")
BESIDE_SUCCESS: Final = Subject("times {} was ignored at a success")
BESIDE_FAILURE: Final = Subject("times {} was ignored at a failure")
TIMES_GRADED: Final = Subject("graded times {} was followed")
FAILURE_SHARE: Final = Subject("share of graded times {} was followed that failed")
FAILURE_ON: Final = Subject("times {} was followed into a failure on {}")
SUCCESS_ON: Final = Subject("times {} was followed into a success on {}")
CREDIT: Final = Subject("shrunk credit of {}")
CREDIT_IN_RUN: Final = Subject("shrunk credit of {} in the run")
CREDIT_LOW: Final = Subject("lower end of the interval of the credit of {}")
CREDIT_HIGH: Final = Subject("upper end of the interval of the credit of {}")
VISITS: Final = Subject("visits behind the credit of {}")
CALLED: Final = Subject("word for {}")
TEXT: Final = Subject("text of {}")
RETIRED_ON: Final = Subject("day {} was retired")
STORED_ON: Final = Subject("day {} was stored")
SKILL_TIPS_CREDIT: Final = "unshrunk credit of all tips in the skill"
