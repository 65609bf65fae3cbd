"""Finds secrets by their own shape (keys, tokens, hashes) or by the name that stands before them.

Guarantees: `secrets_of_shapes` is pure and linear: repetitions are possessive or bounded, so that no
text makes a pattern go back over it. A name counts by its last word (``DB_PASS``, ``api-key``), a
value unless it says nothing secret: references, paths, switches, counts, algorithm names.

A password in prose, or in a variable with a harmless name, is not found. Shaped by run logs that
carried a cloud key to a hosted model, by a redactor so eager that ``PASS_MAX_DAYS 60`` became
unreadable to the judge, and by one that sent ``--password=…`` of programs that no table names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int]

_I = re.IGNORECASE
_VALUE = r"""(?: "(?P<v1>(?:[^"\\\n]|\\.){1,400}+) | \\"(?P<v4>[^"\\\n]{1,400}+)
    | '(?P<v2>[^'\n]{1,400}+) | (?P<v3>[^\s'";,&|<>()]{1,400}+) )"""
_BASE64 = r"[\sA-Za-z0-9+/=:,.\\-]"
_KEY_TITLE = r"(?:[A-Z0-9]+[ ]){0,3} PRIVATE[ ]KEY (?:[ ]BLOCK)? -----"


def _rule(
    kind: str, pattern: str, *, flags: re.RegexFlag = re.NOFLAG
) -> tuple[str, re.Pattern[str]]:
    return kind, re.compile(pattern.replace("VALUE", _VALUE), flags | re.VERBOSE)


SHAPES: Final = (
    _rule(
        "private_key",
        rf"""-----BEGIN[ ]{_KEY_TITLE} (?P<v>{_BASE64}*?)
        (?: -----END[ ]{_KEY_TITLE} | \Z | (?=\n[^\n]*(?!{_BASE64})[^\n]) )""",
    ),
    _rule("private_key", r"\b (?P<v> AGE-SECRET-KEY-1[0-9A-Z]{20,}+ )"),
    _rule("vault", r"\$ANSIBLE_VAULT;[\w.;-]{1,80}+ (?P<v> (?:(?:\s|\\n)++[0-9a-f]{16,}+)++ )"),
    _rule(
        "authorization",
        r"""\b authorization ['"]? [ \t]*+[:=][ \t]*+ ['"]?
        (?: (?:bearer|basic|token|digest|apikey|negotiate) [ \t]++ )?
        (?P<v> [^\s'",;$<{][^\s'",;]{3,}+ )""",
        flags=_I,
    ),
    _rule("authorization", r"\b bearer [ \t]++ (?P<v> [\w.~+/-]{16,}+=* )", flags=_I),
    _rule(
        "header",
        r"""\b (?: x-(?:api-key|auth-token|auth-key|vault-token) | private-token | (?:set-)?cookie )
        ['"]? [ \t]*+:[ \t]*+ (?P<v> [^\s'"$<{][^'"\n]{3,400}+ )""",
        flags=_I,
    ),
    _rule(
        "url_password",
        r"""(?<![a-z0-9]) [a-z][a-z0-9+.-]{1,20}+ :// [^\s/:@'"]{0,200}+ :
        (?P<v> [^\s/@'"$<{][^\s/@'"]{0,400}+ ) @""",
        flags=_I,
    ),
    _rule("url_token", r"(?P<v> https://hooks\.slack\.com/services/[\w/]++ )"),
    _rule(
        "url_token",
        r"[?&] (?: sig | token | access_token | api_key | key ) = (?P<v> [\w%.~+/=-]{12,}+ )",
        flags=_I,
    ),
    _rule("jwt", r"(?<![\w-]) (?P<v> eyJ[\w-]{8,}+ \. eyJ[\w-]{8,}+ \. [\w-]{8,}+ )"),
    _rule("cloud_key", r"\b (?P<v> (?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16} ) \b"),
    _rule("cloud_key", r"\b (?P<v> AIza[\w-]{35} | GOCSPX-[\w-]{20,}+ | ya29\.[\w-]{20,}+ )"),
    _rule(
        "token",
        r"""(?<![A-Za-z0-9]) (?P<v> gh[pousr]_[A-Za-z0-9]{20,}+
        | github_pat_\w{20,}+ | gl(?:pat|rt|dt)-[\w-]{16,}+
        | xox[abeprs]-[\w-]{10,}+ | xapp-[\w-]{20,}+ | [srp]k_live_\w{16,}+ | npm_\w{30,}+
        | pypi-[\w-]{30,}+ | hf_\w{20,}+ | dop_v1_\w{30,}+ | hv[sb]\.[\w-]{20,}+ | dckr_pat_[\w-]{20,}+
        | SG\.[\w-]{16,}+\.[\w-]{16,}+ | shpat_\w{20,}+ | \d{8,10}:AA[\w-]{32,}+ | tskey-[\w-]{16,}+ )""",
    ),
    _rule("token", r"(?<![\w-]) (?P<v> sk-[\w-]{20,}+ )"),
    _rule(
        "password_hash",
        r"""(?P<v> \$ (?: 1 | 2[abxy]? | 5 | 6 | 7 | y | gy | sha1 | md5 | apr1 | argon2(?:id|i|d) ) \$
        [^\s:'"]{12,}+ )""",
    ),
    _rule("password_hash", r"(?P<v> grub\.pbkdf2\.sha512\.\d++\.[0-9A-Fa-f.]{16,}+ )"),
    _rule("password_hash", r"(?P<v> \{(?:SSHA|SHA|SMD5|CRYPT|PBKDF2)\d*+\}[^\s'\"]{12,}+ )"),
)
"""Kind and shape; the group whose name begins with v is the secret. Earlier ones give the kind."""

NAMED: Final = (
    _rule(
        "password",
        r"""\b identified [ \t]++ (?:with [ \t]++ \S++ [ \t]++)? by [ \t]++ (?:password[ \t]++)?
        ['"] (?P<v> [^'"\n$]{1,400}+ )""",
        flags=_I,
    ),
    _rule(
        "password",
        r"""\b password (?:[ \t]++|[ \t]*+\([ \t]*+) '(?P<v> [^'\n$]{1,200}+ )' [ \t]*+
        (?= [;)"\n] | \Z | valid\b | superuser\b | login\b )""",
        flags=_I,
    ),
    _rule(
        "password",
        r"\b login [ \t\n]++ \S++ [ \t\n]++ (?:password|passwd) [ \t\n]++ (?P<v> [^\s'\"]{1,200}+ )",
    ),
    _rule(
        "password",
        r"""\b (?: enable | username [ \t]++ \S++ (?:[ \t]++privilege[ \t]++\d++)?+ ) [ \t]++
        (?:password|secret) [ \t]++ (?:\d[ \t]++)? (?P<v> [^\s'"]{1,200}+ )""",
        flags=_I,
    ),
    _rule(
        "password",
        r"""(?:^|[\n'"])[ \t]*+ rootpw [ \t]++ (?:--(?:plaintext|allow-ssh)[ \t]++)*+
        (?P<v> [^\s'"-][^\s'"]{0,200}+ )""",
    ),
    _rule("password", r"\b PSK [ \t]++ [\"'](?P<v> [^\"'\n]{1,200}+ )"),
    _rule("password", r"\b r[ow]community6? [ \t]++ (?P<v> [^\s'\"]{1,200}+ )"),
    _rule(
        "password",
        r"< \w*(?:password|secret|token|passphrase) > (?P<v> [^<\n]{1,400}+ ) </",
        flags=_I,
    ),
    _rule(
        "password",
        r"""assword (?: [^\n]{0,80}? | [^\n]{0,80} \n [^\n]{0,40}? ) \bsend [ \t]++
        (?:--[ \t]++)? "(?P<v> [^"\\\n]{1,200}+ ) \\[rn]""",
    ),
    _rule(
        "password",
        r"""(?<![^\s'"]) [\w.*-]++ : (?:\d{1,5}|\*) : [^:\s'"]{1,60}+ : [^:\s'"]{1,60}+ :
        (?P<v> [^:\s'"]{1,200}+ ) (?=['"]|\s|\Z)""",
    ),
    _rule(
        "password", r"""["'] auth ["'] [ \t]*+ : [ \t]*+ ["'] (?P<v> [A-Za-z0-9+/]{8,}+=* ) ["']"""
    ),
)
"""Values that stand at a certain place of a certain language, behind the name of that place."""

_ASSIGNS: Final = re.compile(
    r"""(?<![\w$.{-]) (?: --? (?: D(?=[a-z]) )? )?+
    (?P<name>[A-Za-z_][\w.-]*+) (?P<close>\\?['"]|['"]?\])?
    [ \t]*+ (?P<sign> \+?=(?!=) >? | :=? (?!:) ) [ \t]*+ VALUE""".replace("VALUE", _VALUE),
    re.VERBOSE,
)
_DEFAULTS: Final = re.compile(
    r"""\$\{ (?P<name>[A-Za-z_]\w*+) :? (?P<sign>[=-]) (?: "(?P<v1>(?:[^"\\\n]|\\.){1,400}+)
    | '(?P<v2>[^'\n]{1,400}+) | \\"(?P<v4>[^"\\\n]{1,400}+) | (?P<v3>[^'"}\n][^"}\n]{0,400}+) )""",
    re.VERBOSE,
)
"""``${NAME:-value}``: what the script says when nobody says it."""
_FLAGS: Final = re.compile(
    r"(?<!\S) --? (?P<name>[A-Za-z][\w-]{2,80}+) (?P<sign>[ \t]++) (?!-) VALUE".replace(
        "VALUE", _VALUE
    ),
    re.VERBOSE,
)
_STRONG_NAME: Final = re.compile(
    r"""(?:.*[_.-])?+ (?: pass|pw|pwd|passcode|rootpw|bindpw|userpw|adminpw )
    | .*(?:password|passwd|passphrase|passwort)\d?
    | (?:.*[_.-]|) (?: ssh|my|mysql|pg|db|root|admin|user|ldap|smtp|mail|ftp|redis|bind|store|key|ts
      | client )_?pass """,
    _I | re.VERBOSE,
)
_NAME: Final = re.compile(
    r"""(?:.*[_.-]|) (?: secrets?|token|credentials?|creds?|psk|pin|pre[_-]?shared[_-]?key
    | (?:api|access|account|auth|secret|private|encryption|shared|signing|master|app|session|consumer
      | activation|license|storage|service|wep|shared[_-]?access|hmac|aes|crypt|root|admin)[_-]?key )
    | .*[a-z](?:Secret|Token|ApiKey|AccessKey|SecretKey|PrivateKey)
    | .*(?:secret|_token|secretkey|accountkey) """,
    re.VERBOSE,
)
_BARE: Final = frozenset({"pass", "pw", "pwd", "pin", "secrets", "credentials", "cred", "creds"})
"""Names that are words of prose, of tests, or the working directory: they count when they are set."""
_NEGATED: Final = frozenset({"nopasswd", "nopassword", "no-password", "no_password", "bypass"})
_ORDINARY: Final = re.compile(
    r"""[$`].* | \{\{.* | <[^>]*>? | %[\w({].* | [~./].* | \w:\\.* | [*!x_.=?-]+ | \d{1,3} | \[REDACTED.*
    | yes | no | on | off | true | false | none | null | nil | required | optional | requisite
    | sufficient | prompt | ask | enabled? | disabled? | file | env | stdin | sha\d+ | md5 | yescrypt
    | bcrypt | string | str | int | bool | bytes | expired? | locked
    | never | always | include | substack | default | unset | empty | \[(?:success|default)=.*
    | [a-z_]+=-?\w* | Optional\[.* | \w+\[.* | !vault | !!\w+ | [|>][+-]?
    | (?: os | env | process | config | settings | self | args | vars? | module | data | request | fields
      | cls | options | opts | params | kwargs ) \. [\w.\[\]'"]+ """,
    _I | re.VERBOSE,
)
"""Values that say nothing secret: references, paths, switches, small numbers, algorithm names."""
_OWN_NAME: Final = re.compile(r"password|passwd|secret|token|passphrase|credentials?", _I)
_PROSE_FOLLOWS: Final = re.compile(r"[ \t]+(?:[A-Za-z]{2,}|\[REDACTED)")
_STRICT: Final = re.compile(
    r"[$`].*|\{\{.*|<[^>]*>?|%[\w({].*|\[REDACTED.*|[*!x?]+|-----BEGIN.*", re.DOTALL
)


def secrets_of_shapes(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of secrets; they may overlap."""
    for kind, pattern in SHAPES:
        for hit in pattern.finditer(text):
            start, end = hit.span(hit.lastgroup or 0)
            known = kind in {"authorization", "header", "url_password"}
            if text[start:end].strip() and not (known and _ORDINARY.fullmatch(text, start, end)):
                yield start, end, kind
    for kind, pattern in NAMED:
        for hit in pattern.finditer(text):
            start, end = hit.span(hit.lastgroup or 0)
            if text[start:end].strip() and not _is_ordinary(text, start, end):
                yield start, end, kind
    for pattern in (_ASSIGNS, _DEFAULTS, _FLAGS):
        for start, end in _named(text, pattern):
            yield start, end, "password"


def _is_ordinary(text: str, start: int, end: int) -> bool:
    return bool(
        _ORDINARY.fullmatch(text, start, end)
        or _OWN_NAME.fullmatch(text, start, end)
        or _STRICT.fullmatch(text, start, end)
    )


def _named(text: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    """Yield the values behind the names that ``pattern`` finds; looks again behind a harmless name."""
    at = 0
    while hit := pattern.search(text, at):
        at = max(hit.end("sign"), at + 1)
        name = hit["name"][-120:]
        strong = _STRONG_NAME.fullmatch(name)
        if name.lower() in _NEGATED or not (
            strong or _NAME.fullmatch(name) or _NAME.fullmatch(name.lower())
        ):
            continue
        start, end = next(hit.span(group) for group in ("v1", "v2", "v3", "v4") if hit[group])
        if not _is_harmless(text, hit, start, end, strong=bool(strong)):
            yield start, end
            at = end


def _is_harmless(text: str, hit: re.Match[str], start: int, end: int, *, strong: bool) -> bool:
    value, sign = text[start:end], hit["sign"]
    quoted = hit["v3"] is None
    if _is_ordinary(text, start, end) or (not strong and re.fullmatch(r"\d{1,5}", value)):
        return True
    if not quoted and text[end : end + 1] == "(":
        return True  # a call
    if sign.startswith(":") or not sign.strip():
        if hit["name"].lower() in _BARE and not (quoted and sign.startswith(":")):
            return True
        prose = value.rstrip(".:!").isalpha() and not quoted and _PROSE_FOLLOWS.match(text, end)
        return bool(prose and sign.startswith(":"))
    return False
