"""Configuration lines and paths: when do two of them say the same thing?

Guarantees: `key = value`, `Key value`, flags, audit rules and longer directives are compared by
key and value, not by characters; quotes, blanks, case of keys, leading zeros and order in lists do
not matter. Placeholders of a tip (`[file]`, `<user>`) match anything, UNKNOWN parts of a script
match with less weight.

Does not guarantee knowledge of a format: sections are ignored, units are not converted.

Shaped by pairs with the right file and key and the wrong value, which every overlap measure calls
followed.
"""

from __future__ import annotations

import enum
import fnmatch
import itertools
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from scoring.trace.actions import UNKNOWN, base_name

if TYPE_CHECKING:
    from scoring.trace.vocabulary import ActionVocabulary

SAME: Final = 1.0
PARTLY_KNOWN: Final = 0.75
NOT_KNOWN: Final = 0.5
OTHER_VALUE: Final = 0.15
_CACHE: Final = 8_000

_PLACEHOLDER: Final = re.compile(
    r"\[[A-Za-z][^\]=]*\]|<[A-Za-z][^>]*>|\{[A-Za-z][^}]*\}|\.\.\.$|…$"
)
_ASSIGNED: Final = re.compile(r"([^\s=\"']+)\s*(?:=|\+=|:=)\s*(.*)", re.DOTALL)
_MERGED: Final = re.compile(r"^/(?:usr/)?(bin|sbin|lib|lib64)(?=/|$)")
_AUDIT_RULE: Final = re.compile(r"^(?:auditctl\s+)?-[aAw]\s")
_BACKUP: Final = re.compile(r"(?:\.(?:bak|backup|orig|old|save|rpmsave|tmp)\b[^/]*|~)$")
_COMMENT: Final = ("#", ";", "//")


class Relation(enum.Enum):
    """How a script's line stands to a tip's line."""

    SAME = "same"
    OTHER_VALUE = "other value"
    OPPOSITE = "opposite"
    UNRELATED = "unrelated"


@dataclass(frozen=True, kw_only=True, slots=True)
class LineMatch:
    """Relation, and a score in [0, 1] for ranking."""

    relation: Relation
    score: float


_UNRELATED: Final = LineMatch(relation=Relation.UNRELATED, score=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigLine:
    """A configuration line taken apart. `words` are its tokens without quotes."""

    key: str
    value: str
    words: tuple[str, ...]
    commented: bool
    complete: bool = True
    audit: tuple[frozenset[str], frozenset[str]] | None = None


@lru_cache(maxsize=_CACHE)
def config_line(text: str) -> ConfigLine:
    """Take a line apart; any text is a line."""
    text = text.strip()[:2_000]
    commented = text.startswith(_COMMENT)
    bare = text.lstrip("#;/ \t") if commented else text
    if _AUDIT_RULE.match(bare):
        words = tuple(bare.split())
        return ConfigLine(
            key=words[0], value="", words=words, commented=commented, audit=_audit_parts(words)
        )
    assigned = _ASSIGNED.fullmatch(bare)
    if assigned and not assigned[1].startswith("-"):
        value = _plain(assigned[2])
        words = (assigned[1], *(_plain(word) for word in value.split()))
        return ConfigLine(key=_key(assigned[1]), value=value, words=words, commented=commented)
    known = bare.replace(UNKNOWN, " ")
    words = tuple(word for word in (_plain(part) for part in known.split()) if word)
    if len(words) < 3:
        words = tuple(word for word in (_plain(part) for part in bare.split()) if word)
    if len(words) < 2:
        return ConfigLine(
            key=_key(words[0]) if words else "", value="", words=words, commented=commented
        )
    return ConfigLine(
        key=_key(words[0]),
        value=" ".join(words[1:]),
        words=words,
        commented=commented,
        complete=UNKNOWN not in bare,
    )


def _key(word: str) -> str:
    """Keys compare without case; a sysctl key may be written with slashes."""
    word = word.strip("\"',;").lower()
    return word.replace("/", ".") if "/" in word and not word.startswith("/") else word


def _plain(text: str) -> str:
    return text.strip().strip(",;").strip("\"'").strip()


def _audit_parts(words: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return (fields, system calls) of an audit rule; its key is a label and does not count."""
    fields: set[str] = set()
    calls: set[str] = set()
    for option, value in itertools.pairwise(words):
        if option in ("-a", "-A"):
            fields.add("list=" + ",".join(sorted(value.split(","))))
        elif option == "-C":
            fields.add(value)
        elif option == "-S":
            calls.update(part for part in value.split(",") if part)
        elif option == "-F" and not value.startswith("key="):
            fields.add(value.replace("dir=", "path=", 1).rstrip("/").replace("auid!=-1", "auid!=unset")
                       .replace("auid!=4294967295", "auid!=unset"))  # fmt: skip
        elif option == "-w":
            fields |= {"list=always,exit", "path=" + value.rstrip("/")}
        elif option == "-p":
            fields.add("perm=" + "".join(sorted(value)))
    sorted_perm = {
        "perm=" + "".join(sorted(field[5:])) if field.startswith("perm=") else field
        for field in fields
    }
    return frozenset(sorted_perm), frozenset(calls)


def compare_lines(tip: str, script: str, vocabulary: ActionVocabulary) -> LineMatch:
    """Compare the line that a tip shows with a line that a script writes."""
    wanted, written = config_line(tip), config_line(script)
    if (written.commented and not wanted.commented) or not wanted.words or not written.words:
        return _UNRELATED
    if wanted.audit is not None:
        return _compare_audit(wanted, written)
    if wanted.key != written.key:
        return _compare_option(wanted, written, vocabulary) if "=" in tip else _UNRELATED
    if len(wanted.words) == 1:
        same = not wanted.value and not written.value
        return LineMatch(relation=Relation.SAME, score=SAME if same else PARTLY_KNOWN)
    if len(wanted.words) > 2 and "=" not in tip.partition(wanted.words[1])[0]:
        return _compare_words(wanted, written, vocabulary)
    return _compare_values(wanted.value, written.value, vocabulary)


def _compare_option(
    wanted: ConfigLine, written: ConfigLine, vocabulary: ActionVocabulary
) -> LineMatch:
    """Look for one `key=value` among the options of a longer line (PAM, kernel arguments)."""
    given = _assignments(written.words[1:]).get(wanted.key)
    if given is None or len(wanted.words) != 2:
        return _UNRELATED
    return _compare_values(wanted.value, given, vocabulary)


def _compare_audit(wanted: ConfigLine, written: ConfigLine) -> LineMatch:
    if wanted.audit is None or written.audit is None:
        return _UNRELATED
    fields, calls = wanted.audit
    other_fields, other_calls = written.audit
    objects = {field for field in fields if field.startswith("path=")}
    other_objects = {field for field in other_fields if field.startswith("path=")}
    if objects and not any(_same_audit_path(a, b) for a in objects for b in other_objects):
        return _UNRELATED
    shared_calls = len(calls & other_calls) / len(calls) if calls else 1.0
    if not shared_calls or (not objects and not calls):
        return _UNRELATED
    # The architecture is usually written by a loop over both; it tells nothing apart.
    loose = {field for field in fields if not field.startswith(("arch=", "path="))}
    missing = loose - other_fields
    partly = 1.0 if shared_calls == 1.0 else 0.5 + 0.3 * shared_calls
    if not missing:
        return LineMatch(relation=Relation.SAME, score=partly)
    if any(UNKNOWN in word for word in written.words):
        return LineMatch(relation=Relation.SAME, score=PARTLY_KNOWN * partly)
    score = 0.4 * partly * (1.0 - len(missing) / len(loose))
    return LineMatch(relation=Relation.OTHER_VALUE, score=score)


def _same_audit_path(one: str, other: str) -> bool:
    left, right = normal_path(one[5:]), normal_path(other[5:])
    return left == right


def _compare_words(
    wanted: ConfigLine, written: ConfigLine, vocabulary: ActionVocabulary
) -> LineMatch:
    """Compare directives of three and more words: a table row, a PAM or modprobe line."""
    others = {word.lower() for word in written.words}
    missing = [
        word
        for word in wanted.words
        if word.lower() not in others and not _PLACEHOLDER.search(word)
    ]
    share = 1.0 - len(missing) / len(wanted.words)
    if not missing:
        return LineMatch(relation=Relation.SAME, score=SAME)
    set_here = _assignments(wanted.words)
    if set_here and share >= 0.3:
        given = _assignments(written.words)
        if all(given.get(key, "").lower() == value for key, value in set_here.items()):
            # What a longer line sets matters more than the words around it.
            return LineMatch(relation=Relation.SAME, score=0.5 + 0.4 * share)
        if any(key in given for key in set_here):
            return LineMatch(relation=Relation.OTHER_VALUE, score=OTHER_VALUE)
    if not written.complete and share >= 0.6 and wanted.words[-1] not in missing:
        # The rest of an edited line is not known; what was put into it is.
        return LineMatch(relation=Relation.SAME, score=PARTLY_KNOWN)
    if len(missing) == 1 and len(written.words) >= len(wanted.words):
        last = _compare_values(missing[0], written.words[-1], vocabulary)
        if last.relation is not Relation.UNRELATED:
            return LineMatch(relation=last.relation, score=max(last.score, 0.2))
    if share >= 0.6:
        return LineMatch(relation=Relation.OTHER_VALUE, score=0.4 * share)
    return LineMatch(relation=Relation.UNRELATED, score=0.1 * share)


def _assignments(words: tuple[str, ...]) -> dict[str, str]:
    """Return the `key=value` words of a line."""
    pairs = (word.partition("=") for word in words if not word.startswith("-"))
    return {
        key.lower(): _plain(value).lower() for key, mark, value in pairs if mark and key and value
    }


def _compare_values(wanted: str, written: str, vocabulary: ActionVocabulary) -> LineMatch:
    if _PLACEHOLDER.search(wanted) or same_value(wanted, written, vocabulary):
        return LineMatch(relation=Relation.SAME, score=SAME)
    if UNKNOWN in written:
        known = written.replace(UNKNOWN, "").strip(" \"',")
        if not known:
            return LineMatch(relation=Relation.SAME, score=NOT_KNOWN)
        if wanted.lower() in known.lower() or known.lower() in wanted.lower():
            return LineMatch(relation=Relation.SAME, score=PARTLY_KNOWN)
    if vocabulary.opposite_truth(wanted, written):
        return LineMatch(relation=Relation.OPPOSITE, score=0.0)
    return LineMatch(relation=Relation.OTHER_VALUE, score=OTHER_VALUE)


def same_value(wanted: str, written: str, vocabulary: ActionVocabulary) -> bool:
    """Say whether two values are equal: as text, number, truth value, or list."""
    left, right = _plain(wanted).lower(), _plain(written).lower()
    if left == right:
        return True
    if left.isdigit() and right.isdigit():
        return int(left) == int(right)
    if left in vocabulary.true_words and right in vocabulary.true_words:
        return True
    if left in vocabulary.false_words and right in vocabulary.false_words:
        return True
    items, others = _items(left), _items(right)
    return len(items) > 0 and items <= others and (len(items) > 1 or len(others) > 1)


def _items(value: str) -> set[str]:
    return {_plain(part) for part in re.split(r"[,\s]+", value) if _plain(part)}


@lru_cache(maxsize=_CACHE)
def normal_path(path: str) -> str:
    """Return a path without quotes, doubled or final slashes; /bin is /usr/bin."""
    path = path.strip("\"'` ").rstrip("/") or path[:1]
    path = re.sub(r"/{2,}", "/", path)
    path = _MERGED.sub(r"/usr/\1", path)
    return path.removeprefix("/var") if path.startswith("/var/run/") else path


@lru_cache(maxsize=_CACHE)
def path_closeness(tip: str, script: str) -> float:
    """Return how far a script's path is the one that a tip names: 1 same, 0 another.

    1.0 the same file, or a file under the directory; 0.95 a neighbour in the same `….d`
    directory; 0.8 in a `….d` directory beside it; 0.5 a drop-in where the tip names the main file,
    or the reverse; 0.6 not known.
    """
    if not script:
        return 0.5
    if _PLACEHOLDER.fullmatch(tip.strip()):
        return 1.0
    wanted, touched = normal_path(tip), normal_path(script)
    if wanted == touched:
        return 1.0
    if _BACKUP.search(touched):
        return 0.0
    if "/" not in wanted:
        return _name_closeness(wanted, touched)
    if UNKNOWN in touched:
        known = touched.partition(UNKNOWN)[0]
        return 0.6 if not known else 0.8 if wanted.startswith(known.rstrip("/")) else 0.0
    if "*" in wanted or _PLACEHOLDER.search(wanted):
        return _pattern_closeness(wanted, touched)
    directory = wanted
    if touched.startswith(directory + "/") and not directory.endswith((".conf", ".cfg")):
        return 1.0
    parent, other_parent = wanted.rpartition("/")[0], touched.rpartition("/")[0]
    if parent == other_parent and ".d/" in parent + "/":
        return 0.95
    if _sibling_directories(wanted, touched):
        return 0.8
    if touched.startswith(wanted + ".d/") or wanted.startswith(touched + ".d/"):
        return 0.5
    if _main_of_drop_in(parent, touched) or _main_of_drop_in(other_parent, wanted):
        return 0.45
    return 0.0


def _pattern_closeness(wanted: str, touched: str) -> float:
    """Match `/etc/ssh/*key.pub` or `/etc/rsyslog.d/[file].conf` against a path or another pattern."""
    pattern = re.sub(r"\*+", "*", _PLACEHOLDER.sub("*", wanted))
    if pattern.count("*") <= 4 and fnmatch.fnmatchcase(touched, pattern.replace("[", "[[]")):
        return 1.0
    directory = pattern.rpartition("/")[0]
    return 0.9 if "*" in touched and touched.rpartition("/")[0] == directory else 0.0


def _sibling_directories(wanted: str, touched: str) -> bool:
    """Say whether two paths lie in `….d` directories side by side (db/local.d, db/site.d)."""
    left, right = wanted.split("/"), touched.split("/")
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            between = left[index + 1 : -1] == right[index + 1 : -1]
            return index > 2 and one.endswith(".d") and other.endswith(".d") and between
    return False


def _main_of_drop_in(directory: str, path: str) -> bool:
    """Say whether a path is the main file beside a drop-in directory (x.d and x.conf or x)."""
    return directory.endswith(".d") and path in (
        directory.removesuffix(".d"),
        directory.removesuffix(".d") + ".conf",
    )


def _name_closeness(name: str, touched: str) -> float:
    parts = touched.split("/")
    if name in parts:
        return 1.0
    if base_name(touched).startswith(name + ".") or f"{name}.d" in parts:
        return 0.7
    return 0.6 if touched == UNKNOWN else 0.0
