"""Finding what a sentence shows without quotes, and what it only points at.

Guarantees: every case is a class of writing, with made-up programs and files; a sentence without a
literal comes back unchanged.

Does not guarantee the verdicts that rest on it: those are in `test_advice`.

Shaped by sed expressions in the middle of a sentence, cut into paths and words.
"""

from __future__ import annotations

import pytest

from scoring.trace import ActionVocabulary, parse_tip
from scoring.trace.literals import mark_literals
from scoring.trace.references import resolve_references
from scoring.trace.steps import steps

WORDS = ActionVocabulary.default()


@pytest.mark.parametrize(
    ("sentence", "marked"),
    [
        # Commands, to their last argument and no further
        ("Run systemctl mask --now printd.", "Run `systemctl mask --now printd`."),
        ("Use dnf remove lynx and reboot.", "Use `dnf remove lynx` and reboot."),
        (
            "Edit it: sed -i 's/^A .*/A b c/' /etc/x.conf, then go on.",
            "Edit it: `sed -i 's/^A .*/A b c/' /etc/x.conf`, then go on.",
        ),
        (
            'Boot with grubby --update-kernel=ALL --args="a=1 b=2".',
            'Boot with `grubby --update-kernel=ALL --args="a=1 b=2"`.',
        ),
        (
            "Look with doord -T | grep -i key after it.",
            "Look with `doord -T | grep -i key` after it.",
        ),
        ("systemctl stop printd failed twice.", "`systemctl stop printd` failed twice."),
        ("Use service printd reload.", "Use `service printd reload`."),
        ("Lock it with passwd -l games; done.", "Lock it with `passwd -l games`; done."),
        # Lines of files
        (
            "Write Try 4 and Wait 9 to /etc/x.conf.",
            "Write `Try 4` and `Wait 9` to /etc/x.conf.",
        ),
        (
            "In /etc/x.conf set aa = 25%, bb = mail and cc = root.",
            "In /etc/x.conf set `aa = 25%`, `bb = mail` and `cc = root`.",
        ),
        (
            "Write install firebus /bin/false to /etc/modprobe.d/f.conf.",
            "Write `install firebus /bin/false` to /etc/modprobe.d/f.conf.",
        ),
        # Audit rules, and options that several share
        (
            "Add -w /etc/a, -w /etc/b, each with -p wa -k c.",
            "Add `-w /etc/a -p wa -k c`, `-w /etc/b -p wa -k c`, each .",
        ),
        (
            "Add -a always,exit -F arch=b64 -S mount -k m, and the same with arch=b32.",
            "Add `-a always,exit -F arch=b64 -S mount -k m`, and "
            "`-a always,exit -F arch=b32 -S mount -k m`.",
        ),
    ],
)
def test_a_literal_is_marked_to_its_end(sentence: str, marked: str) -> None:
    assert mark_literals(sentence, WORDS) == marked


@pytest.mark.parametrize(
    "sentence",
    [
        "The service must be restarted after the change.",
        "Use conf.d files for it.",
        "Set permissions on the key.",
        "Write the following lines to /etc/x.conf.",
        "Append audit rules to /etc/audit/rules.d/x.rules.",
        "It won't work without sed, awk or both.",
        "Set `a = 1` in `/etc/x.conf`.",
        "An install line under /etc/modprobe.d is needed.",
        "",
    ],
)
def test_plain_words_stay_as_they_are(sentence: str) -> None:
    assert mark_literals(sentence, WORDS) == sentence


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("MAX_X 9 was too much; the limit is 5.", "MAX_X 9 was too much; set `MAX_X 5`."),
        ("/etc/a/b.conf is old; delete that file.", "/etc/a/b.conf is old; delete /etc/a/b.conf."),
        (
            "systemctl stop d; d.socket woke it; mask both units.",
            "systemctl stop d; d.socket woke it; `systemctl mask d d.socket`.",
        ),
        ("The lynx package must not be removed.", "do not remove lynx package."),
        # Nothing to point at
        ("The limit is 5. Delete that file and mask both units.",) * 2,
    ],
)
def test_a_reference_becomes_what_it_points_at(text: str, resolved: str) -> None:
    assert resolve_references(text) == resolved


def test_advice_has_a_step_for_every_imperative() -> None:
    text = "Delete A from `x and add`, add B and restart C"
    assert steps(text) == ["Delete A from `x and add`", ", add B", " and restart C"]
    assert steps("Stop and disable x") == ["Stop and disable x"]


def test_a_whole_tip_of_the_length_of_a_cut_one_keeps_its_last_word() -> None:
    tip = "Write `a = 1` to /etc/x.conf and run doorctl --load."
    padded = tip.rjust(150, "n").replace("nWrite", ". Write")[-150:]
    assert len(padded) == 150
    assert "doorctl --load" in [item.term for item in parse_tip(padded).requirements]
