"""The word for a tip's record: given when the rows say so, and not before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.flags import MIN_VISITS, Flag, Quadrants, flag_of
from memory.models import TipEvidence
from memory.tallies import EMPTY

COUNTS = st.integers(min_value=0, max_value=200)


@pytest.mark.parametrize(
    ("counts", "flag"),
    [
        (Quadrants(), Flag.UNTESTED),
        (Quadrants(misleading=3), Flag.UNTESTED),
        (Quadrants(misleading=4), Flag.MISLEADING),
        (Quadrants(earned=3), Flag.UNTESTED),
        (Quadrants(earned=4), Flag.EARNED),
        (Quadrants(misleading=4, earned=1), Flag.UNTESTED),
        (Quadrants(misleading=9, earned=1), Flag.MISLEADING),
        (Quadrants(lucky_neighbour=1), Flag.UNTESTED),
        (Quadrants(lucky_neighbour=4), Flag.LUCKY_NEIGHBOUR),
        (Quadrants(bystander=4), Flag.BYSTANDER),
        (Quadrants(lucky_neighbour=4, bystander=4), Flag.BYSTANDER),
        (Quadrants(lucky_neighbour=12, bystander=1), Flag.LUCKY_NEIGHBOUR),
        # what was followed speaks before what was ignored
        (Quadrants(lucky_neighbour=50, misleading=4), Flag.MISLEADING),
        (Quadrants(bystander=50, earned=4), Flag.EARNED),
        (Quadrants(earned=10, misleading=10), Flag.UNTESTED),
    ],
)
def test_a_record_gets_its_word(counts: Quadrants, flag: Flag) -> None:
    assert flag_of(counts) == flag


@given(earned=COUNTS, misleading=COUNTS, lucky=COUNTS, bystander=COUNTS)
def test_no_single_row_turns_one_word_into_its_opposite(
    earned: int, misleading: int, lucky: int, bystander: int
) -> None:
    before = flag_of(Quadrants(earned, misleading, lucky, bystander))
    after = flag_of(Quadrants(earned, misleading + 1, lucky, bystander))
    assert (before, after) != (Flag.EARNED, Flag.MISLEADING)
    after = flag_of(Quadrants(earned + 1, misleading, lucky, bystander))
    assert (before, after) != (Flag.MISLEADING, Flag.EARNED)


@given(earned=COUNTS, misleading=COUNTS)
def test_more_of_the_same_never_takes_a_word_back(earned: int, misleading: int) -> None:
    if flag_of(Quadrants(earned, misleading)) is Flag.MISLEADING:
        assert flag_of(Quadrants(earned, misleading + 1)) is Flag.MISLEADING


def test_one_visit_is_one_story_however_many_rows_tell_it() -> None:
    counts = Quadrants(misleading=40)
    assert flag_of(counts, visits=MIN_VISITS - 1) is Flag.UNTESTED
    assert flag_of(counts, visits=MIN_VISITS) is Flag.MISLEADING


def test_what_one_visit_followed_is_one_story_too() -> None:
    counts = Quadrants(misleading=10, lucky_neighbour=40)
    assert flag_of(counts, visits=8, followed_visits=1) is Flag.LUCKY_NEIGHBOUR
    assert flag_of(counts, visits=8, followed_visits=2) is Flag.MISLEADING


def test_whatever_counts_quadrants_can_be_flagged() -> None:
    assert flag_of(EMPTY) is Flag.UNTESTED
    row = TipEvidence(earned=8, misleading=0, lucky_neighbour=0, bystander=0)
    assert flag_of(row) is Flag.EARNED
    stored = {"earned": 0, "misleading": 5, "unknown": 7}
    assert flag_of(Quadrants.of(stored)) is Flag.MISLEADING
