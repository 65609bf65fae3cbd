"""Finds what a stretch of prose names: commands, settings, paths and identifiers.

Guarantees: quoted text is read before bare text, each character once; a bare word counts only when
its form is technical (a path, an option, a mixed-case, dotted or underscored name) or when it is a
listed program with an argument that looks like one.

Does not guarantee that a plain English word used as a name is found; that is why the trace may
abstain.

Shaped by tips that say the same thing as `a quoted command`, a bare command, or "set KEY to VALUE".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from scoring.trace.vocabulary import ActionVocabulary

_QUOTED: Final = re.compile(
    r"```[a-z]*\n(.{1,2000}?)```|`([^`\n]{1,400})`|\"\s?([^\"\n]{1,400}?)\s?\"|“([^”\n]{1,400})”"
    r"|(?<!\w)'([^'\n]{1,200})'(?!\w)",
    re.DOTALL,
)
_PATH: Final = re.compile(
    r"(?<![\w/.<])(?:~|/)(?:[\w.@+*%\[\]-]+/)*[\w.@+*%\[\]-]+/?|(?<![\w/.])etc/[\w./-]+"
)
_FILE_NAME: Final = re.compile(
    r"(?<![\w/.-])[\w@-]*[\w@]\.(?:conf|cfg|d|rules|service|socket|timer|ini|json|ya?ml|toml|repo|pmod|policy"
    r"|local|defs|sh|py|list|xml|pol|txt|config|bashrc|profile|hosts|equiv|shosts|rhosts)\b"
    r"|(?<![\w/.])\.(?:shosts|rhosts|netrc|forward)\b"
)
_ASSIGNMENT: Final = re.compile(
    r"(?<![\w/.-])[A-Za-z_][\w.-]*\s?=\s?(?:\"[^\"]*\"|[\w./:@%+,-]*[\w/])"
)
_IDENTIFIER: Final = re.compile(
    r"(?<![\w/.@-])(?:@[\w-]{3,}|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w+|[A-Z]{2,}[a-z]+\w*|[A-Z][a-z]+[A-Z]\w*"
    r"|[a-z]\w+(?:\.\w+){2,}|[a-z]+\d*-[a-z]+-[a-z-]+[a-z])(?![\w/])"
)
_OPTION: Final = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*(?:=\S+)?")
_ARGUMENT: Final = re.compile(
    r"^(?:--?[A-Za-z][\w=:./,-]*|\S*[=/:@*]\S*|\d[\w.]*|[A-Z][A-Z0-9_:.-]+|[\w.]+[-_.][\w.-]+)$"
)
_SET_TO: Final = re.compile(
    r"\b(?:set(?:ting|s)?|chang(?:e|ing)|updat(?:e|ing)|configur(?:e|ing)|modify(?:ing)?|with|ensure)\s+"
    r"(?:the\s+)?(?:value\s+of\s+)?[\"`']?(?P<key>[A-Za-z_$][\w.-]{2,60})[\"`']?"
    r"(?:\s+(?:parameter|option|key|setting|value|directive|variable|keyword))?"
    r"\s+(?:to|as|=)\s+[\"`']?(?P<value>[\w./:@%+,-]*[\w/])[\"`']?",
    re.IGNORECASE,
)
_MUST_BE: Final = re.compile(
    r"(?<![\w/.])[\"`']?(?P<key>[A-Za-z_$][\w.-]{2,60})[\"`']?\s+(?:must|should|has to|needs to|is)"
    r"\s+(?:be\s+set\s+to|be|equal|set\s+to)\s+[\"`']?(?P<value>[\w./:@%+,-]*[\w/])[\"`']?",
    re.IGNORECASE,
)
_KEY_VALUE: Final = re.compile(
    r"(?<![\w/.`\"'-])(?:(?P<key>[A-Z]\w*[a-z0-9][A-Z]\w*|[A-Z]{2,}(?:_[A-Z]+)+|[A-Z]{2,}[a-z]\w+)\s+"
    r"(?P<value>yes|no|on|off|none|true|false|\d+)"
    r"|(?P<mask>umask|UMASK)\s+(?P<bits>0[0-7]{2,3}))\b"
)
_OBJECT_STATE: Final = re.compile(
    r"(?<![\w/.-])[\"`']?(?P<name>[a-z][\w.+@-]{1,40})[\"`']?(?:\s+(?P<noun>service|daemon|package|unit|socket))?"
    r"\s+(?:must|should|has to|needs to|is to|ought to)\s+(?:be|stay|remain|get)\s+"
    r"(?P<verb>restarted|reloaded|started|stopped|enabled|disabled|masked|unmasked|installed|removed)\b"
)
_VERB_OBJECT: Final = re.compile(
    r"\b(?P<verb>restart|reload|start|stop|enabl|disabl|mask|unmask|install|reinstall|uninstall|remov|eras|purg)"
    r"(?:e|es|ed|s|ing|ping|ting)?\s+(?:the\s+|both\s+)?[\"`']?(?P<name>[A-Za-z][\w.+@-]{1,40})[\"`']?"
    r"(?:\s+(?P<noun>service|daemon|package|unit|socket|timer|rpm)\b)?",
    re.IGNORECASE,
)
_PACKAGES: Final = re.compile(r"\b(?:packages?|rpms?|dnf|yum|apt|apt-get|zypper)\b", re.IGNORECASE)
_SERVICES: Final = re.compile(
    r"\b(?:services?|daemons?|systemctl|units?|sockets?)\b", re.IGNORECASE
)
_STEMS: Final = {
    "enabl": "enable", "disabl": "disable", "remov": "remove", "eras": "remove", "purg": "remove",
    "uninstall": "remove",
}  # fmt: skip
_STATES: Final = {
    "enabled": "enable", "disabled": "disable", "removed": "remove", "stopped": "stop",
}  # fmt: skip
_SERVICE_VERBS: Final = frozenset(
    {"restart", "reload", "start", "stop", "mask", "unmask", "enable", "disable"}
)
_COMMON: Final = frozenset(
    {"the", "a", "an", "any", "all", "it", "this", "that", "these", "those", "each", "every",
     "both", "your", "its", "their", "them", "and", "or", "of", "in", "on", "to", "from",
     "with", "for", "by", "via", "new", "old", "same", "other", "first", "last", "only", "not",
     "no", "user", "users", "file", "files", "line", "lines", "package", "packages", "service",
     "services", "system", "settings", "setting", "option", "options", "rule", "rules",
     "occurrences", "entries", "access", "support", "mode", "root", "using", "use",
     "following", "required", "missing", "default", "automatic", "manual", "password",
     "passwords", "auditing", "logging", "login", "logon", "bits", "permissions", "at", "as",
     "if", "after", "before", "when", "where", "into", "up", "down", "out", "and/or",
     "command", "commands", "operating", "red", "software"}
)  # fmt: skip
# Names that look technical and say nothing about an action.
_PRODUCTS: Final = frozenset(
    {"ipv4", "ipv6", "dod", "redhat", "openssl", "openssh", "selinux", "networkmanager",
     "gnutls", "macos", "gnome", "github", "linux", "javascript", "unix", "posix", "systemd",
     "syscall", "syscalls", "vms", "oses", "cpus", "pids", "uids", "gids"}
)  # fmt: skip


@dataclass(kw_only=True, slots=True)
class Terms:
    """What one clause names.

    `commands` are command lines, `settings` configuration lines, `words` quoted identifiers,
    `bare` unquoted ones, `objects` (kind and verb, name) as in "restart sshd".
    """

    commands: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    objects: list[tuple[str, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(
            self.commands or self.settings or self.paths or self.words or self.bare or self.objects
        )


def find_terms(text: str, vocabulary: ActionVocabulary) -> Terms:
    """Return what a clause names, in order of appearance within each sort."""
    terms = Terms()
    for match in _SET_TO.finditer(text):
        if match["key"].lower() not in _COMMON and _looks_like_key(match):
            terms.settings.append(f"{match['key']} = {match['value']}")
    for match in _MUST_BE.finditer(text):
        if match["key"].lower() not in _COMMON and _looks_like_key(match):
            terms.settings.append(f"{match['key']} = {match['value']}")
    for match in _VERB_OBJECT.finditer(text):
        _add_object(terms, match, vocabulary)
    for match in _OBJECT_STATE.finditer(text):
        _add_state(terms, match)
    rest = _QUOTED.sub(lambda match: _take_quoted(terms, match, vocabulary), text)
    rest = _take_commands(terms, rest, vocabulary)
    _take_bare(terms, rest)
    return terms


def _looks_like_key(match: re.Match[str]) -> bool:
    key, value = match["key"], match["value"]
    quoted = match[0].count('"') + match[0].count("`") >= 2
    technical = bool(re.search(r"[_.\d]|[a-z][A-Z]|[A-Z]{2,}", key))
    return quoted or technical or value.isdigit() or value.lower() in ("yes", "no", "true", "false")


def _add_object(terms: Terms, match: re.Match[str], vocabulary: ActionVocabulary) -> None:
    stem, name = match["verb"].lower(), match["name"]
    verb = _STEMS.get(stem, stem)
    quoted = match[0].rstrip()[-1:] in "\"`'" or match[0].split()[-1][:1] in "\"`'"
    noun = (match["noun"] or "").lower()
    technical = bool(re.search(r"[-_.\d]", name)) or name in vocabulary.programs
    strong = verb in ("restart", "reload", "mask", "unmask", "reinstall", "stop", "start")
    if name.lower() in _COMMON or "/" in name or name.endswith(("ing", ".conf", ".d")):
        return
    context = _PACKAGES if verb not in _SERVICE_VERBS else _SERVICES
    plain = name.islower() and (strong or bool(context.search(match.string)))
    if noun or technical or quoted or plain:
        kind = "package" if noun in ("package", "rpm") or verb not in _SERVICE_VERBS else "service"
        named = noun in ("package", "rpm") or technical or plain
        if kind == "package" and not (named or verb in ("install", "reinstall")):
            return
        terms.objects.append((f"{kind} {verb}", name.removesuffix(".service")))


def _add_state(terms: Terms, match: re.Match[str]) -> None:
    """Read "X should stay masked" as "mask X"."""
    name, state = match["name"], match["verb"]
    if name in _COMMON:
        return
    verb = _STATES.get(state, state.removesuffix("ed"))
    package = match["noun"] == "package" or verb in ("install", "remove")
    terms.objects.append((f"{'package' if package else 'service'} {verb}", name))


def _take_quoted(terms: Terms, match: re.Match[str], vocabulary: ActionVocabulary) -> str:
    body = next(group for group in match.groups() if group is not None).strip()
    for row in body.split("\n"):
        _classify(terms, row.strip(), vocabulary)
    return " \u0001 "


def _classify(terms: Terms, body: str, vocabulary: ActionVocabulary) -> None:
    """Sort one quoted text into its kind."""
    body = body.removeprefix("$ ").strip()
    words = body.split()
    if not words:
        return
    program = words[1] if words[0] == "sudo" and len(words) > 1 else words[0]
    known = program.rsplit("/", 1)[-1] in vocabulary.programs
    if known and len(words) > 1:
        terms.commands.append(body)
    elif len(words) == 1 and (body.startswith(("/", "~")) or _PATH.fullmatch(body)):
        terms.paths.append(body if body.startswith(("/", "~")) else "/" + body)
    elif len(words) == 1 and _FILE_NAME.fullmatch(body):
        terms.paths.append(body)
    elif "=" in body.strip("=") and len(words) <= 4:
        terms.settings.append(body)
    elif len(words) > 1 and (known or any(word.startswith("-") for word in words[1:])):
        terms.commands.append(body)
    elif 1 < len(words) <= 8 and not body.endswith(".") and not _is_sentence(words):
        terms.settings.append(body)
    elif len(words) == 1 and not body.strip(",;:.").isdigit():
        terms.words.append(body.strip(",;:"))


def _is_sentence(words: list[str]) -> bool:
    return any(word.lower() in _GRAMMAR for word in words) or (
        words[0][:1].isupper() and len(words) > 3
    )


def _take_commands(terms: Terms, text: str, vocabulary: ActionVocabulary) -> str:
    """Take bare commands: a listed program and the arguments that look like arguments."""
    words = text.split(" ")
    kept: list[str] = []
    index = 0
    while index < len(words):
        name = words[index].strip("(),;:").removeprefix("/usr/bin/").removeprefix("/usr/sbin/")
        if name not in vocabulary.programs or words[index][-1:] in ",;:":
            kept.append(words[index])
            if name in vocabulary.programs and "-" in name:
                terms.commands.append(name)
                kept[-1] = ""
            elif name in vocabulary.programs and name not in _AMBIGUOUS:
                terms.bare.append(name)
            index += 1
            continue
        end = index + 1
        while end < len(words) and end - index < 12 and _is_argument(words, index, end):
            end += 1
        line = " ".join(words[index:end]).rstrip(",;:.)")
        if end > index + 1 or "-" in name:
            terms.commands.append(line.lstrip("("))
            index = end
        else:
            kept.append(words[index])
            if name not in _AMBIGUOUS:
                terms.bare.append(name)
            index += 1
    return " ".join(kept)


def _is_argument(words: list[str], start: int, end: int) -> bool:
    previous = words[end - 1]
    if end > start + 1 and previous[-1:] in ",;:.)":
        return False
    word = words[end].rstrip(",;:.)")
    if not word or word.lower() in _COMMON:
        return False
    subcommand = end == start + 1 and word.islower() and word.isalpha() and word in _SUBCOMMANDS
    operand = (
        end == start + 2
        and words[start + 1] in _SUBCOMMANDS
        and bool(re.fullmatch(r"[a-z][\w.-]+", word))
    )
    return bool(subcommand or operand or _ARGUMENT.match(word))


_GRAMMAR: Final = frozenset(
    {"the", "a", "an", "is", "are", "be", "was", "were", "must", "should", "of", "in", "to",
     "for", "with", "and", "this", "that", "it", "by", "as", "at"}
)  # fmt: skip
# Programs whose names are English words or abbreviations of other things.
_AMBIGUOUS: Final = frozenset(
    {"mount", "alternatives", "ip", "aide", "ln", "git", "service", "pip"}
)
_SUBCOMMANDS: Final = frozenset(
    {"install", "remove", "reinstall", "enable", "disable", "start", "stop", "restart", "reload",
     "mask", "unmask", "update", "upgrade", "erase", "purge", "set", "select", "write", "general",
     "daemon-reload", "enable-feature", "disable-feature", "apply-changes", "modify", "connection",
     "boolean", "login", "port", "fcontext"}
)  # fmt: skip


def _take_bare(terms: Terms, text: str) -> None:
    for match in _KEY_VALUE.finditer(text):
        key, value = match["key"] or match["mask"], match["value"] or match["bits"]
        terms.settings.append(f"{key} = {value}")
    text = _KEY_VALUE.sub(" ", text)
    for pattern, sink in (
        (_ASSIGNMENT, terms.settings),
        (_PATH, terms.paths),
        (_FILE_NAME, terms.paths),
        (_OPTION, terms.bare),
        (_IDENTIFIER, terms.bare),
    ):
        for match in pattern.finditer(text):
            body = match[0].rstrip(".,;:")
            if sink is terms.bare and body.lower() in _PRODUCTS:
                continue
            sink.append("/" + body if body.startswith("etc/") else body)
        text = pattern.sub(" ", text)
