"""Sorts simple commands by what they can do at most: show, look, ask the system, pass on, act.

Guarantees: pure tables and functions; a name is seen through quotes, paths and programs that only
start another one (sudo, env, timeout, xargs); what no table knows counts as an act. `truth_of_test`
decides tests that hold no variable; `goes_nowhere` knows targets that keep nothing a script decides
by: terminals, descriptors, log files.

It knows commands by name, so a function that hides behind one of these names is misread. Shaped by
scripts that did no more than look for a tip's words and were believed.
"""

from __future__ import annotations

import re
import shlex
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Kind(Enum):
    """What a command can do at most, when its output goes nowhere."""

    SHOWS = auto()
    LOOKS = auto()
    ASKS = auto()
    PASSES_ON = auto()
    ACTS = auto()


SHOWS: Final = frozenset(
    [
        "echo",
        "printf",
        "print",
        "logger",
        "wall",
        "write",
        "say",
        "puts",
        ":",
        "true",
        "false",
        "yes",
        "notify-send",
        "systemd-cat",
        "alias",
        "history",
        "exit",
        "return",
        "break",
        "continue",
        "banner",
        "figlet",
    ]
)
"""Commands whose words are shown or thrown away, unless their output goes somewhere."""
LOOKS: Final = frozenset(
    [
        "grep",
        "egrep",
        "fgrep",
        "zgrep",
        "pgrep",
        "rg",
        "test",
        "[",
        "[[",
        "ls",
        "stat",
        "file",
        "find",
        "locate",
        "which",
        "type",
        "whereis",
        "cat",
        "tac",
        "nl",
        "less",
        "more",
        "head",
        "tail",
        "wc",
        "sort",
        "uniq",
        "cut",
        "tr",
        "rev",
        "fold",
        "fmt",
        "column",
        "paste",
        "join",
        "comm",
        "diff",
        "cmp",
        "awk",
        "gawk",
        "mawk",
        "sed",
        "jq",
        "yq",
        "xxd",
        "od",
        "hexdump",
        "strings",
        "basename",
        "dirname",
        "realpath",
        "readlink",
        "expr",
        "id",
        "groups",
        "whoami",
        "logname",
        "printenv",
        "hostname",
        "uname",
        "date",
        "df",
        "du",
        "ps",
        "lsof",
        "ss",
        "netstat",
        "md5sum",
        "sha1sum",
        "sha256sum",
        "sha512sum",
        "cksum",
        "base64",
        "tput",
        "clear",
        "pwd",
        "dirs",
        "help",
        "man",
        "seq",
    ]
)
"""Commands that look at texts and files they are given by name; they change nothing."""
_WRITES: Final = {
    "find": re.compile(r"-(?:exec|execdir|ok|okdir|delete|fprint\w*|fls)"),
    "sed": re.compile(r"-[a-zA-Z]*i.*|--in-place.*|.*(?:^|[\d$/;}\s])[wW]\s+\S.*", re.DOTALL),
    "sort": re.compile(r"-\w*o.*|--output.*"),
    "date": re.compile(r"-s|--set.*"),
    "hostname": re.compile(r"[^-].*"),
    "yq": re.compile(r"-\w*i|--inplace"),
    "awk": re.compile(r".*(?:>|\bsystem\s*\(|\|\s*\").*|inplace|-i", re.DOTALL),
}
_WRITES["gawk"] = _WRITES["mawk"] = _WRITES["awk"]
"""Words that make a command write after all."""
_ASKS: Final = {
    "rpm": re.compile(r"-q\w*|--query|-V\w*|--verify"),
    "dpkg": re.compile(r"-[lsLS]|--list|--status|--get-selections"),
    "systemctl": re.compile(r"is-\w+|status|show|list-[\w-]+|cat|get-default"),
    "sysctl": re.compile(r"(?!-w|--write|-p|--load|--system)[^=]*"),
    "auditctl": re.compile(r"-[ls]"),
    "getenforce": re.compile(r".*"),
    "sestatus": re.compile(r".*"),
    "getent": re.compile(r".*"),
    "journalctl": re.compile(r"(?!--rotate|--vacuum).*"),
    "command": re.compile(r"-[vV]"),
}
"""Programs that ask the system: their first word if it is one of these. (``sysctl``: every word.)"""
_STARTS: Final = {
    "sudo": "ugpCrtTUhDR", "doas": "uC", "env": "uCS", "nice": "n", "ionice": "cnp", "nohup": "",
    "timeout": "ks", "time": "fo", "stdbuf": "ioe", "setsid": "", "command": "", "builtin": "",
    "exec": "a", "xargs": "IinLPdsEa", "chroot": "", "unbuffer": "", "busybox": "", "runuser": "ug",
    "coproc": "",
}  # fmt: skip
"""Programs that start another one, and their options that take a value."""
SHELLS: Final = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash"})
_LOST: Final = re.compile(
    r"/dev/(?:null|stderr|tty\w*|console|log|zero|full|pts/\d+|fd/(?!1$)\d+)"
    r"|/proc/(?:self|thread-self|\$\$|\$BASHPID|\d+)/fd/(?!1$)\d+|/var/log/.*|.*\.log"
)
_STDOUT: Final = re.compile(r"/dev/stdout|/dev/fd/1|/proc/(?:self|thread-self|\$\$)/fd/1|-")


def bare(word: str) -> str:
    """Return a word without quotes and backslashes."""
    return re.sub(r"['\"\\]", "", word)


def program(words: Sequence[str]) -> tuple[int, str]:
    """Return the index of the word that names the program, and its name; (0, "") if there is none."""
    at = 0
    while at < len(words):
        name = bare(words[at]).rpartition("/")[2]
        if name == "command" and bare("".join(words[at + 1 : at + 2])) in {"-v", "-V"}:
            return at, name
        if name not in _STARTS:
            return at, name
        rest = _behind_options(words, at + 1, _STARTS[name])
        rest += name in {"timeout", "chroot"}
        if rest >= len(words):
            return (at, "echo") if name == "xargs" else (at, name)
        at = rest
    return 0, ""


def _behind_options(words: Sequence[str], at: int, valued: str) -> int:
    while at < len(words):
        word = bare(words[at])
        if re.fullmatch(r"\w+=.*", word, re.DOTALL):
            at += 1
        elif not word.startswith("-") or word == "-":
            return at
        elif word == "--":
            return at + 1
        else:
            at += 2 if len(word) == 2 and word[1] in valued else 1
    return at


def kind_of(name: str, arguments: Sequence[str]) -> Kind:
    """Return what the command can do at most; ``arguments`` with their quotes."""
    words = [bare(word) for word in arguments]
    if name in SHOWS:
        return Kind.SHOWS
    if name in LOOKS:
        writes = _WRITES.get(name)
        return Kind.ACTS if writes and any(map(writes.fullmatch, words)) else Kind.LOOKS
    if name == "tee":
        files = [word for word in words if not word.startswith(("-", ">(")) or word == "-"]
        return Kind.PASSES_ON if all(map(goes_nowhere, files)) else Kind.ACTS
    asks = _ASKS.get(name)
    if asks is None:
        return Kind.ACTS
    if name == "sysctl":
        return Kind.ASKS if words and all(map(asks.fullmatch, words)) else Kind.ACTS
    plain = [word for word in words if word.startswith("-") is not (name == "systemctl")]
    first = plain[0] if plain and name not in {"getent", "journalctl"} else " ".join(words)
    return Kind.ASKS if asks.fullmatch(first) else Kind.ACTS


def is_stdout(target: str) -> bool:
    """Whether a redirection to ``target`` leaves the output where it goes anyway."""
    return bool(_STDOUT.fullmatch(_path(target)))


def goes_nowhere(target: str) -> bool:
    """Whether what is written to ``target`` is only shown, logged or lost."""
    path = _path(target)
    return bool(_LOST.fullmatch(path) or _STDOUT.fullmatch(path))


def _path(target: str) -> str:
    return re.sub(r"/(?:\./|/)+", "/", bare(target).strip())


_BINARY: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "-eq": lambda a, b: int(a) == int(b),
    "-ne": lambda a, b: int(a) != int(b),
    "-lt": lambda a, b: int(a) < int(b),
    "-le": lambda a, b: int(a) <= int(b),
    "-gt": lambda a, b: int(a) > int(b),
    "-ge": lambda a, b: int(a) >= int(b),
}
_ARITHMETIC: Final = {
    "==": "-eq", "!=": "-ne", "<": "-lt", "<=": "-le", ">": "-gt", ">=": "-ge",
}  # fmt: skip


def truth_of_test(text: str) -> bool | None:
    """Return what a test (``[ 1 = 2 ]``, ``[[ -n "" ]]``, ``test x``, ``((0))``) says; None: unknown.

    Only tests of written words are decided, none that reads a variable, a file or a pattern.
    """
    text = text.strip()
    number = re.fullmatch(r"\(\(\s*(\d+)\s*(?:([=!<>]=|[<>])\s*(\d+)\s*)?\)\)", text)
    if number and number[2]:
        return _BINARY[_ARITHMETIC[number[2]]](number[1], number[3])
    if number:
        return int(number[1]) != 0
    inner = re.fullmatch(r"\[\[?\s(.*?)\s?\]?\]|test(\s.*)?", text, re.DOTALL)
    if inner is None or re.search(r"[$`*?]|&&|\|\|", text):
        return None
    try:
        return _truth_of_words(shlex.split(inner[1] or inner[2] or ""))
    except ValueError:
        return None


def _truth_of_words(words: list[str]) -> bool | None:
    if len(words) > 1 and words[0] == "!":
        rest = _truth_of_words(words[1:])
        return None if rest is None else not rest
    if len(words) <= 1:
        return bool(words and words[0])
    if len(words) == 2 and words[0] in {"-n", "-z"}:
        return (words[0] == "-n") is bool(words[1])
    if len(words) == 3 and words[1] in _BINARY:
        return _BINARY[words[1]](words[0], words[2])
    return None
