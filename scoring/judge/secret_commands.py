"""Finds the secrets that shell commands are given: as an option, as a word, or through a pipe.

Guarantees: `secrets_of_commands` is pure and linear; it yields the places of secrets, never those of
variable references, paths, switches or the marks of locked accounts. What a program takes is data
(`OPTIONS`, `WORDS`, `READERS`, `CARRIERS`): a program more is a line more.

A program that no table names keeps its secrets, unless they have a shape or a name of their own
(``scoring.judge.secret_shapes``). Shaped by ``echo -e "pw\\npw" | passwd root``, which was sent in clear.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from scoring.judge.secret_words import KEYWORDS, Command, commands_of, unquoted
from scoring.judge.shell_commands import SHELLS, bare, program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Span = tuple[int, int]

_LDAP = "ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapcompare ldapmodrdn ldapexop"
_MYSQL = "mysql mysqldump mysqladmin mysqlimport mysqlcheck mariadb mariadb-dump mariadb-admin"
_SNMP = "snmpget snmpwalk snmpset snmpgetnext snmpbulkwalk snmptrap net-snmp-create-v3-user"
_CONTAINERS = "docker podman nerdctl buildah helm oras crane"
_CARRIERS = """ssh sshpass autossh plink docker podman nerdctl kubectl oc crictl nsenter unshare lxc
    incus lxc-attach machinectl systemd-run systemd-nspawn arch-chroot vagrant pct ip pkexec flock
    toolbox distrobox flatpak-spawn su"""
_SMB = "smbclient rpcclient smbget smbmap net winexe"

WHOLE, AFTER_COLON, AFTER_PERCENT, AFTER_SLASH, AFTER_EQUALS, AFTER_PASS = range(6)
"""Which part of an option's value is secret: all, or what is behind a character or word."""
_PARTS: Final = {
    WHOLE: re.compile(r"(?P<v>.+)", re.DOTALL),
    AFTER_COLON: re.compile(r"(?:\$\{[^}]*+\}|[^:])*+:(?P<v>.+)", re.DOTALL),
    AFTER_PERCENT: re.compile(r"[^%]*+%(?P<v>.+)", re.DOTALL),
    AFTER_SLASH: re.compile(r"[^/]++/(?P<v>[^@]+)(?:@.*)?", re.DOTALL),
    AFTER_EQUALS: re.compile(r"[^=]*+=(?P<v>.+)", re.DOTALL),
    AFTER_PASS: re.compile(r"pass:(?P<v>.+)", re.DOTALL),
}

_OPTIONS: Final = (
    (_LDAP, "-w", WHOLE),
    ("ldappasswd", "-w -s -a", WHOLE),
    (_MYSQL, "-p", WHOLE),
    ("redis-cli valkey-cli", "-a --pass", WHOLE),
    ("sshpass", "-p", WHOLE),
    (_SNMP, "-A -X -c", WHOLE),
    (_CONTAINERS, "login -p", WHOLE),
    ("skopeo buildah", "--creds --src-creds --dest-creds", AFTER_COLON),
    ("skopeo oc", "login -p", WHOLE),
    (_SMB, "-U --user", AFTER_PERCENT),
    ("curl", "-u --user -U --proxy-user", AFTER_COLON),
    ("curl", "--pass --oauth2-bearer", WHOLE),
    ("etcdctl influx", "--user", AFTER_COLON),
    ("lftp", "-u", WHOLE),
    ("zip unzip 7z 7za rar", "-P", WHOLE),
    ("7z 7za 7zr", "-p", WHOLE),
    ("openssl", "-passin -passout -pass -password", AFTER_PASS),
    ("openssl", "enc -k", WHOLE),
    ("useradd usermod groupadd groupmod adduser", "-p --password", WHOLE),
    ("ipa-client-install", "-w", WHOLE),
    ("ipa-server-install ipa-replica-install", "-p -a -w", WHOLE),
    ("mongo mongosh mongodump mongorestore cqlsh twine", "-p", WHOLE),
    ("sqlcmd bcp ipmitool", "-P", WHOLE),
    ("kadmin kadmin.local addprinc cpw", "-w -pw", WHOLE),
    ("x11vnc rdesktop xfreerdp", "-passwd -p", WHOLE),
    ("keytool jarsigner", "-storepass -keypass -srcstorepass -deststorepass", WHOLE),
    ("gpg gpg2 cryptsetup", "--passphrase", WHOLE),
    ("doveadm", "pw -p", WHOLE),
    ("az hammer", "-p", WHOLE),
    ("kubectl oc", "--from-literal", AFTER_EQUALS),
    ("ipa", "--password", WHOLE),
    ("influx", "-password", WHOLE),
    ("svn wget", "--password", WHOLE),
)
OPTIONS: Final[dict[str, list[tuple[str, frozenset[str], int]]]] = {}
"""Program -> (word that must be there, options, part of the value that is secret)."""
for _programs, _names, _part in _OPTIONS:
    _needs = " ".join(name for name in _names.split() if not name.startswith("-"))
    _wanted = frozenset(name for name in _names.split() if name.startswith("-"))
    for _program in _programs.split():
        OPTIONS.setdefault(_program, []).append((_needs, _wanted, _part))

WORDS: Final = {
    "openssl": re.compile(
        r"passwd(?: -(?:\d|apr1|aixmd5|crypt|salt \S+))*+(?: --)? (?P<v>[^-\s]\S*)"
    ),
    "htpasswd": re.compile(r"-\w*b\w* (?:-\S+ )*+\S+ \S+ (?P<v>\S+)"),
    "mkpasswd": re.compile(r"(?:(?:-m|-S|-R|-P|--\w+) \S+ |-\S+ )*+(?P<v>[^-\s]\S*)"),
    "mysqladmin": re.compile(r".* password (?P<v>\S+)"),
    "mariadb-admin": re.compile(r".* password (?P<v>\S+)"),
    "net": re.compile(r"user \S+ (?P<v>[^/\s]\S*)"),
    "aws": re.compile(r"configure set (?:\S+\.)?(?:\w*secret\w*|\w*token\w*) (?P<v>\S+)"),
    "vault": re.compile(r"login (?:-\S+ )*+(?P<v>[^-\s=]+)(?!\S)"),
    "rabbitmqctl": re.compile(r"(?:add_user|change_password|authenticate_user) \S+ (?P<v>\S+)"),
    "wpa_passphrase": re.compile(r"\S+ (?P<v>\S+)"),
    "sqlplus": re.compile(r"(?:-\S+ )*+[^/\s]++/(?P<v>[^@\s]+)"),
    "ansible-vault": re.compile(r"encrypt_string (?:--\S+ \S+ )*+(?P<v>[^-\s]\S*)"),
    "grub-crypt": re.compile(r"(?:-\S+ )*+(?P<v>[^-\s]\S*)"),
    "mc": re.compile(r"(?:alias|config host) (?:set|add) \S+ \S+ \S+ (?P<v>\S+)"),
    "nmcli": re.compile(
        r".* (?:password|\S*\.(?:psk|password|leap-password|wep-key\d?)) (?P<v>\S+)"
    ),
    "createUser": re.compile(
        r"(?:-e \S+ )?\S+ (?:MD5|SHA\S*) (?P<v>\S+)(?: (?:AES|DES)\S* (?P<w>\S+))?"
    ),
    "rootpw": re.compile(r"(?:--(?:plaintext|allow-ssh) )*+(?P<v>[^-\s]\S*)"),
    "smbpasswd": re.compile(r"-w (?P<v>\S+)"),
    "pwhash": re.compile(r"(?P<v>\S+)"),
}
"""Program -> what its words look like, joined by single blanks (blanks inside of a word as ``_``)."""

LINES, PAIRS, MAYBE = "lines", "pairs", "maybe"
READERS: Final = {
    "passwd": (LINES, ""),
    "chpasswd": (PAIRS, ""),
    "newusers": (PAIRS, ""),
    "sudo": (LINES, r"-\w*S|--stdin"),
    "su": (MAYBE, ""),
    "cryptsetup": (LINES, ""),
    "kinit": (LINES, ""),
    "kpasswd": (LINES, ""),
    "docker": (LINES, "--password-stdin"),
    "podman": (LINES, "--password-stdin|secret"),
    "helm": (LINES, "--password-stdin"),
    "skopeo": (LINES, "--password-stdin"),
    "buildah": (LINES, "--password-stdin"),
    "nerdctl": (LINES, "--password-stdin"),
    "oras": (LINES, "--password-stdin"),
    "openssl": (LINES, "-stdin|stdin"),
    "gpg": (LINES, "--passphrase-fd"),
    "grub2-mkpasswd-pbkdf2": (LINES, ""),
    "grub-mkpasswd-pbkdf2": (LINES, ""),
    "grub2-setpassword": (LINES, ""),
    "smbpasswd": (LINES, ""),
    "pdbedit": (LINES, "-t|--password-from-stdin"),
    "mkpasswd": (LINES, "-s|--stdin"),
    "htpasswd": (LINES, r"-\w*i\w*"),
    "vncpasswd": (LINES, ""),
    "saslpasswd2": (LINES, ""),
    "ansible-vault": (LINES, ""),
    "adcli": (LINES, "--stdin-password"),
    "realm": (LINES, "join"),
    "ipa": (LINES, "passwd|--password"),
    "secret-tool": (LINES, "store"),
    "gh": (LINES, "--with-token"),
    "systemd-creds": (LINES, "encrypt"),
    "pass": (LINES, "insert"),
    "doveadm": (LINES, "pw"),
    "vault": (LINES, "login"),
    "kadmin.local": (LINES, "cpw|addprinc"),
    "mount.cifs": (LINES, ""),
}
"""Program -> what it reads on its input, and the option (pattern, "" always) with which it does."""

CARRIERS: Final = SHELLS | set(_CARRIERS.split())
"""Programs that hand their input to a program that one of their words names."""
_READER_WORD: Final = re.compile(
    rf"""(?<![\w./=@:-]) (?:/(?:usr/)?(?:local/)?s?bin/)? ({"|".join(map(re.escape, READERS))})
    (?![\w./=@:-])""",
    re.VERBOSE,
)
_ONLY_STATES: Final = re.compile(r"\s(?:-[ludSxnwie]|--(?:lock|unlock|delete|status|expire))(?!\S)")
"""``passwd -l`` and its kind read nothing."""
_DIRECTIVE: Final = re.compile(r"%[-+ #0-9.*]*+[A-Za-z]")
_TALKS: Final = frozenset({"echo", "printf", "yes", "print"})
_REFERENCE: Final = re.compile(
    r"""[$`].* | \{\{.* | <[^>]*>? | %[-+#.*]*+[\w({\\].* | [*!xX_.?-]+ | @.* | \[REDACTED:.*
    | y | n | yes | no | stdin | prompt | env:.* | file:.* """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_PIECE: Final = re.compile(r"\\[nrt]|(?P<v>(?:[^\\\n]|\\(?![nrt]))++)")


def secrets_of_commands(text: str) -> Iterator[Span]:
    """Yield the places of secrets in the commands of ``text``; they may overlap."""
    commands = commands_of(text)
    pair_files = set()
    told: set[tuple[int, str]] = set()
    for command in commands:
        found = _Secrets(text, command)
        yield from found.options()
        yield from found.words()
        way = found.input_way()
        if way:
            yield from found.handed(way)
            yield from _said(text, command.source, way, told)
        if way == PAIRS:
            sources = [command, *command.source]
            files = [span for one in sources for span in one.reads]
            files += [span for one in sources[1:] for span in one.words[1:]]
            pair_files |= {bare(text[start:end]) for start, end in files}
    for command in commands if pair_files else ():
        if any(bare(text[start:end]) in pair_files for start, end in command.writes):
            yield from _said(text, [command, *command.group], PAIRS, told)


def _said(
    text: str, commands: Iterable[Command], way: str, told: set[tuple[int, str]]
) -> Iterator[Span]:
    """Yield the secrets that commands say, each of them once for each way."""
    for one in commands:
        if (id(one), way) not in told:
            told.add((id(one), way))
            yield from _Secrets(text, one).said(way)


class _Secrets:
    """The secrets of one command."""

    def __init__(self, text: str, command: Command) -> None:
        self.text, self.command = text, command
        written = [text[start:end] for start, end in command.words[:40]]
        assigned = 0
        while assigned < len(written) and (
            written[assigned] in KEYWORDS or re.match(r"\w+\+?=", written[assigned])
        ):
            assigned += 1
        self.at, self.name = program(written[assigned:])
        self.at += assigned
        self.started = [bare(word).rpartition("/")[2] for word in written[assigned : self.at + 1]]
        self.rest = command.words[self.at + 1 : self.at + 200]
        self.plain = [bare(text[start:end]) for start, end in self.rest]

    def options(self) -> Iterator[Span]:
        """Yield values of options: ``-p x``, ``-px``, ``--pass=x``."""
        for needs, names, part in OPTIONS.get(self.name, ()):
            if needs and needs not in self.plain:
                continue
            for number, word in enumerate(self.plain):
                value = self._value(number, word, names)
                if value is not None:
                    yield from self._part(value, part)

    def _value(self, number: int, word: str, names: frozenset[str]) -> Span | None:
        start, end = self.rest[number]
        if word in names:
            glued_only = self.name in _MYSQL.split() or self.name.startswith("7z")
            if glued_only or number + 1 == len(self.rest) or self.plain[number + 1].startswith("-"):
                return None
            return self.rest[number + 1]
        if word.startswith("--"):
            name, equals, _ = word.partition("=")
            at = self.text.find("=", start, end)
            return (at + 1, end) if equals and name in names else None
        short = word[:2] in names and len(word) > 2
        return (start + 2, end) if short and self.text[start] == "-" else None

    def _part(self, value: Span, part: int) -> Iterator[Span]:
        start, end = unquoted(self.text, *value)
        found = _PARTS[part].fullmatch(self.text, start, end)
        if found:
            yield from self._secret(*unquoted(self.text, *found.span("v")))

    def _secret(self, start: int, end: int) -> Iterator[Span]:
        while start < end and self.text[start] in "'\"":
            start += 1
        while start < end and self.text[end - 1] in "'\"\\":
            end -= 1
        if start < end and not _REFERENCE.fullmatch(self.text, start, end):
            yield start, end

    def words(self) -> Iterator[Span]:
        """Yield words that are secret by their place."""
        shape = WORDS.get(self.name)
        if shape is None:
            return
        joined = [re.sub(r"\s", "_", word) or "_" for word in self.plain]
        found = shape.match(" ".join(joined))
        if found is None:
            return
        starts = [0]
        for word in joined:
            starts.append(starts[-1] + len(word) + 1)
        for group in found.re.groupindex:
            place = found.start(group)
            for number, (first, behind) in enumerate(pairwise(starts)):
                if first <= place < behind and self.name == "sqlplus":
                    yield from self._part(self.rest[number], AFTER_SLASH)
                elif first == place:
                    yield from self._part(self.rest[number], WHOLE)

    # --- What a command reads ---------------------------------------------------------------------

    def input_way(self) -> str:
        """How this command reads secrets: "" if it does not."""
        for name in (*self.started[:1], self.name):
            if name in CARRIERS and (carried := self._carries()):
                return carried
            way, option = READERS.get(name, ("", ""))
            words = [self.text[s:e] for s, e in self.command.words[1:40]]
            if way and (not option or any(re.fullmatch(option, bare(word)) for word in words)):
                return way
        return ""

    def _carries(self) -> str:
        """How the program reads that this one hands its input to."""
        words = " ".join(self.plain)[:2000]
        for hit in _READER_WORD.finditer(words):
            way, option = READERS[hit[1]]
            behind = re.split(r"[;|&]", words[hit.end() :], maxsplit=1)[0]
            if hit[1] == "passwd" and _ONLY_STATES.search(behind):
                continue
            if not option or any(re.fullmatch(option, word) for word in behind.split()[:40]):
                return way
        return ""

    def handed(self, way: str) -> Iterator[Span]:
        """Yield the secrets in here-documents and here-strings."""
        for span in self.command.given:
            yield from self._pieces(*unquoted(self.text, *span), way)

    def said(self, way: str) -> Iterator[Span]:
        """Yield those among the words of an echo, too."""
        yield from self.handed(way)
        if self.name not in _TALKS:
            return
        talk = [
            span
            for word, span in zip(self.plain, self.rest, strict=True)
            if not (word.startswith("-") and len(word) <= 3)
        ]
        behind = self._behind_colon(*talk[0]) if talk and self.name == "printf" else []
        for number, span in enumerate(talk):
            is_password = behind and number > 0 and behind[(number - 1) % len(behind)]
            taken = LINES if way == PAIRS and is_password else way
            yield from self._pieces(*unquoted(self.text, *span), taken)

    def _behind_colon(self, start: int, end: int) -> list[bool]:
        """Say of each value that printf's format takes whether a colon stands before it on its line."""
        shape = self.text[start : min(end, start + 2000)].replace("%%", "__")
        shape = shape.replace("\\n", "\n")
        before = (shape[: hit.start()].rpartition("\n")[2] for hit in _DIRECTIVE.finditer(shape))
        return [":" in line for line in before]

    def _pieces(self, start: int, end: int, way: str) -> Iterator[Span]:
        for hit in _PIECE.finditer(self.text, start, end):
            first, last = hit.span("v")  # -1: a line break that is written out
            while first < last and self.text[first] in " \t'\"":
                first += 1
            while first < last and self.text[last - 1] in " \t'\"\r":
                last -= 1
            if way == PAIRS:
                yield from self._part((first, last), AFTER_COLON)
            elif way == LINES or not re.search(r"\s", self.text[first:last]):
                yield from self._secret(first, last)
