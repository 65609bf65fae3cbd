"""What holds for any tip and any script, and what a skill may add to the vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.trace import ActionVocabulary, Verdict, VocabularyError, trace


def test_a_skill_adds_its_own_opposites() -> None:
    words = ActionVocabulary.from_mapping(
        {"opposites": [["arm", "disarm"]], "programs": ["alarmctl"]}
    )
    tip, script = "Use alarmctl to act: `alarmctl arm north`.", "alarmctl disarm north"
    assert trace(tip=tip, script=script, vocabulary=words).verdict is Verdict.VIOLATED
    assert trace(tip=tip, script=script).verdict is Verdict.NOT_FOLLOWED


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"opposite": []}, "opposite"),
        ({"opposites": [["a"]]}, "opposites"),
        ({"programs": "doorctl"}, "programs"),
        ({"synonyms": {"remove": "drop"}}, "synonyms.remove"),
    ],
)
def test_a_bad_vocabulary_is_refused_by_name(table: dict[str, object], named: str) -> None:
    with pytest.raises(VocabularyError, match=named):
        ActionVocabulary.from_mapping(table)


PIECES = st.sampled_from(
    ["/etc/a.conf", "`x --y`", "do not ", "instead of ", "failed", "; ", ".\n\n", "$ sudo ",
     "a = 1", '"', "'", "systemctl ", "enable ", "sed -i 's/a/b/' ", "echo ", ">> ", "$(", ")",
     "<<E\n", "\\", "\0", "\ud83d", "#", "if ", "\n"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=40).map("".join))


@settings(max_examples=150, deadline=None)
@given(tip=TEXTS, script=TEXTS)
def test_any_texts_get_a_bounded_and_repeatable_answer(tip: str, script: str) -> None:
    result = trace(tip=tip, script=script)
    assert (result.score is None) == (result.verdict is Verdict.ABSTAINED)
    assert result.score is None or 0.0 <= result.score <= 1.0
    for item in result.evidence:
        (item.term + item.text).encode("utf-8")
        assert "\0" not in item.term + item.text
    assert trace(tip=tip, script=script) == result
