"""A memo's text as HTML: links and marks are added, and not a character of the text is lost or obeyed."""

from __future__ import annotations

import html as markup
import re

from scoring.memo_page import linked
from scoring.memos.facts import Snapshot, fact
from scoring.memos.gate import check
from scoring.memos.writer import write
from tests.scoring.memos.snapshots import run


def test_a_hostile_label_stays_in_its_attribute() -> None:
    label = 'times `"><img src=x onerror=alert(1)>` was followed'
    snapshot = Snapshot("run", "r", None, (fact(label, "count", 5), fact("tips", "count", 7)))
    text = 'There <b>were</b> 5 [F2] tips and 7 [F1] <img src=x>, "&amp;" [F9].'
    html = linked(text, check(text, snapshot), snapshot)
    assert "<img" not in html
    assert "<b>" not in html
    assert markup.unescape(re.sub(r"</?(?:a|strong)\b[^>]*>", "", html)) == text


def test_the_text_is_whole_whatever_is_marked_in_it() -> None:
    snapshot = run()
    for text in (
        write(snapshot, mode="human"), write(snapshot, mode="agent"), "", "[F1, F2][F99]", "9" * 50,
        "It rose by 8.6 points [F4], [F5] and 7 of [F1, F3] 27 went well.", "x" * 50_000,
    ):  # fmt: skip
        html = linked(text, check(text, snapshot), snapshot)
        bare = markup.unescape(re.sub(r"</?(?:a|strong)\b[^>]*>", "", html))
        assert bare == text[:40_000]
