"""Words of a trade as data: which verbs are opposites, which programs do the same.

Guarantees: immutable and hashable (it is part of cache keys); `from_mapping` takes the `[actions]`
table of a skill file, adds to the defaults, and refuses what it does not understand by naming the
key. Everything here is about programs and verbs, nothing about rules, tips or files.

Does not guarantee completeness: a verb it has never heard of is compared by its letters.

Shaped by a similarity that could not tell enable from disable: opposites must be known, they
cannot be measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache


class VocabularyError(ValueError):
    """The `[actions]` table of a skill file cannot be used; the message names the key."""


_OPPOSITES = (
    ("enable", "disable"), ("start", "stop"), ("mask", "unmask"), ("mask", "enable"),
    ("stop", "enable"), ("disable", "start"), ("mask", "start"), ("install", "remove"),
    ("reinstall", "remove"), ("update", "remove"), ("lock", "unlock"), ("add", "remove"),
    ("add", "delete"), ("set", "unset"), ("allow", "deny"), ("load", "unload"),
    ("create", "delete"), ("args", "remove-args"), ("permit", "deny"),
)  # fmt: skip
_SYNONYMS = (
    ("remove", ("erase", "purge", "autoremove", "uninstall", "delete", "drop")),
    ("install", ("localinstall", "in", "groupinstall")),
    ("update", ("upgrade", "up", "dist-upgrade")),
    ("restart", ("try-restart", "reload-or-restart", "condrestart")),
    ("reload", ("force-reload",)),
)
_PACKAGE_TOOLS = ("dnf", "yum", "apt", "apt-get", "zypper", "microdnf", "tdnf", "rpm", "pip")
_WRAPPERS = ("sudo", "doas", "env", "nohup", "nice", "ionice", "exec", "command", "builtin",
             "time", "timeout", "stdbuf", "setsid", "then", "do")  # fmt: skip
# Programs that only look: a tip that runs them asks for a check, not for a change.
_READERS = (
    "grep", "egrep", "fgrep", "zgrep", "cat", "ls", "stat", "getent", "less", "more", "head",
    "tail", "awk", "cut", "sort", "uniq", "wc", "diff", "test", "[", "[[", "readlink", "id", "ps",
    "df", "lsblk", "lsmod", "findmnt", "journalctl", "ausearch", "aureport", "rpm -q", "rpm -V",
    "systemctl status", "systemctl is-active", "systemctl is-enabled", "systemctl list-units",
    "auditctl -l", "auditctl -s", "sshd -T", "sshd -t", "which", "whoami", "uname", "date", "man",
    "ss", "netstat", "echo", "printf", "true", "false", ":", "exit", "return", "cd", "set", "shopt",
    "source", ".", "export", "read", "mapfile", "readarray", "sleep", "dpkg-query", "basename",
    "dirname", "pgrep", "tr", "xargs", "find", "su", "mountpoint", "getenforce", "sestatus",
    "visudo", "popd", "pushd",
)  # fmt: skip
# Steps that put a change into force, or prepare for it; seldom the change itself.
_ACTIVATORS = (
    "systemctl restart", "systemctl reload", "systemctl daemon-reload", "systemctl reboot",
    "reboot", "shutdown", "init", "sysctl --system", "sysctl -p", "augenrules", "dconf update",
    "mount", "umount",
    "service", "grub2-mkconfig", "update-grub", "dracut", "newaliases", "mkdir", "touch", "vi",
    "vim", "nano", "rm", "cp", "mv", "udevadm", "ldconfig", "update-initramfs",
    "authselect apply-changes", "dnf reinstall", "yum reinstall", "vgs", "dnf clean", "logger",
    "firewall-cmd --reload", "restorecon", "fapolicyd-cli", "postmap", "sysctl --load",
)  # fmt: skip
_TRUE_WORDS = ("yes", "true", "on", "1", "enable", "enabled")
_FALSE_WORDS = ("no", "false", "off", "0", "disable", "disabled")
# Programs a prose tip may name without a prompt sign or quotes.
_PROGRAMS = (
    "systemctl", "dnf", "yum", "apt-get", "zypper", "rpm", "sysctl", "chmod", "chown", "chgrp",
    "auditctl", "augenrules", "grubby", "authselect", "update-crypto-policies", "fips-mode-setup",
    "useradd", "usermod", "userdel", "groupadd", "passwd", "chage", "modprobe", "rmmod", "sed",
    "awk", "tee", "firewall-cmd", "nmcli", "semanage", "setsebool", "restorecon", "setenforce",
    "mount", "umount", "crontab", "dconf", "gsettings", "postconf", "timedatectl", "hostnamectl",
    "aide", "iptables", "nft", "ufw", "pam-auth-update", "faillock", "oscap", "visudo", "ip",
    "swapoff", "setfacl", "ln", "crudini", "augtool", "dracut", "grub2-mkconfig", "update-grub",
    "localectl", "loginctl", "networkctl", "resolvectl", "chattr", "dpkg", "apt", "pip", "git",
    "alternatives", "update-alternatives", "subscription-manager", "update-ca-trust", "setcap",
    "service", "chkconfig",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionVocabulary:
    """The verbs and programs of one skill. `default()` is Unix system administration."""

    opposites: tuple[tuple[str, str], ...] = _OPPOSITES
    synonyms: tuple[tuple[str, tuple[str, ...]], ...] = _SYNONYMS
    package_tools: tuple[str, ...] = _PACKAGE_TOOLS
    wrappers: tuple[str, ...] = _WRAPPERS
    readers: tuple[str, ...] = _READERS
    activators: tuple[str, ...] = _ACTIVATORS
    programs: tuple[str, ...] = _PROGRAMS
    true_words: tuple[str, ...] = _TRUE_WORDS
    false_words: tuple[str, ...] = _FALSE_WORDS
    _canonical: dict[str, str] = field(init=False, repr=False, compare=False)
    _opposed: frozenset[tuple[str, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive the look-up tables once; they are asked for every pair of actions."""
        canonical = {word: verb for verb, words in self.synonyms for word in words}
        object.__setattr__(self, "_canonical", canonical)
        pairs = frozenset(self.opposites)
        object.__setattr__(self, "_opposed", pairs | {(right, left) for left, right in pairs})

    @classmethod
    def default(cls) -> ActionVocabulary:
        """Return the built-in vocabulary (always the same object)."""
        return _default()

    @classmethod
    def from_mapping(cls, table: Mapping[str, object]) -> ActionVocabulary:
        """Add the `[actions]` table of a skill file to the defaults.

        `opposites` is a list of pairs, `synonyms` a table of verb -> list of verbs, every other
        key a list of words. Raises VocabularyError for an unknown key or a value of another shape.
        """
        base = cls.default()
        known = {item.name for item in fields(cls) if item.init}
        values: dict[str, tuple[object, ...]] = {}
        for key, value in table.items():
            if key not in known:
                raise VocabularyError(
                    f"[actions] has an unknown key {key!r}; known keys: {', '.join(sorted(known))}"
                )
            values[key] = getattr(base, key) + _entries(key, value)
        return cls(**values)  # type: ignore[arg-type]  # names and shapes were checked above

    def canonical(self, verb: str) -> str:
        """Return the verb that stands for this one ("erase" -> "remove")."""
        lowered = verb.lower().lstrip("-")
        return self._canonical.get(lowered, lowered)

    def are_opposite(self, one: str, other: str) -> bool:
        """Say whether two verbs undo each other; "enable-feature" is read by its first part."""
        left, right = self.canonical(one), self.canonical(other)
        table = self._opposed
        if (left, right) in table:
            return True
        heads = left.partition("-"), right.partition("-")
        return heads[0][2] == heads[1][2] and (heads[0][0], heads[1][0]) in table

    def opposite_truth(self, one: str, other: str) -> bool:
        """Say whether one value is a yes and the other a no."""
        left, right = one.lower(), other.lower()
        return (left in self.true_words and right in self.false_words) or (
            left in self.false_words and right in self.true_words
        )

    def is_listed(self, words: tuple[str, ...], argv: tuple[str, ...]) -> bool:
        """Say whether a command line begins with an entry of a list, like "systemctl status"."""
        for entry in words:
            parts = entry.split()
            if argv[:1] != (parts[0],):
                continue
            if len(parts) == 1 or any(_starts(arg, parts[1]) for arg in argv[1:]):
                return True
        return False


def _starts(argument: str, entry: str) -> bool:
    if len(entry) == 2 and entry.startswith("-"):
        return argument.startswith(entry) and not argument.startswith("--")
    return argument == entry


def _entries(key: str, value: object) -> tuple[object, ...]:
    if key == "synonyms":
        if not isinstance(value, Mapping):
            raise VocabularyError("[actions] synonyms must be a table of verb = [verbs]")
        return tuple(
            (str(verb), _words(f"synonyms.{verb}", words)) for verb, words in value.items()
        )
    if key == "opposites":
        if not isinstance(value, list | tuple):
            raise VocabularyError("[actions] opposites must be a list of pairs")
        pairs = tuple(_words(key, pair) for pair in value)
        if any(len(pair) != 2 for pair in pairs):
            raise VocabularyError("[actions] opposites must be a list of pairs of verbs")
        return pairs
    return _words(key, value)


def _words(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise VocabularyError(f"[actions] {key} must be a list of words")
    return tuple(str(item) for item in value)


@lru_cache(maxsize=1)
def _default() -> ActionVocabulary:
    return ActionVocabulary()
