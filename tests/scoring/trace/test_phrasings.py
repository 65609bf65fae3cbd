"""Verdicts on advice in a sentence, by how it is put; programs, files and texts are made up.

Guarantees: the same advice is found in an order, a description of the goal, a report, a warning.

Does not guarantee more than one or two examples of each: the classes are in `test_advice`.

Shaped by a reader of tips that knew the phrasings of the author it was written beside.
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
    (
        "Never set Gloss 0 in /etc/paint.conf.",
        [
            ("echo 'Gloss 0' >> /etc/paint.conf", VIOLATED),
        ],
    ),
    (
        "Instead of sed on /etc/paint.conf, drop a file into /etc/paint.conf.d.",
        [
            ("echo 'Gloss 1' > /etc/paint.conf.d/10-own.conf", FOLLOWED),
        ],
    ),
    (
        "The scanner only reads /etc/paint.d; put Gloss 3 there.",
        [
            ("echo 'Gloss 3' > /etc/paint.d/g.conf", FOLLOWED),
        ],
    ),
    (
        "Set permissions of /etc/paint.key to 0600.",
        [
            ("chmod 0600 /etc/paint.key", FOLLOWED),
        ],
    ),
    (
        "Make /etc/paint.key mode 0600 and owned by root.",
        [
            ("chmod 0600 /etc/paint.key\nchown root /etc/paint.key", FOLLOWED),
        ],
    ),
    (
        "Use chage -M 60 for every existing account.",
        [
            ("chage -M 60 root", FOLLOWED),
            ("chage -M 90 root", NOT),
        ],
    ),
    (
        "Set PASS_MAX_DAYS to 60 in /etc/login.defs and run chage -M 60 on existing accounts.",
        [
            ("sed -i 's/^PASS_MAX_DAYS.*/PASS_MAX_DAYS 60/' /etc/login.defs", NOT),
        ],
    ),
    (
        "Disable and mask paintd.",
        [
            ("systemctl disable paintd\nsystemctl mask paintd", FOLLOWED),
        ],
    ),
    (
        "Stop and disable paintd.service.",
        [
            ("systemctl disable --now paintd", FOLLOWED),
        ],
    ),
    (
        "Set Gloss to 3 in /etc/paint.conf and restart paintd.",
        [
            ("systemctl restart paintd", NOT),
        ],
    ),
    (
        "Back up /etc/paint.conf before editing it.",
        [
            ("cp /etc/paint.conf /root/", NOT),
        ],
    ),
    (
        "Validate with paintd -t before the restart.",
        [
            ("paintd -t && systemctl restart paintd", FOLLOWED),
        ],
    ),
    (
        "The brush package must not be removed.",
        [
            ("dnf remove -y brush", VIOLATED),
        ],
    ),
    (
        "Mount /tmp with noexec by adding noexec to its options in /etc/fstab.",
        [
            ("sed -i 's|\\( /tmp .*defaults\\)|\\1,noexec|' /etc/fstab", FOLLOWED),
        ],
    ),
    (
        "The rule is satisfied once /etc/brush.conf contains Bristle=soft; appending is enough.",
        [
            ("echo Bristle=soft >> /etc/brush.conf", FOLLOWED),
        ],
    ),
    (
        "Ensure Bristle soft is present in /etc/brush.conf.",
        [
            ("sed -i 's/^Bristle.*/Bristle soft/' /etc/brush.conf", FOLLOWED),
        ],
    ),
    (
        "Always append MaxCoats 3 to /etc/brush.conf before restarting brushd.",
        [
            ("systemctl restart brushd", NOT),
            ("echo 'MaxCoats 3' >> /etc/brush.conf; systemctl restart brushd", FOLLOWED),
        ],
    ),
    (
        "Replace MaxCoats with 5 in /etc/brush.conf using sed -i "
        "'s/^MaxCoats.*/MaxCoats 5/' /etc/brush.conf.",
        [
            ("sed -i 's/^MaxCoats.*/MaxCoats 5/' /etc/brush.conf", FOLLOWED),
        ],
    ),
    (
        "Masking brushd with systemctl mask brushd made the check pass.",
        [
            ("systemctl mask brushd", FOLLOWED),
            ("systemctl disable brushd", NOT),
        ],
    ),
    (
        "sysctl -w net.q.z=0 is lost at reboot; write net.q.z = 0 to "
        "/etc/sysctl.d/90-q.conf and load it with sysctl --system.",
        [
            ("sysctl -w net.q.z=0", VIOLATED),
            ("echo 'net.q.z = 0' > /etc/sysctl.d/90-q.conf\nsysctl --system", FOLLOWED),
        ],
    ),
    (
        "Removing /etc/brush.d/05-old.conf broke brushd; keep the file and override "
        "it in /etc/brush.d/99-new.conf.",
        [
            ("rm -f /etc/brush.d/05-old.conf", VIOLATED),
            ("echo 'Coats 2' > /etc/brush.d/99-new.conf", FOLLOWED),
        ],
    ),
    (
        "Install brush-tools first, then run brushctl lock --all.",
        [
            ("dnf -y install brush-tools\nbrushctl lock --all", FOLLOWED),
            ("dnf -y install paint-tools\nbrushctl status", NOT),
        ],
    ),
    (
        "Use chmod 0640 on /var/log/brush.log, not 0644.",
        [
            ("chmod 0644 /var/log/brush.log", NOT),
            ("chmod 0640 /var/log/brush.log", FOLLOWED),
        ],
    ),
    (
        "Don't disable brushd: the health check needs it.",
        [
            ("echo 1 > /etc/x", ABSTAINED),
        ],
    ),
    (
        "BrushTimeout must be at most 30; set BrushTimeout 30 in /etc/brush.conf.",
        [
            ("echo 'BrushTimeout 30' >> /etc/brush.conf", FOLLOWED),
            ("echo 'BrushTimeout 60' >> /etc/brush.conf", NOT),
        ],
    ),
    (
        "brushd ignores /etc/brush.conf when /etc/brush.d exists, so put the "
        "override in /etc/brush.d/zz.conf.",
        [
            ("echo 'Coats 1' > /etc/brush.d/zz.conf", FOLLOWED),
        ],
    ),
    (
        "Add the nosuid,nodev options to /srv in /etc/fstab and run mount -o remount /srv.",
        [
            ("mount -o remount /srv", NOT),
        ],
    ),
    (
        "Add the nosuid option to the /srv line in /etc/fstab and run mount -o remount /srv.",
        [
            (
                "sed -i 's|\\( /srv .*defaults\\)|\\1,nosuid|' /etc/fstab\nmount -o remount /srv",
                FOLLOWED,
            ),
        ],
    ),
    (
        "Append audit=1 to the kernel command line with grubby --update-kernel=ALL "
        "--args=audit=1 rather than editing /etc/default/grub.",
        [
            (
                "sed -i 's/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX=\"audit=1\"/' /etc/default/grub",
                VIOLATED,
            ),
            ("grubby --update-kernel=ALL --args=audit=1", FOLLOWED),
        ],
    ),
    (
        "Use dnf remove brush-server, and do not touch brush-client.",
        [
            ("dnf -y remove brush-server", FOLLOWED),
            ("dnf -y remove brush-client", NOT),
        ],
    ),
    (
        "Edit /etc/pam.d/brush so that pam_brush.so gets deny=5 unlock_time=0.",
        [
            (
                "sed -i 's/pam_brush.so.*/pam_brush.so deny=5 unlock_time=0/' /etc/pam.d/brush",
                FOLLOWED,
            ),
            ("sed -i 's/pam_brush.so.*/pam_brush.so deny=9/' /etc/pam.d/brush", NOT),
        ],
    ),
    (
        "The timer must be enabled as well: systemctl enable --now brush.timer.",
        [
            ("systemctl enable --now brush.timer", FOLLOWED),
            ("systemctl enable --now brush.service", NOT),
        ],
    ),
    (
        "Set umask 077 in /etc/profile.d/brush.sh; /etc/bashrc alone is not enough.",
        [
            ("echo 'umask 077' > /etc/profile.d/brush.sh", FOLLOWED),
            ("echo 'umask 022' > /etc/profile.d/brush.sh", NOT),
        ],
    ),
    (
        "Link it: ln -sf /usr/share/brush/strict /etc/brush/policy.",
        [
            ("ln -sf /usr/share/brush/strict /etc/brush/policy", FOLLOWED),
        ],
    ),
    (
        "The previous attempt used chattr +i on /etc/brush.conf and locked the agent "
        "out; leave the attribute alone.",
        [
            ("chattr +i /etc/brush.conf", VIOLATED),
        ],
    ),
    (
        "Use useradd -D -f 30 to change the default; editing /etc/default/useradd "
        "with sed also works.",
        [
            ("useradd -D -f 30", FOLLOWED),
        ],
    ),
    (
        "Configure brushd via drop-in: mkdir -p "
        "/etc/systemd/system/brushd.service.d, write LimitCORE=0 to override.conf "
        "there, then systemctl daemon-reload.",
        [
            (
                "mkdir -p /etc/systemd/system/brushd.service.d\nprintf "
                "'[Service]\\nLimitCORE=0\\n' > "
                "/etc/systemd/system/brushd.service.d/override.conf\nsystemctl "
                "daemon-reload",
                FOLLOWED,
            ),
            ("systemctl daemon-reload", NOT),
        ],
    ),
    (
        "Comment out the Include line in /etc/brush.conf.",
        [
            ("sed -i 's/^Include/#Include/' /etc/brush.conf", FOLLOWED),
        ],
    ),
    (
        "Uncomment Bristle in /etc/brush.conf and set it to soft.",
        [
            ("sed -i 's/^#Bristle.*/Bristle soft/' /etc/brush.conf", FOLLOWED),
        ],
    ),
    (
        "firewall-cmd --permanent --add-service=brush must be followed by firewall-cmd --reload.",
        [
            ("firewall-cmd --permanent --add-service=brush\nfirewall-cmd --reload", FOLLOWED),
            ("firewall-cmd --reload", NOT),
        ],
    ),
    (
        "Use visudo -cf /etc/sudoers.d/brush to check, and set Defaults "
        "timestamp_timeout=0 in /etc/sudoers.d/brush.",
        [
            (
                "echo 'Defaults timestamp_timeout=0' > /etc/sudoers.d/brush\nvisudo -cf "
                "/etc/sudoers.d/brush",
                FOLLOWED,
            ),
            ("echo 'Defaults timestamp_timeout=15' > /etc/sudoers.d/brush", NOT),
        ],
    ),
]


@pytest.mark.parametrize(
    ("tip", "script", "expected"),
    [(tip, script, expected) for tip, cases in ADVICE for script, expected in cases],
)
def test_advice_gets_its_verdict_however_it_is_put(
    tip: str, script: str, expected: Verdict
) -> None:
    result = trace(tip=tip, script=script)
    assert result.verdict is expected, result
