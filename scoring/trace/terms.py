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

from scoring.trace.english import FUNCTION_WORDS, NO_NAMES
from scoring.trace.objects import find_objects

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
    r"(?<![\w/.-])[A-Za-z_][\w.-]*\s?=\s?(?:\"[^\"]*\"|[\w./:@%+,-]*[\w/%])"
)
_IDENTIFIER: Final = re.compile(
    r"(?<![\w/.@-])(?:@[\w-]{3,}|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w+|[A-Z]{2,}[a-z]+\w*|[A-Z][a-z]+[A-Z]\w*"
    r"|[a-z]\w+(?:\.\w+){2,}|[a-z]+\d*-[a-z]+-[a-z-]+[a-z])(?![\w/])"
)
_OPTION: Final = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*(?:=\S+)?")
_SET_TO: Final = re.compile(
    r"\b(?:set(?:ting|s)?|chang(?:e|ing)|updat(?:e|ing)|configur(?:e|ing)|modify(?:ing)?|with|ensure)\s+"
    r"(?:the\s+)?(?:value\s+of\s+)?[\"`']?(?P<key>[A-Za-z_$][\w.-]{2,60})[\"`']?"
    r"(?:\s+(?:parameter|option|key|setting|value|directive|variable|keyword))?"
    r"\s+(?:to|as|=)\s+(?:at (?:most|least)\s+)?[\"`']?(?P<value>[\w./:@%+,-]*[\w/%])[\"`']?",
    re.IGNORECASE,
)
_MUST_BE: Final = re.compile(
    r"(?<![\w/.])[\"`']?(?P<key>[A-Za-z_$][\w.-]{2,60})[\"`']?\s+(?:must|should|has to|needs to|is)"
    r"\s+(?:be\s+set\s+to|be|equal|set\s+to)\s+(?:at (?:most|least)\s+)?"
    r"[\"`']?(?P<value>[\w./:@%+,-]*[\w/%])[\"`']?",
    re.IGNORECASE,
)
_KEY_VALUE: Final = re.compile(
    r"(?<![\w/.`\"'-])(?:(?P<key>[A-Z]\w*[a-z0-9][A-Z]\w*|[A-Z]{2,}(?:_[A-Z]+)+|[A-Z]{2,}[a-z]\w+)\s+"
    r"(?P<value>yes|no|on|off|none|true|false|\d+%?)"
    r"|(?P<mask>umask|UMASK)\s+(?P<bits>0[0-7]{2,3}))(?!\w)"
)
_TRUTHS: Final = frozenset({"no", "on", "off"})
_NAMED_LINE: Final = re.compile(
    r"\b(?:an?|the|each|every|any)\s+(?P<word>[a-z][\w.-]+)"
    r"\s+(?:line|directive|entry|statement|row)s?\b"
)
_ADDED_OPTION: Final = re.compile(
    r"\b(?:add|append|adding|appending|using|use|with)\s+(?:the\s+)?(?P<word>[a-z][\w=,-]+)"
    r"(?:\s+(?:mount\s+)?(?:option|flag|keyword)s?\b|\s+to\s+(?:its|the|their)\s+(?:\w+\s+){0,2}options?\b)"
)
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


def find_terms(text: str, vocabulary: ActionVocabulary, sentence: str = "") -> Terms:
    """Return what a clause names, in order of appearance within each sort.

    `sentence` is the sentence around the clause, which may say that packages or services are meant.
    """
    terms = Terms()
    for pattern in (_SET_TO, _MUST_BE):
        for match in pattern.finditer(text):
            if match["key"].lower() not in NO_NAMES and _looks_like_key(match):
                terms.settings.append(f"{match['key']} = {match['value']}")
    terms.objects += find_objects(_QUOTED.sub(_without_phrases, text), vocabulary, sentence or text)
    rest = _QUOTED.sub(lambda match: _take_quoted(terms, match, vocabulary), text)
    rest = _take_programs(terms, rest, vocabulary)
    _take_bare(terms, rest)
    _take_named_lines(terms, text)
    return terms


def _without_phrases(match: re.Match[str]) -> str:
    """Blank out quoted commands and lines: `systemctl reload x` is read as one, not as "reload x"."""
    return " \u0001 " if len(match[0].split()) > 1 else match[0]


def _looks_like_key(match: re.Match[str]) -> bool:
    key, value = match["key"], match["value"]
    if value.lower() in FUNCTION_WORDS - _TRUTHS:
        return False
    quoted = match[0].count('"') + match[0].count("`") >= 2
    technical = bool(re.search(r"[_.\d]|[a-z][A-Z]|[A-Z]{2,}", key))
    return quoted or technical or value.isdigit() or value.lower() in ("yes", "no", "true", "false")


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
    if words[0] in ("-w", "-a", "-A") and len(words) > 1:
        terms.settings.append(body)
    elif known and len(words) > 1:
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


def _take_programs(terms: Terms, text: str, vocabulary: ActionVocabulary) -> str:
    """Take programs that are named without arguments; `literals` has marked the others."""
    kept: list[str] = []
    for word in text.split(" "):
        name = word.strip("(),;:.").rpartition("/")[2]
        if name not in vocabulary.programs or name in _AMBIGUOUS:
            kept.append(word)
        elif "-" in name:
            terms.commands.append(name)
        else:
            terms.bare.append(name)
            kept.append(word)
    return " ".join(kept)


_GRAMMAR: Final = frozenset(
    {"the", "a", "an", "is", "are", "be", "was", "were", "must", "should", "of", "in", "to",
     "for", "with", "and", "this", "that", "it", "by", "as", "at"}
)  # fmt: skip
# Programs whose names are English words or abbreviations of other things.
_AMBIGUOUS: Final = frozenset(
    {"mount", "alternatives", "ip", "aide", "ln", "git", "service", "pip"}
)


def _take_named_lines(terms: Terms, text: str) -> None:
    """Read "an install line under PATH" and "add noexec to the options": plain words, but names."""
    if not terms.paths:
        return
    for pattern in (_NAMED_LINE, _ADDED_OPTION):
        for match in pattern.finditer(text):
            word = match["word"]
            if word.lower() not in NO_NAMES and word not in terms.words:
                terms.words.append(word)


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
