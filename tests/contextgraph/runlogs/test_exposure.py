"""What the agent saw of each retrieved tip, as far as the log lets us know.

Guarantees: a tip that may not have reached the prompt is never stored as shown.
Does not guarantee: that the agent read what it was shown.
Shaped by: tips credited although the prompt's budget had dropped them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contextgraph.runlogs.log_builder import LONG_TIP, RULE, TIP, Log, Read

if TYPE_CHECKING:
    from contextgraph.envelope import RetrievalEntry


def retrieved(*tips: Any, **data: Any) -> tuple[RetrievalEntry, ...]:
    log = Log().start().tip(7).tip(8, LONG_TIP).rule().attempt().prompt(1, tips, **data)
    return Read(log.call().result().evaluate().verdict().end()).attempt.retrievals


def entry(tip: Any = 7, **fields: Any) -> dict[str, Any]:
    return {"tip_id": tip, "rank": 1, "similarity_score": 1.25} | fields


def test_a_short_tip_is_shown_whole() -> None:
    (only,) = retrieved(7)
    assert (only.tip, only.rank, only.similarity) == ("7", 1, 1.25)
    assert (only.shown, only.shown_text, only.shown_cut) == (True, TIP, False)
    assert only.retrieved_at is not None
    assert only.propensity == 1.0
    assert only.extra == {"tip_type": "strategy"}


def test_a_long_tip_is_shown_as_far_as_the_prompt_shows_tips() -> None:
    (only,) = retrieved(8)
    assert only.shown_text == LONG_TIP[:150]
    assert only.shown_cut is True


def test_a_tip_of_an_earlier_run_leaves_the_text_open_and_says_how_much_was_shown() -> None:
    (only,) = retrieved(99)
    assert (only.shown, only.shown_text, only.shown_chars) == (True, None, 150)


def test_a_logged_text_is_what_was_shown() -> None:
    (only,) = retrieved(entry(8, text=LONG_TIP))
    assert (only.shown_text, only.shown_cut) == (LONG_TIP, False)
    (only,) = retrieved(entry(8, text=LONG_TIP[:60] + "..."))
    assert (only.shown_text, only.shown_cut) == (LONG_TIP[:60] + "...", True)


@pytest.mark.parametrize(
    "sections",
    [
        {"sections_dropped": ["similar_rule_tips", "directive"]},
        {"sections_included": ["rule_identity"]},
        {"sections_included": ["similar_rule_tips"], "sections_truncated": ["similar_rule_tips"]},
    ],
)
def test_tips_that_may_not_have_reached_the_prompt_are_not_shown(sections: dict[str, Any]) -> None:
    for only in retrieved(entry(8, text=LONG_TIP), **sections):
        assert (only.shown, only.shown_text, only.shown_cut) == (False, None, False)


def test_tips_in_an_included_section_are_shown() -> None:
    (only,) = retrieved(7, sections_included=["rule_identity", "similar_rule_tips"])
    assert only.shown is True


def test_what_an_entry_says_about_itself_outranks_its_section() -> None:
    shown, hidden = retrieved(
        entry(7, shown=True), entry(8, shown=False), sections_dropped=["similar_rule_tips"]
    )
    assert (shown.shown, hidden.shown) == (True, False)


def test_a_tip_held_out_by_a_coin_keeps_its_propensity() -> None:
    (only,) = retrieved(entry(withheld=True, propensity=0.8))
    assert (only.withheld, only.shown, only.propensity) == (True, False, 0.8)


@pytest.mark.parametrize("propensity", [0, -1, 1.5, "half", float("nan"), True])
def test_a_propensity_that_is_no_probability_is_not_believed(propensity: object) -> None:
    assert retrieved(entry(propensity=propensity))[0].propensity == 1.0


def test_the_last_prompt_of_an_attempt_counts() -> None:
    log = Log().start().tip(7).tip(8).rule().attempt().prompt(1, [7]).prompt(1, [8])
    entry = Read(log.call().result().evaluate().verdict().end()).attempt
    assert [retrieval.tip for retrieval in entry.retrievals] == ["8"]


def test_bad_entries_do_not_cost_the_good_ones() -> None:
    odd = [entry(None), "tip 7", entry([1]), entry(7, rank=-1, similarity_score="high")]
    kept = retrieved(v2_tips_loaded=odd)
    assert [(one.tip, one.rank, one.similarity) for one in kept] == [("7", 4, None)]


def test_ids_that_are_stored_alike_are_one_tip() -> None:
    kept = retrieved(entry("a\x00"), entry("a\N{REPLACEMENT CHARACTER}"))
    assert len(kept) == 1


def test_a_tip_of_the_same_attempt_does_not_belong_to_its_retrievals() -> None:
    log = Log().start().rule().whole_attempt(tips=[7], passed=False).tip(9, source_rule_id=RULE)
    read = Read(log.end())
    assert [tip.tip for tip in read.tips] == ["9"]
    assert [one.tip for one in read.attempt.retrievals] == ["7"]
