"""Verdicts by class of advice: every tip and script here is made up for the test."""

from __future__ import annotations

import pytest

from scoring.trace import Verdict, trace

FOLLOWED, VIOLATED, NOT, ABSTAINED = (
    Verdict.FOLLOWED,
    Verdict.VIOLATED,
    Verdict.NOT_FOLLOWED,
    Verdict.ABSTAINED,
)

CASES = {
    # Services: verb and unit
    "service enabled": (
        "Run:\n\n$ sudo systemctl enable --now printd",
        "systemctl enable printd.service",
        FOLLOWED,
    ),
    "service by variable": (
        "Run:\n\n$ sudo systemctl enable --now printd",
        'CTL=/usr/bin/systemctl\n"$CTL" unmask printd\n"$CTL" enable printd',
        FOLLOWED,
    ),
    "service the other way": (
        "Enable it:\n$ sudo systemctl enable printd",
        "systemctl disable --now printd",
        VIOLATED,
    ),
    "service masked": (
        "Enable it:\n$ sudo systemctl enable printd",
        "systemctl mask printd",
        VIOLATED,
    ),
    "disabled, but enabled": (
        "$ sudo systemctl disable --now printd",
        "systemctl enable printd\nsystemctl start printd",
        VIOLATED,
    ),
    "another service": (
        "$ sudo systemctl enable --now printd",
        "systemctl enable --now scand",
        NOT,
    ),
    "last verb stands": (
        "$ systemctl enable printd",
        "systemctl disable printd\nsystemctl enable printd",
        FOLLOWED,
    ),
    "prose restart": (
        "After changing its file, restart printd via systemctl.",
        "systemctl restart printd",
        FOLLOWED,
    ),
    "prose restart missing": (
        "After changing its file, restart printd via systemctl.",
        "echo a=1 >> /etc/printd.conf",
        NOT,
    ),
    # Packages
    "package": (
        "$ sudo dnf install lynx",
        'if ! rpm -q lynx; then\n  yum install -y "lynx"\nfi',
        FOLLOWED,
    ),
    "package removed": ("$ sudo dnf install lynx", "dnf remove -y lynx", VIOLATED),
    "package erased": ("$ sudo dnf remove rshd", "yum erase -y rshd", FOLLOWED),
    "another package": ("$ sudo dnf install lynx", "dnf install -y elinks", NOT),
    "only queried": ("$ sudo dnf install lynx", "rpm -q lynx", NOT),
    # Lines in files
    "line by echo": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        'echo "MaxTries=4" >> /etc/x.conf',
        FOLLOWED,
    ),
    "line by printf": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "k=MaxTries\nprintf -v row '%s = %s' \"$k\" 4\nprintf '%s\\n' \"$row\" >> /etc/x.conf",
        FOLLOWED,
    ),
    "line by heredoc": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "cat > /etc/x.conf <<EOF\nMaxTries = 4\nEOF",
        FOLLOWED,
    ),
    "line by tee": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "echo MaxTries = 4 | sudo tee -a /etc/x.conf",
        FOLLOWED,
    ),
    "line by sed": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "sed -i 's/^#\\?MaxTries.*/MaxTries = 4/' /etc/x.conf",
        FOLLOWED,
    ),
    "deleted, then set": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "sed -i '/^MaxTries/d' /etc/x.conf\necho 'MaxTries = 4' >> /etc/x.conf",
        FOLLOWED,
    ),
    "moved into place": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "echo 'MaxTries = 4' > /tmp/new\nmv /tmp/new /etc/x.conf",
        FOLLOWED,
    ),
    "other value": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "echo MaxTries = 99999 >> /etc/x.conf",
        NOT,
    ),
    "other file": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "echo MaxTries = 4 >> /etc/y.conf",
        NOT,
    ),
    "commented out": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "echo '# MaxTries = 4' >> /etc/x.conf",
        NOT,
    ),
    "only printed": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "echo MaxTries = 4\ngrep MaxTries /etc/x.conf",
        NOT,
    ),
    "only deleted": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "sed -i '/^MaxTries/d' /etc/x.conf",
        VIOLATED,
    ),
    "set, then deleted": (
        'Add this line to "/etc/x.conf":\n\nMaxTries = 4',
        "echo 'MaxTries = 4' >> /etc/x.conf\nsed -i '/^MaxTries/d' /etc/x.conf",
        VIOLATED,
    ),
    "truth turned round": (
        'Set it in "/etc/x.conf":\n\nAllowGuests no',
        "echo 'AllowGuests yes' >> /etc/x.conf",
        VIOLATED,
    ),
    "drop-in allowed": (
        'Add this line to "/etc/x.conf" or to a file in "/etc/x.conf.d":\n\nAllowGuests no',
        "echo 'AllowGuests no' > /etc/x.conf.d/10-site.conf",
        FOLLOWED,
    ),
    "kernel setting": (
        'Add to a file in the "/etc/sysctl.d/" directory:\n\nnet.a.b = 1',
        "echo net.a.b=1 > /etc/sysctl.d/90-own.conf",
        FOLLOWED,
    ),
    "kernel setting at run time only": (
        'Add to a file in the "/etc/sysctl.d/" directory:\n\nnet.a.b = 1',
        "sysctl -w net.a.b=1",
        NOT,
    ),
    "module row": (
        'Write to "/etc/modprobe.d/f.conf":\n\ninstall firebus /bin/false',
        "echo 'install firebus /bin/false' > /etc/modprobe.d/f.conf",
        FOLLOWED,
    ),
    "row of another module": (
        'Write to "/etc/modprobe.d/f.conf":\n\ninstall firebus /bin/false',
        "echo 'install otherbus /bin/false' > /etc/modprobe.d/o.conf",
        NOT,
    ),
    "audit rule": (
        'Add to "/etc/audit/rules.d/own.rules":\n\n-a always,exit -F path=/bin/foo -F perm=x -k foo',
        'R="-F path=/usr/bin/foo"\nD=/etc/audit/rules.d\n'
        'for f in $D/a.rules; do echo "-a always,exit $R -F perm=x -k other" >> "$f"; done',
        FOLLOWED,
    ),
    "audit rule on another program": (
        'Add to "/etc/audit/rules.d/own.rules":\n\n-a always,exit -F path=/bin/foo -F perm=x -k foo',
        "echo '-a always,exit -F path=/usr/bin/bar -F perm=x -k foo' >> /etc/audit/rules.d/a.rules",
        NOT,
    ),
    "mount option": (
        'Modify "/etc/fstab" to use the "noatime" option on the "/srv" file system.',
        "sed -i 's|\\( /srv .*defaults\\)|\\1,noatime|' /etc/fstab",
        FOLLOWED,
    ),
    "mount option elsewhere": (
        'Modify "/etc/fstab" to use the "noatime" option on the "/srv" file system.',
        "echo '/dev/sdb /var/srv ext4 noatime 0 0' >> /etc/fstab",
        NOT,
    ),
    "pam option": (
        'Set "tries" in "/etc/pam.d/door":\n\nauth required pam_door.so tries=3',
        "sed -i -E 's/^(auth\\s+required\\s+pam_door.so.*)/\\1 tries=3/' /etc/pam.d/door",
        FOLLOWED,
    ),
    # Modes, owners, links
    "mode": ("$ sudo chmod 0640 /etc/x.key", "chmod 640 /etc/x.key", FOLLOWED),
    "mode by letters": (
        "$ sudo chmod 0640 /etc/x.key",
        "chmod u-xs,g-xws,o-xwrt /etc/x.key",
        FOLLOWED,
    ),
    "another mode": ("$ sudo chmod 0640 /etc/x.key", "chmod 0666 /etc/x.key", NOT),
    "owner by number": (
        "$ sudo chown root /etc/x.key",
        'o=0\nchown --no-dereference "$o" /etc/x.key',
        FOLLOWED,
    ),
    "group is not owner": ("$ sudo chown root /etc/x.key", "chgrp root /etc/x.key", NOT),
    "found files": (
        "$ sudo chgrp root /etc/x.d",
        "find /etc/x.d -type f -exec chgrp root {} \\;",
        FOLLOWED,
    ),
    "link": ("$ sudo ln -s /usr/share/a /etc/a", "ln -sf /usr/share/a /etc/a", FOLLOWED),
    "link elsewhere": ("$ sudo ln -s /usr/share/a /etc/a", "ln -s /usr/share/a /etc/b", NOT),
    # Other programs
    "program and value": ("Use `polctl --set STRICT`.", 'p=STRICT\npolctl --set "$p"', FOLLOWED),
    "program, other value": ("Use `polctl --set STRICT`.", "polctl --set LOOSE", NOT),
    "feature turned off": (
        "$ authselect enable-feature with-x",
        "authselect disable-feature with-x",
        VIOLATED,
    ),
    "kernel argument": (
        '$ sudo grubby --update-kernel=ALL --args="a=1"',
        "grubby --update-kernel=ALL --args=a=1",
        FOLLOWED,
    ),
    "kernel argument removed": (
        '$ sudo grubby --update-kernel=ALL --args="a=1"',
        "grubby --update-kernel=ALL --remove-args=a=1",
        VIOLATED,
    ),
    "in quotes of bash": ("$ sudo useradd -D -f 20", "bash -c 'useradd -D -f 20'", FOLLOWED),
    # Removal
    "word removed": (
        'Remove any occurrence of "trusty" in the "/etc/door" file.',
        "sed -i '/trusty/d' /etc/door",
        FOLLOWED,
    ),
    "word commented out": (
        'Remove any occurrence of "trusty" in the "/etc/door" file.',
        "sed -i 's/^.*trusty/# &/' /etc/door",
        FOLLOWED,
    ),
    "word added": (
        'Remove any occurrence of "trusty" in the "/etc/door" file.',
        "echo trusty >> /etc/door",
        VIOLATED,
    ),
    # Warnings and reported failures
    "instead of": (
        "Use polctl-update --set STRICT instead of manually editing door_config.",
        "echo x >> /etc/door/door_config",
        VIOLATED,
    ),
    "instead, first": (
        "Instead of editing /etc/door.conf, run `doorctl lock`.",
        "doorctl lock",
        FOLLOWED,
    ),
    "rather than": (
        "Write /etc/door.d/own.conf rather than /etc/door.conf.",
        "echo a=1 > /etc/door.conf",
        VIOLATED,
    ),
    "do not": (
        "Do not edit /etc/door.conf; run `doorctl lock`.",
        "sed -i 's/a/b/' /etc/door.conf",
        VIOLATED,
    ),
    "never, but reads": (
        "Never touch /etc/door.conf. Run `doorctl lock`.",
        "grep a /etc/door.conf\ndoorctl lock",
        FOLLOWED,
    ),
    "attempt failed": (
        "Attempted appending Ciphers to door_config; failed because the rule checks another file.",
        "echo Ciphers a >> /etc/door_config",
        VIOLATED,
    ),
    "attempt failed, avoided": (
        "Attempted appending Ciphers to door_config; failed because of the rule.",
        "doorctl lock",
        ABSTAINED,
    ),
    "it failed": (
        "Tried `doorctl open`. It failed. Use `doorctl lock` instead.",
        "doorctl open",
        VIOLATED,
    ),
    "it failed, obeyed": (
        "Tried `doorctl open`. It failed. Use `doorctl lock` instead.",
        "doorctl lock",
        FOLLOWED,
    ),
    "does not work": (
        "`doorctl open` does not work here; use conf.d files.",
        "echo a=1 > /etc/door/conf.d/a.conf",
        FOLLOWED,
    ),
    "broke": (
        "Setting `Banner none` broke the login; keep `Banner /etc/issue`.",
        "echo 'Banner none' >> /etc/door.conf",
        VIOLATED,
    ),
    "not manual": (
        "The rule needs doorctl-sync via `doorctl-sync`, not /etc/door.conf.",
        "doorctl-sync",
        FOLLOWED,
    ),
    "both done": (
        "Use `doorctl lock` instead of editing /etc/door.conf.",
        "echo a >> /etc/door.conf\ndoorctl lock",
        VIOLATED,
    ),
    "passive failure names its agent": (
        "Editing /etc/door.conf gets overwritten by doorctl; run `doorctl lock`.",
        "doorctl lock",
        FOLLOWED,
    ),
    "so it has no effect": (
        "The check reads /etc/door.d/, so writing to /etc/door.conf has no effect.",
        "echo a >> /etc/door.conf",
        VIOLATED,
    ),
    "not enough alone": (
        "`doorctl lock` is not enough; write /etc/door.d/own.conf.",
        "echo a > /etc/door.d/own.conf\ndoorctl lock",
        FOLLOWED,
    ),
    "needed, or else": ("Without `--hard`, doorctl lock fails.", "doorctl lock --hard", FOLLOWED),
    "worked after the other failed": (
        "Setting DELAY_X=4 worked after DELAY_X=2 was rejected.",
        "echo DELAY_X=4 >> /etc/d",
        FOLLOWED,
    ),
    "state of a service": ("printd must stay disabled.", "systemctl enable printd", VIOLATED),
    "value in a sentence": (
        "In /etc/x.conf MaxTries must be set to 4.",
        "echo MaxTries 4 >> /etc/x.conf",
        FOLLOWED,
    ),
    "generated, not edited": (
        "Edits of /etc/door.map are lost; run `door-mkmap -o /etc/door.map`.",
        "door-mkmap -o /etc/door.map",
        FOLLOWED,
    ),
    # Nothing to look for
    "vague": ("Be careful and think before you act.", "echo a=1 > /etc/x", ABSTAINED),
    "no script": ("$ sudo dnf install lynx", "", ABSTAINED),
    "script of comments": ("$ sudo dnf install lynx", "# dnf install lynx\n", ABSTAINED),
}


@pytest.mark.parametrize(("tip", "script", "expected"), CASES.values(), ids=CASES.keys())
def test_a_class_of_advice_gets_its_verdict(tip: str, script: str, expected: Verdict) -> None:
    result = trace(tip=tip, script=script)
    assert result.verdict is expected, result
