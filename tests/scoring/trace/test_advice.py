"""Verdicts on advice in a sentence, by class of phrasing; programs, files and texts are made up.

Guarantees: for most classes one script that does it, and one that only comes near.

Does not guarantee the reading of manuals with commands on lines of their own: see `test_compare`.

Shaped by short tips of another author than the rules: reload was read as restart, a path as its
directory, and a shared reload as obedience.
"""

from __future__ import annotations

import pytest

from scoring.trace import Verdict, trace

FOLLOWED, VIOLATED, NOT, ABSTAINED = (
    Verdict.FOLLOWED,
    Verdict.VIOLATED,
    Verdict.NOT_FOLLOWED,
    Verdict.ABSTAINED,
)

# A tip, then scripts and what they did with it.
ADVICE: list[tuple[str, list[tuple[str, Verdict]]]] = [
    # A step that activates is no advice by itself
    (
        "Append `Color blue` to /etc/paint.conf and reload paintd with systemctl reload paintd.",
        [
            ("echo 'Size 4' >> /etc/paint.conf\nsystemctl reload paintd", NOT),
        ],
    ),
    (
        "Write vm.swap_x = 3 to /etc/sysctl.d/70-own.conf, then sysctl --system.",
        [
            ("echo 'kernel.z_q = 1' > /etc/sysctl.d/71-z.conf\nsysctl --system", NOT),
            ("echo 'vm.swap_x = 3' > /etc/sysctl.d/99-other.conf\nsysctl --system", FOLLOWED),
        ],
    ),
    (
        "Restart paintd afterwards.",
        [
            ("systemctl restart paintd", FOLLOWED),
        ],
    ),
    (
        "Lock the key idle-wait in /etc/dconf/db/local.d/locks/10-idle and run dconf update.",
        [
            ("echo /org/x/other > /etc/dconf/db/local.d/locks/00-s\ndconf update", NOT),
        ],
    ),
    # A command in a sentence
    (
        "Comment it in place: sed -i 's/^Color .*/Color red dark/' /etc/paint.conf, "
        "then systemctl reload paintd.",
        [
            (
                "sed -i -E 's/^#?Color.*/Color red dark/' /etc/paint.conf\nsystemctl reload paintd",
                FOLLOWED,
            ),
            ("sed -i -E 's/^#?Size.*/Size 4/' /etc/paint.conf\nsystemctl reload paintd", NOT),
        ],
    ),
    (
        'Kernel options go in with grubby --update-kernel=ALL --args="slab=1 page=2".',
        [
            ('grubby --update-kernel=ALL --args="slab=1 page=2"', FOLLOWED),
            ('grubby --update-kernel=ALL --args="quiet=1"', NOT),
        ],
    ),
    (
        "Run systemctl mask --now paintd.",
        [
            ("systemctl mask --now printd", NOT),
            ("systemctl mask --now paintd", FOLLOWED),
        ],
    ),
    (
        "Lock the account with passwd -l games.",
        [
            ("passwd -l games", FOLLOWED),
            ("passwd -l backup", NOT),
        ],
    ),
    (
        "Use authselect select sssd with-mkhomedir --force to start afresh.",
        [
            ("authselect select sssd with-mkhomedir --force", FOLLOWED),
        ],
    ),
    (
        "First run chmod 0600 /etc/paint.key, then chown root:paint /etc/paint.key.",
        [
            ("chmod 600 /etc/paint.key\nchown root:paint /etc/paint.key", FOLLOWED),
            ("chmod 600 /etc/other.key", NOT),
        ],
    ),
    # Lines and their file
    (
        "Write Color red and Size 7 to /etc/paint.d/20-own.conf.",
        [
            ("printf '%s\\n' 'Color red' 'Size 7' > /etc/paint.d/20-own.conf", FOLLOWED),
            ("echo 'Gloss 3' > /etc/paint.d/00-gloss.conf", NOT),
        ],
    ),
    (
        "In /etc/paint.conf set Color = red, Size = 7 and Gloss = 3.",
        [
            ("crudini --set /etc/paint.conf '' Color red", NOT),
        ],
    ),
    (
        "Put brush hog hair to /etc/paint.d/brush.conf.",
        [
            ("echo 'brush hog hair' > /etc/paint.d/brush.conf", FOLLOWED),
        ],
    ),
    (
        "Set Gloss 25% in /etc/paint.conf and remove /etc/paint.d/01-gloss.conf.",
        [
            (
                "sed -i 's/^Gloss.*/Gloss 25%/' /etc/paint.conf\nrm -f /etc/paint.d/01-gloss.conf",
                FOLLOWED,
            ),
            ("rm -f /etc/paint.d/02-color.conf", NOT),
            ("sed -i 's/^Gloss.*/Gloss 50%/' /etc/paint.conf", NOT),
        ],
    ),
    # Audit rules
    (
        "Add -w /etc/paint -p wa -k paint and -w /etc/brush -p wa -k paint to "
        "/etc/audit/rules.d/paint.rules.",
        [
            (
                "echo '-w /etc/paint -p wa -k paint' >> /etc/audit/rules.d/x.rules\necho "
                "'-w /etc/brush -p wa -k paint' >> /etc/audit/rules.d/x.rules",
                FOLLOWED,
            ),
            ("echo '-w /etc/other -p wa -k paint' >> /etc/audit/rules.d/paint.rules", NOT),
        ],
    ),
    (
        "Watch them: -w /etc/paint, -w /etc/brush and -w /etc/lack, each with -p wa -k paint.",
        [
            (
                'for f in paint brush lack; do echo "-w /etc/$f -p wa -k paint"; done > '
                "/etc/audit/rules.d/p.rules",
                FOLLOWED,
            ),
            ("echo '-w /etc/paint -p x -k paint' > /etc/audit/rules.d/p.rules", NOT),
        ],
    ),
    (
        "Record it with -a always,exit -F arch=b64 -S mount,umount2 -k mnt in "
        "/etc/audit/rules.d/m.rules.",
        [
            (
                "echo '-a always,exit -F arch=b64 -S chmod -k mnt' > "
                "/etc/audit/rules.d/m.rules\naugenrules --load",
                NOT,
            ),
        ],
    ),
    # Verbs that are near and not the same
    (
        "Do not run systemctl restart paintd; use service paintd reload.",
        [
            ("service paintd reload", FOLLOWED),
            ("systemctl restart paintd", VIOLATED),
        ],
    ),
    (
        "Enable paintd.service.",
        [
            ("systemctl start paintd", NOT),
        ],
    ),
    (
        "Restart paintd with systemctl.",
        [
            ("systemctl reload paintd", NOT),
        ],
    ),
    # A percentage
    (
        "Set gloss_left = 25% in /etc/paint.conf.",
        [
            ("echo 'gloss_left = 25%' >> /etc/paint.conf", FOLLOWED),
            ("echo 'gloss_left = 25' >> /etc/paint.conf", NOT),
        ],
    ),
    # A module row is no package
    (
        "Write install brushbus /bin/false to /etc/modprobe.d/brushbus.conf.",
        [
            ("echo 'install brushbus /bin/false' > /etc/modprobe.d/b.conf", FOLLOWED),
            ("echo 'blacklist brushbus' > /etc/modprobe.d/b.conf", NOT),
            ("dnf install -y brushbus", NOT),
        ],
    ),
    # A removal and what follows it
    (
        "Delete every pool line from /etc/clock.conf and add server c1.example iburst.",
        [
            (
                "sed -i '/^pool/d' /etc/clock.conf\necho 'server c1.example iburst' >> "
                "/etc/clock.conf",
                FOLLOWED,
            ),
        ],
    ),
    (
        "Remove the old Color lines from /etc/paint.conf and set Color=red.",
        [
            ("sed -i '/^Color/d' /etc/paint.conf\necho Color=red >> /etc/paint.conf", FOLLOWED),
        ],
    ),
    # A file and its name
    (
        "Run rm -f /etc/paint.d/01-gloss.conf.",
        [
            ("sed -i '/gloss/d' /etc/paint.conf", NOT),
            ("rm /etc/paint.d/01-gloss.conf", FOLLOWED),
        ],
    ),
    # A reported failure
    (
        "Lines added to /etc/paint.conf were lost; enable gloss with paintctl --gloss.",
        [
            ("echo 'Gloss 1' >> /etc/paint.conf", VIOLATED),
            ("paintctl --gloss", FOLLOWED),
        ],
    ),
    (
        "GLOSS_DAYS 99 was too weak for the checker; the minimum is 120.",
        [
            ("sed -i 's/^GLOSS_DAYS.*/GLOSS_DAYS 120/' /etc/paint.defs", FOLLOWED),
            ("sed -i 's/^GLOSS_DAYS.*/GLOSS_DAYS 99/' /etc/paint.defs", VIOLATED),
        ],
    ),
    (
        "paintctl alone changed nothing. Use brushctl --sync.",
        [
            ("paintctl on\nbrushctl --sync", FOLLOWED),
        ],
    ),
    (
        "systemctl stop paintd did not last, since paintd.socket woke it; mask both units.",
        [
            ("systemctl mask --now paintd.socket paintd", FOLLOWED),
            ("systemctl stop paintd", VIOLATED),
        ],
    ),
]


@pytest.mark.parametrize(
    ("tip", "script", "expected"),
    [(tip, script, expected) for tip, cases in ADVICE for script, expected in cases],
)
def test_advice_in_a_sentence_gets_its_verdict(tip: str, script: str, expected: Verdict) -> None:
    result = trace(tip=tip, script=script)
    assert result.verdict is expected, result


def test_the_score_is_the_share_of_what_was_advised() -> None:
    tip = "Write Coat 3, Wait 9 and Try 5 to /etc/brush.conf, then systemctl reload brushd."
    lines = ["Coat 3", "Wait 9", "Try 5"]
    scores = []
    for done in range(4):
        text = "".join(f"echo '{line}' >> /etc/brush.conf\n" for line in lines[:done])
        result = trace(tip=tip, script=text + "systemctl reload brushd\n")
        assert result.score is not None
        scores.append(result.score)
        assert (result.verdict is FOLLOWED) == (done >= 2)
    assert scores == sorted(scores)
    assert scores[0] < 0.2
    assert scores[-1] == 1.0
