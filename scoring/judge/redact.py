"""Takes secrets out of a script or a tip before it leaves for the judge.

Guarantees: `redact` is pure and idempotent; each secret that it knows the shape of becomes
``[REDACTED:kind:n]``, the same one for the same secret, so that a judge still sees that two lines
use one password; ``kinds`` counts what was taken out, for the row to say so. Ordinary configuration
is left alone: ages, counts, switches, paths, variable references, checksums, public keys.

It knows shapes, not meanings: a password that stands in prose, or in a variable with a harmless
name, is sent. Shaped by run logs that carried a cloud key to a hosted model, and by a redactor so
eager that ``PASS_MAX_DAYS 60`` became unreadable to the judge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text that may leave, and how many stretches of each kind were taken out of it."""

    text: str
    kinds: dict[str, int]


def _rule(
    kind: str, pattern: str, *, flags: re.RegexFlag = re.NOFLAG
) -> tuple[str, re.Pattern[str]]:
    return kind, re.compile(pattern.replace("VALUE", _VALUE), flags | re.VERBOSE)


_VALUE = (
    r"""(?: "(?P<v1>[^"\n]{1,400})" | '(?P<v2>[^'\n]{1,400})' | (?P<v3>[^\s'";,&|<>()]{1,400}) )"""
)
_NAME = r"""(?: [\w.-]{0,80}[_.-] )? (?: [a-z]{0,20}password | passwd | passphrase | pwd | rootpw | bindpw
    | secret | token | credentials? | psk | api_?key | secretkey | [a-z]{2,12}[_-]key
    | client[_-]secret | accountkey | pre[_-]?shared[_-]key )"""
_BASE64 = r"[\sA-Za-z0-9+/=:,.\\-]"
_KEY_TITLE = r"(?:[A-Z0-9]+[ ]){0,3} PRIVATE[ ]KEY (?:[ ]BLOCK)? -----"
_I = re.IGNORECASE

RULES: Final = (
    _rule(
        "private_key",
        rf"""-----BEGIN[ ]{_KEY_TITLE} (?P<v>{_BASE64}*?)
        (?: -----END[ ]{_KEY_TITLE} | \Z | (?=\n[^\n]*(?!{_BASE64})[^\n]) )""",
    ),
    _rule("private_key", r"\b (?P<v> AGE-SECRET-KEY-1[0-9A-Z]{20,} )"),
    _rule(
        "authorization",
        r"""\b authorization ['"]? [ \t]*[:=][ \t]* ['"]?
        (?: (?:bearer|basic|token|digest|apikey|negotiate) [ \t]+ )?
        (?P<v> [^\s'",;$<{][^\s'",;]{3,} )""",
        flags=_I,
    ),
    _rule("authorization", r"\b bearer [ \t]+ (?P<v> [\w.~+/-]{16,}=* )", flags=_I),
    _rule(
        "header",
        r"""\b (?: x-(?:api-key|auth-token|vault-token) | private-token | (?:set-)?cookie )
        ['"]? [ \t]*:[ \t]* (?P<v> [^\s'"$<{][^'"\n]{3,400} )""",
        flags=_I,
    ),
    _rule(
        "url_password",
        r"\b [a-z][a-z0-9+.-]{1,20} :// [^\s/:@'\"]{0,200} : (?P<v> [^\s/@'\"$<{][^\s/@'\"]{0,400} ) @",
        flags=_I,
    ),
    _rule("url_token", r"(?P<v> https://hooks\.slack\.com/services/[\w/]+ )"),
    _rule(
        "url_token",
        r"[?&] (?: sig | token | access_token | api_key | key ) = (?P<v> [\w%.~+/=-]{12,} )",
        flags=_I,
    ),
    _rule("jwt", r"\b (?P<v> eyJ[\w-]{8,} \. eyJ[\w-]{8,} \. [\w-]{8,} )"),
    _rule("cloud_key", r"\b (?P<v> (?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16} ) \b"),
    _rule("cloud_key", r"\b (?P<v> AIza[\w-]{35} )"),
    _rule(
        "token",
        r"""\b (?P<v> gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}
        | xox[abeprs]-[\w-]{10,} | [srp]k_live_\w{16,} | sk-[\w-]{20,} | npm_\w{30,} | pypi-[\w-]{30,}
        | hf_\w{20,} | dop_v1_\w{30,} | hv[sb]\.[\w-]{20,} | SG\.[\w-]{16,}\.[\w-]{16,}
        | \d{8,10}:AA[\w-]{32,} )""",
    ),
    _rule(
        "password_hash",
        r"""(?P<v> \$ (?: 1 | 2[abxy]? | 5 | 6 | 7 | y | gy | sha1 | md5 | argon2(?:id|i|d) ) \$
        [^\s:'"]{12,} )""",
    ),
    _rule("password_hash", r"(?P<v> grub\.pbkdf2\.sha512\.\d+\.[0-9A-Fa-f.]{16,} )"),
    _rule("password_hash", r"(?P<v> \{(?:SSHA|SHA|SMD5|CRYPT|PBKDF2)\d*\}[^\s'\"]{12,} )"),
    _rule("password", r"\b chpasswd \b [^\n|]* <<< [ \t]* ['\"]? [\w.-]+ : (?P<v> [^\s'\"$]+ )"),
    _rule(
        "password",
        r"""\b (?:echo|printf) \b [^\n|:]{0,80} (?<![\w.-]) [\w.-]{1,64} : (?P<v> [^\s'"$\\|]+ )
        [^\n|]{0,80} \| [ \t]* (?:sudo[ \t]+)? chpasswd \b""",
    ),
    _rule(
        "password",
        r"""\b (?:echo|printf) (?:[ \t]+-\w+)* [ \t]+ ['"]? (?P<v> [^\s'"$|]+ ) ['"]? [ \t]* \| [ \t]*
        (?: sudo[ \t]+-S\b | (?:sudo[ \t]+)? (?: passwd[ \t]+--stdin | cryptsetup ) \b )""",
    ),
    _rule(
        "password",
        r"""\b (?:echo|printf) [ \t]+ ['"]%s:%s(?:\\n)?['"] [ \t]+ \S+ [ \t]+ VALUE
        [ \t]* \| [ \t]* (?:sudo[ \t]+)? chpasswd \b""",
    ),
    _rule(
        "password",
        r"\b user(?:add|mod) \b [^\n|;]{0,200}? [ \t] (?: -p | --password ) [ \t=]+ VALUE",
    ),
    _rule("password", r"\b sshpass [ \t]+ -p [ \t]* VALUE"),
    _rule(
        "password",
        r"\b (?:mysql|mariadb)(?:-?admin|dump)? \b [^\n|;]{0,200}? [ \t] -p ['\"]? (?P<v> [^\s'\"$]+ )",
    ),
    _rule(
        "password",
        r"""\b (?:curl|wget) \b [^\n|;]{0,400}? [ \t] (?: -u | --user ) [ \t=] ['"]?
        [^\s:'"$]+ : (?P<v> [^\s'"$]+ )""",
    ),
    _rule(
        "password",
        r"\b openssl [ \t]+ passwd (?: [ \t]+ - (?: \d | apr1 | salt[ \t]+\S+ ) )* [ \t]+ VALUE",
    ),
    _rule("password", r"\b htpasswd [ \t]+ -\w*b\w* [ \t]+ \S+ [ \t]+ \S+ [ \t]+ VALUE"),
    _rule(
        "password",
        rf"(?<![\w$.-]) {_NAME} ['\"]? [ \t]* (?: = | => | :(?!:) ) [ \t]* VALUE",
        flags=_I,
    ),
    _rule("password", rf"(?<!\S) --? {_NAME} [ \t]+ (?!-) VALUE", flags=_I),
    _rule(
        "password",
        r"\b identified [ \t]+ by [ \t]+ (?:password[ \t]+)? ['\"] (?P<v> [^'\"\n$]+ ) ['\"]",
        flags=_I,
    ),
)
"""Kind and shape; the group whose name begins with v is what is taken out. Earlier rules win."""

_ASSIGNED: Final = frozenset({"password", "authorization", "header", "url_password"})
"""Kinds that are known by what stands around them: their value may as well be an ordinary one."""
_ORDINARY: Final = re.compile(
    r"""[$`].* | \{\{.* | <[^>]*>? | %[\w({].* | [~./].* | \w:\\.* | [*!x_.-]+ | \d{1,5}
    | yes | no | on | off | true | false | none | null | nil | required | optional | requisite
    | sufficient | prompt | ask | enabled? | disabled? | file | env | stdin | sha\d+ | md5 | yescrypt
    | bcrypt | string | str | int | bool | password | passwd | secret | token | expired? | locked
    | never | always | include | substack | default | unset | empty
    | (?: os | env | process | config | settings | self | args | vars? | module | data )
      \. [\w.\[\]'"]+ """,
    re.IGNORECASE | re.VERBOSE,
)
"""Values that say nothing secret: references, paths, switches, small numbers, algorithm names."""
_MARKER: Final = re.compile(r"\[REDACTED:(\w+):(\d{1,9})\]")


def redact(text: str) -> Redacted:
    """Return ``text`` with every known secret as ``[REDACTED:kind:n]``, n from 1 per kind.

    Markers that the text already holds are kept, and counting goes on after them.
    """
    last: dict[str, int] = {}
    for kind, number in _MARKER.findall(text):
        last[kind] = max(last.get(kind, 0), int(number))
    markers: dict[tuple[str, str], str] = {}
    kinds: dict[str, int] = {}
    parts: list[str] = []
    at = 0
    for start, end, kind in sorted(_secrets(text)):
        key = (kind, text[start:end])
        if key not in markers:
            last[kind] = last.get(kind, 0) + 1
            markers[key] = f"[REDACTED:{kind}:{last[kind]}]"
        kinds[kind] = kinds.get(kind, 0) + 1
        parts += [text[at:start], markers[key]]
        at = end
    return Redacted("".join([*parts, text[at:]]), kinds)


def _secrets(text: str) -> list[tuple[int, int, str]]:
    """Return start, end and kind of every secret; none overlaps another, or a marker."""
    taken = [hit.span() for hit in _MARKER.finditer(text)]
    found: list[tuple[int, int, str]] = []
    for kind, pattern in RULES:
        for hit in pattern.finditer(text):
            start, end = hit.span(hit.lastgroup or 0)
            secret = text[start:end]
            ordinary = kind in _ASSIGNED and _ORDINARY.fullmatch(secret)
            free = all(end <= first or last <= start for first, last in taken)
            if secret.strip() and not ordinary and free:
                taken.append((start, end))
                found.append((start, end, kind))
    return found
