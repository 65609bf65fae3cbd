"""A family of attacks: scripts that hold a tip's words and do nothing, and scripts that really do.

Holds no assertions. Each no-op is a whole script around ``{text}``; every act is a script and the
quote in it that shows the act. Shaped by a script of one ``grep -q '…'`` that published a verified
"followed", and by real commands that came back unverified for standing behind a pipe.
"""

from __future__ import annotations

from typing import Final

TEXTS: Final = ("systemctl mask kdump as advised", "chmod 0600 /etc/kdump.conf now")

NO_OPS: Final = {
    # commands that only look
    "a pattern that is looked for": "grep -q '{text}' /etc/hosts",
    "a look in a condition of nothing": "if grep -q '{text}' /etc/hosts; then echo yes; fi",
    "a look on which a message hangs": "grep -q '{text}' /etc/hosts && echo '{text}'",
    "a look on which a look hangs": "grep -q '{text}' /etc/hosts || ls '{text}'",
    "a look through sudo": "sudo -n grep -q '{text}' /etc/hosts",
    "a look by its path": "/usr/bin/grep -q '{text}' /etc/hosts",
    "a look with quotes in its name": "g'r'ep -q '{text}' /etc/hosts",
    "a look without errors": "ls '{text}' >/dev/null 2>&1",
    "a look of xargs": "xargs -n 1 grep '{text}' < /etc/hosts",
    "a test": "[[ '{text}' ]]",
    "an old test": "[ '{text}' = x ]",
    "a test by name": "test -n '{text}'",
    "a look by sed": "sed -n '/{text}/p' /etc/hosts",
    "a look by find": "find /etc -name '{text}'",
    "a look by awk": "awk '/{text}/' /etc/hosts",
    "a look at a command": "command -v '{text}'",
    "a question": "rpm -q '{text}'",
    "a case of nothing": "case '{text}' in x) ls;; esac",
    # messages
    "a message": "echo '{text}'",
    "a message into a filter": "echo '{text}' | grep -q x",
    "a message through two filters": "echo '{text}' | sed 's/^/  /' | sort -u",
    "a message into tee on nothing": "echo '{text}' | tee /dev/null",
    "a message into xargs": "echo '{text}' | xargs",
    "a message into a loop of messages": "echo '{text}' | while read -r x; do echo \"$x\"; done",
    "a message to a descriptor": "echo '{text}' >/dev/fd/2",
    "a message to a descriptor of proc": "echo '{text}' > /proc/self/fd/2",
    "a message to a path with dots": "echo '{text}' > /dev/./fd//2",
    "a message to the terminal": "echo '{text}' | cat >/dev/tty",
    "a message to a name of nothing": "out=/dev/null\necho '{text}' > \"$out\"",
    "a message to a log": "echo '{text}' >> /var/log/hardening.log",
    "messages to a log": "exec > >(tee -a /var/log/run.log) 2>&1\necho '{text}'",
    "a group to nowhere": "{ echo '{text}'; } > /dev/null",
    "a branch of a message": "case $1 in *) echo '{text}';; esac >&2",
    "a function of a message": "say_it() { echo '{text}'; }\nsay_it",
    "a message in a shell": "bash -c \"echo '{text}'\"",
    "a message that is evaluated": "eval 'echo {text}'",
    "a document for a shell": "bash <<'EOF'\necho '{text}'\nEOF",
    "a document for a filter": "cat <<'EOF' | grep -q x\n{text}\nEOF",
    "the name of a document": "cat > /dev/null <<'{text}'\nx\n{text}",
    "a here-string for a loop": "while read -r x; do :; done <<< '{text}'",
    # variables
    "a note": "note='{text}'",
    "a note that is shown": "note='{text}'\necho \"$note\"",
    "a note that is shown under another name": "a='{text}'\nb=$a\necho \"${b}\"",
    "a note that grows": 'note=\'{text}\'\nnote="$note and"\necho "$note"',
    "a note that is tested": "note='{text}'\n[ -n \"$note\" ] && echo ok",
    "a note that is exported": "export NOTE='{text} to all'",
    "a note that is constant": "readonly NOTE='{text}'",
    "a note by printf": "printf -v note '%s' '{text}'\necho \"$note\"",
    "a note by substitution": "note=$(echo '{text}')\necho \"$note\"",
    "a note by read": "read -r -d '' note <<'EOF'\n{text}\nEOF\necho \"$note\"",
    "a list that is shown": "notes=('{text}' b)\nprintf '%s\\n' \"${notes[@]}\"",
    "a loop of messages": "for x in '{text}' b; do echo \"$x\"; done",
    "arguments that are shown": "set -- '{text}'\necho \"$1\"",
    "an alias": "alias kd='{text}'",
    # what is never run
    "a false branch": "if false; then\n  {text}\nfi",
    "the other branch": "if true; then\n  echo ok\nelse\n  {text}\nfi",
    "a branch behind a constant": "if [ 1 -eq 2 ]; then {text}; fi",
    "a branch behind an empty text": 'if [[ -n "" ]]; then {text}; fi',
    "a branch behind not": "if ! true; then {text}; fi",
    "a branch behind zero": "((0)) && {text}",
    "a command behind false": "false && {text}",
    "a command behind true": "true || {text}",
    "a command behind a false test": "[ a = b ] && {text}",
    "a loop that never starts": "while false; do {text}; done",
    "a loop that ends first": "until true; do {text}; done",
    "a loop over nothing": "for x in; do {text}; done",
    "a case that cannot be": "case a in b) {text};; esac",
    "a command behind exit": "exit 0\n{text}",
    "a command behind a certain exit": "if true; then exit 0; fi\n{text}",
    "a command behind exec": "exec true\n{text}",
    "a command behind an endless loop": "while true; do :; done\n{text}",
    "a command behind a failure": "set -e\nfalse\n{text}",
    "a command that is only parsed": "set -n\n{text}",
    "a function that nothing calls": "apply() {\n  {text}\n}",
    "a function that is only named": "apply() {\n  {text}\n}\necho apply",
    "functions that call each other": "a() { b; }\nb() { {text}; }\nfalse && a",
    "a command behind return": "f() { return 0; {text}; }\nf",
}

ACTS: Final = {
    "behind a question": ("getenforce | grep -q Enforcing || setenforce 1", "setenforce 1"),
    "the question itself": (
        "getenforce | grep -q Enforcing || setenforce 1",
        "getenforce | grep -q Enforcing",
    ),
    "the line": (
        "getenforce | grep -q Enforcing || setenforce 1",
        "getenforce | grep -q Enforcing || setenforce 1",
    ),
    "behind sudo": ("rpm -q aide || sudo setenforce 1; true", "setenforce 1"),
    "a question by itself": ("rpm -q aide", "rpm -q aide"),
    "a look that decides": (
        "if ! grep -q '^x y' /etc/x; then\n  sed -i 1d /etc/x\nfi",
        "if ! grep -q '^x y' /etc/x; then",
    ),
    "a look that ends": (
        "grep -q '^x y' /etc/x || exit 1\nsed -i 1d /etc/x",
        "grep -q '^x y' /etc/x",
    ),
    "a look of a function": (
        "has() { grep -q '^x y' \"$1\"; }\nhas /etc/x || sed -i 1d /etc/x",
        "grep -q '^x y' \"$1\"",
    ),
    "a test that decides": ("[ -f /etc/x ] && rm /etc/x", "[ -f /etc/x ]"),
    "a function into a file": (
        "gen() {\n  echo 'net.x = 0'\n}\ngen > /etc/sysctl.d/x",
        "echo 'net.x = 0'",
    ),
    "a function into a pipe": ("gen() { echo 'net.x = 0'; }\ngen | tee /etc/x", "echo 'net.x = 0'"),
    "a function in a function": (
        "a() { echo 'net.x = 0'; }\nb() { a; }\nb > /etc/x",
        "echo 'net.x = 0'",
    ),
    "a function in a substitution": (
        "a() { echo 'net.x = 0'; }\nsysctl -w \"$(a)\"",
        "echo 'net.x = 0'",
    ),
    "a case into a file": ("case $1 in\n a) echo 'net.x = 0';;\nesac > /etc/x", "echo 'net.x = 0'"),
    "output that was moved": ("exec > /etc/x\necho 'net.x = 0'", "echo 'net.x = 0'"),
    "a descriptor that was opened": (
        "exec 3> /etc/x\necho 'net.x = 0' >&3",
        "echo 'net.x = 0' >&3",
    ),
    "a text by printf": (
        "printf -v out '%s %s' PASS_MAX_DAYS 60\nsed -i \"s/^P.*/$out/\" /etc/x",
        "printf -v out '%s %s' PASS_MAX_DAYS 60",
    ),
    "a variable that is written": (
        "line='net.x = 0'\necho \"$line\" >> /etc/x",
        "line='net.x = 0'",
    ),
    "a variable of a loop": (
        "for x in 'net a' 'net b'; do sysctl -w \"$x\"; done",
        "'net a' 'net b'",
    ),
    "through a filter into a file": ("echo 'net.x = 0' | sort -u > /etc/x", "echo 'net.x = 0'"),
    "through a loop": (
        "echo 'net.x=0' | while read -r x; do sysctl -w \"$x\"; done",
        "echo 'net.x=0'",
    ),
    "through xargs": ("echo 'kdump crash' | xargs systemctl mask", "echo 'kdump crash'"),
    "a filter that writes": ("echo 'net.x = 0' | awk '{print > \"/etc/x\"}'", "echo 'net.x = 0'"),
    "words behind a redirection": (
        "find / -xdev 2>/dev/null -exec chmod a+t {} +",
        "-exec chmod a+t {} +",
    ),
    "a document with the file behind": ("tee <<'EOF' /etc/x\nnet.x = 0\nEOF", "net.x = 0"),
    "in a message": ('echo "now: $(systemctl mask kdump)"', "systemctl mask kdump"),
    "a function by trap": (
        "undo() { systemctl mask kdump; }\ntrap undo EXIT",
        "systemctl mask kdump",
    ),
    "a function by a variable": ('f() { systemctl mask kdump; }\n"$1"', "systemctl mask kdump"),
    "a branch that may be": (
        'if [ "$1" = x ]; then systemctl mask kdump; fi',
        "systemctl mask kdump",
    ),
    "a case that may be": ("case $1 in a) systemctl mask kdump;; esac", "systemctl mask kdump"),
    "behind an exit that may be": (
        "[ -f /x ] || exit 0\nsystemctl mask kdump",
        "systemctl mask kdump",
    ),
    "in a shell": ("bash -c 'systemctl mask kdump'", "systemctl mask kdump"),
    "in a document for a shell": (
        "ssh h bash <<'EOF'\nsystemctl mask kdump\nEOF",
        "systemctl mask kdump",
    ),
    "a share in a document": (
        "cat >> /etc/fstab <<'EOF'\n//server/share /mnt cifs nosuid 0 0\nEOF",
        "//server/share /mnt cifs nosuid 0 0",
    ),
    "beside other letters": (
        "echo \u201egr\u00fcn\u201c \U0001f600; systemctl mask kdump",
        "systemctl mask kdump",
    ),
    "with carriage returns": ("echo a\r\nsystemctl mask kdump\r\n", "systemctl mask kdump"),
    "a line of Python": (
        "import os\nif True:\n    os.chmod('/etc/x', 0o600)\n",
        "os.chmod('/etc/x', 0o600)",
    ),
}
