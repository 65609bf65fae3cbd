"""What the trace cites, how its scores rank, and warned files that are edited all the same."""

from __future__ import annotations

import pytest

from scoring.trace import Verdict, trace

FOLLOWED, VIOLATED, NOT = Verdict.FOLLOWED, Verdict.VIOLATED, Verdict.NOT_FOLLOWED


@pytest.mark.parametrize(
    "tip",
    [
        "Attempted appending Ciphers to door_config; failed because the rule targets doord_config.",
        "Attempt 2 failed by editing door_config; learned that rules need polctl-update, not hand edits.",
        "Use polctl-update --set STRICT for door rules instead of manually editing door_config.",
    ],
)
@pytest.mark.parametrize("shown", [None, 90])
def test_a_script_that_edits_the_warned_file_never_follows(tip: str, shown: int | None) -> None:
    script = (
        "cp /etc/door/door_config /etc/door/door_config.bak\n"
        "sed -i '/^Ciphers /d' /etc/door/door_config\n"
        'echo "Ciphers a,b" >> /etc/door/door_config\n'
    )
    assert trace(tip=tip[:shown], script=script).verdict in (VIOLATED, NOT)


def test_evidence_cites_the_line_and_what_was_done() -> None:
    result = trace(
        tip="Use `doorctl lock` instead of editing /etc/door.conf.",
        script="set -e\n\necho open=1 >> /etc/door.conf\n",
    )
    seen = {item.clause: item for item in result.evidence}
    assert seen["forbids"].found
    assert seen["forbids"].line == 3
    assert seen["forbids"].text == "writes /etc/door.conf: open=1, which the tip forbids"
    assert not seen["prescribes"].found
    assert seen["prescribes"].line is None


def test_a_backup_copy_is_no_edit_of_the_file() -> None:
    tip = "Use `doorctl lock` instead of editing /etc/door.conf."
    assert (
        trace(tip=tip, script="cp /etc/door.conf /etc/door.conf.bak\ndoorctl lock").verdict
        is FOLLOWED
    )


def test_scores_rank_the_right_value_over_the_wrong_file_over_nothing() -> None:
    tip = 'Add this line to "/etc/x.conf":\n\nMaxTries = 4'
    right = trace(tip=tip, script="echo MaxTries=4 >> /etc/x.conf").score
    elsewhere = trace(tip=tip, script="echo MaxTries=4 >> /etc/y.conf").score
    nothing = trace(tip=tip, script="systemctl restart x").score
    assert right is not None
    assert elsewhere is not None
    assert nothing is not None
    assert right > elsewhere > nothing == 0.0


def test_a_step_that_activates_a_change_weighs_little() -> None:
    tip = 'Add to "/etc/x.conf":\n\nA = 1\n\nRestart:\n\n$ sudo systemctl restart x'
    assert trace(tip=tip, script="echo A=1 >> /etc/x.conf").verdict is FOLLOWED
    assert trace(tip=tip, script="systemctl restart x").verdict is NOT
