"""Puts quotes round what a sentence shows without any: command lines and lines of files.

Guarantees: a command keeps its quoted arguments and loses the full stop or comma after it; of "write
K V and K2 V2 to PATH" each line is marked by itself; audit rules in a row share the options that
"each with" adds. Text that is quoted already is left alone. Linear time.

Does not guarantee that a literal is found: where it ends is decided by English function words and
by the form of the tokens, not by the grammar of the program.

Shaped by tips that show `sed -i 's/a b/c d/' FILE, then …` in the middle of a sentence: split at
blanks, the expression was a path and the file was lost.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scoring.trace.english import ADJECTIVES, FUNCTION_WORDS, GENERIC_NOUNS, IMPERATIVES

if TYPE_CHECKING:
    from scoring.trace.vocabulary import ActionVocabulary

_BACKTICKS: Final = re.compile(r"```.{1,2000}?```|`[^`\n]{1,400}`", re.DOTALL)
_WORD: Final = re.compile(r"(?:[^\s\"'`]|(?<=\w)'(?=\w)|\"[^\"\n]{0,300}\"|'[^'\n]{0,300}')+|\S")
_END: Final = ",;:.!?)"
_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]*(?:=\S*)?")
_NAME: Final = re.compile(r"[a-z][\w.+-]*")
_TECHNICAL: Final = re.compile(r"[=/%@\d_*$\\|]|[a-z][A-Z]|[A-Z]{2,}|\w\.\w|\w-\w|\w:\w|^[-+]\w")
_KEY: Final = re.compile(r"[A-Za-z][a-z]*[A-Z]\w*|\w+_\w+|[A-Z]{3,}|[\w-]+(?:\.[\w-]+)+")
_PLACE: Final = re.compile(
    r"(?:~|/|etc/)\S*|[\w@-]+\.(?:conf|cfg|d|rules|defs|sh|local|repo|ini)\b\S*"
)
_JOINTS: Final = frozenset({"|", "&&", "||", ">", ">>", "<", "2>&1", "-", "--"})
_LIST_ACTION: Final = re.compile(r"(?:always|never|exit|task|user|exclude|filesystem),\w+")
_RULE_OPTIONS: Final = frozenset({"-w", "-a", "-A", "-p", "-k", "-F", "-S", "-C"})
# A program that is not listed is recognized by an option, after one of these words.
_INTRODUCING: Final = frozenset(
    {"run", "running", "with", "using", "use", "by", "then", "via", "through", "call", "execute",
     "and", "or", "of", "after", "before", "check", "verify"}
)  # fmt: skip
_WRITING: Final = frozenset(
    {"write", "writing", "put", "append", "add", "adding", "insert", "place", "set", "setting",
     "use", "enter", "include", "enable", "lines", "line", "with", "keep", "have"}
)  # fmt: skip
# After these a place makes even plain words a line: "write Banner none to PATH".
_WRITING_OUT: Final = frozenset({"write", "writing", "append", "insert", "put"})
_INTO: Final = frozenset(
    {"to", "into", "in", "under", "at", "inside", "within", "as", "on", "below"}
)
_ALIKE: Final = 0.5
_LINE_WORDS: Final = 12
_COMMAND_WORDS: Final = 24
_PLACE_WITHIN: Final = 9
_SENTENCE: Final = 30
# Programs whose first plain word is a subcommand, the second what it is applied to.
_WITH_SUBCOMMANDS: Final = frozenset(
    {"systemctl", "dnf", "yum", "apt", "apt-get", "zypper", "microdnf", "rpm", "pip", "authselect",
     "nmcli", "timedatectl", "hostnamectl", "localectl", "loginctl", "resolvectl", "networkctl",
     "dconf", "gsettings", "semanage", "alternatives", "update-alternatives", "ufw", "nft", "ip",
     "git", "subscription-manager", "update-ca-trust"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int

    @property
    def core(self) -> str:
        """The word without the punctuation of the sentence; `\\;` belongs to the command."""
        bare = self.text.lstrip("(")
        return bare if bare.endswith("\\;") else bare.rstrip(_END)

    @property
    def closes(self) -> str:
        """Return the punctuation after the word, an empty text when there is none."""
        return self.text.lstrip("(")[len(self.core) :]


def mark_literals(text: str, vocabulary: ActionVocabulary) -> str:
    """Return a prose text in which bare commands and file lines stand in backticks."""
    pieces: list[str] = []
    position = 0
    for match in _BACKTICKS.finditer(text):
        pieces += [_Marker(text[position : match.start()], vocabulary).marked(), match[0]]
        position = match.end()
    pieces.append(_Marker(text[position:], vocabulary).marked())
    return "".join(pieces)


class _Marker:
    """Goes over the words of a text once and collects what is to be replaced."""

    def __init__(self, text: str, vocabulary: ActionVocabulary) -> None:
        self.text = text
        self.vocabulary = vocabulary
        self.words = [_Word(m[0], m.start(), m.end()) for m in _WORD.finditer(text)]
        self.changes: list[tuple[int, int, str]] = []
        self.open_rules: list[int] = []

    def marked(self) -> str:
        index = 0
        while index < len(self.words):
            index = self._step(index)
        pieces: list[str] = []
        position = 0
        for start, end, literal in self.changes:
            pieces += [self.text[position:start], literal]
            position = end
        pieces.append(self.text[position:])
        return "".join(pieces)

    def _step(self, index: int) -> int:
        for reader in (self._command, self._rule, self._shared_options, self._same_for):
            end = reader(index)
            if end > index:
                return end
        if self.words[index].core.lower() in _WRITING and not self.words[index].closes:
            return self._lines(index + 1, verb=self.words[index].core.lower())
        return index + 1

    def _take(self, start: int, end: int, suffix: str = "") -> None:
        """Mark the words from `start` to before `end`, without the last one's punctuation."""
        first, last = self.words[start], self.words[end - 1]
        begin = first.start + len(first.text) - len(first.text.lstrip("("))
        finish = last.end - len(last.closes)
        literal = " ".join(self.text[begin:finish].split())
        self.changes.append((begin, finish, f"`{literal}{suffix}`"))

    # Commands

    def _command(self, index: int) -> int:
        """Return the index after a command that starts here, `index` when there is none."""
        if not self._is_program(index):
            return index
        end, plain, program = index + 1, 0, self.words[index].core
        while end < len(self.words) and end - index < _COMMAND_WORDS:
            word = self.words[end]
            if word.text in _JOINTS:
                plain, program, end = 0, self.words[min(end + 1, len(self.words) - 1)].core, end + 1
                continue
            after_joint = self.words[end - 1].text in ("|", "&&", "||")
            if not after_joint and not self._is_argument(end, index, plain, program):
                break
            plain += not after_joint and word.core.isalpha() and word.core.islower()
            end += 1
            if word.closes and not word.core.endswith("\\;"):
                break
        while end > index and self.words[end - 1].text in _JOINTS:
            end -= 1
        if end <= index + 1:
            return index
        self._take(index, end)
        return end

    def _is_program(self, index: int) -> bool:
        word = self.words[index]
        name = word.core.rpartition("/")[2]
        if word.closes or not _NAME.fullmatch(name) or index + 1 >= len(self.words):
            return False
        following = self.words[index + 1].core
        if name == "service":
            return self._is_service(index)
        if name in self.vocabulary.programs:
            return name not in FUNCTION_WORDS
        if name in FUNCTION_WORDS or name in GENERIC_NOUNS or not _OPTION.fullmatch(following):
            return False
        before = self.words[index - 1] if index else None
        return before is None or bool(before.closes) or before.core.lower() in _INTRODUCING

    def _is_service(self, index: int) -> bool:
        """`service NAME VERB`, told apart from the noun by its verb."""
        name = self.words[index + 1]
        verb = self.words[index + 2].core if index + 2 < len(self.words) else ""
        return bool(_NAME.fullmatch(name.text)) and verb in _VERBS

    def _is_argument(self, index: int, start: int, plain: int, program: str) -> bool:
        core = self.words[index].core
        if not core or core.lower() in FUNCTION_WORDS:
            return False
        if core[:1] in "\"'-$" or _TECHNICAL.search(core) or re.fullmatch(r"[A-Z0-9]+", core):
            return True
        if not _NAME.fullmatch(core):
            return False
        if program == "service":
            return plain < 2
        if program in _WITH_SUBCOMMANDS:
            return core in _SUBCOMMANDS if plain == 0 else plain == 1
        # Elsewhere one plain word, after an option or a value: `passwd -l games`.
        return plain < 1 and index > start + 1

    # Lines of files

    def _lines(self, index: int, *, verb: str) -> int:
        """Mark the lines in "write A and B to PATH"; return the index after the last of them."""
        items, end = self._items(index)
        literal = verb in _WRITING_OUT
        placed = self._place_follows(end)
        placed = placed or ((literal or verb == "add") and self._place_before(index, end))
        taken = index
        for start, stop in items:
            if self._is_line(start, stop, placed=placed, literal=literal):
                self._take(start, stop)
                taken = stop
        return taken

    def _items(self, index: int) -> tuple[list[tuple[int, int]], int]:
        items: list[tuple[int, int]] = []
        start = index
        while index < len(self.words) and index - start < _LINE_WORDS:
            word = self.words[index]
            # A capital letter in the middle of a sentence makes "Include" or "Match" a name.
            step = bool(items) and word.core in IMPERATIVES
            opening = index == start and (step or word.text[:1] in "\"'`-")
            if word.core == "and" and not word.closes:
                items.append((start, index))
                start = index = index + 1
                continue
            if opening or word.core in FUNCTION_WORDS or self._is_program(index):
                break
            index += 1
            if word.closes:
                items.append((start, index))
                start = index
                if word.closes != ",":
                    break
        items.append((start, index))
        return [item for item in items if item[1] > item[0]], index

    def _place_follows(self, index: int) -> bool:
        if index >= len(self.words) or self.words[index].core.lower() not in _INTO:
            return False
        following = self.words[index + 1 : index + _PLACE_WITHIN]
        return any(_PLACE.fullmatch(word.core.strip("\"'")) for word in following)

    def _place_before(self, index: int, end: int) -> bool:
        """Say whether "add X" or "put X there" goes on after a place in the same sentence."""
        there = end < len(self.words) and self.words[end].core.lower() == "there"
        ended = end >= len(self.words) or bool(self.words[end - 1].closes.strip(","))
        if not there and not ended:
            return False
        for word in reversed(self.words[max(index - _SENTENCE, 0) : index]):
            if word.closes in (".", "!", "?"):
                return False
            if _PLACE.fullmatch(word.core.strip("\"'")):
                return True
        return False

    def _is_line(self, start: int, stop: int, *, placed: bool, literal: bool) -> bool:
        cores = [word.core for word in self.words[start:stop]]
        key = cores[0]
        if key in GENERIC_NOUNS or not re.match(r"[A-Za-z*@$/%]", cores[0]):
            return False
        if len(cores) == 1:
            return bool(re.fullmatch(r"[\w.-]+=\S+", cores[0]))
        technical = sum(1 for core in cores if _TECHNICAL.search(core))
        if "=" in cores[1:2]:
            return True
        if cores[-1] in GENERIC_NOUNS or cores[1] in GENERIC_NOUNS:
            # "conf.d files", "PermitRootLogin lines": still no line of a file.
            return False
        if key in ADJECTIVES:
            return False
        if placed and (technical or literal):
            return True
        return bool(_KEY.fullmatch(cores[0])) or (technical >= 2 and len(cores) >= 3)

    # Audit rules

    def _rule(self, index: int) -> int:
        word = self.words[index].core
        following = self.words[index + 1].core if index + 1 < len(self.words) else ""
        watch = word == "-w" and following.startswith("/")
        if not watch and not (word in ("-a", "-A") and _LIST_ACTION.fullmatch(following)):
            return index
        end = self._options(index)
        self._take(index, end)
        if watch and not any(part.core == "-p" for part in self.words[index:end]):
            self.open_rules.append(len(self.changes) - 1)
        return end

    def _options(self, index: int) -> int:
        """Return the index after pairs of option and value; punctuation ends them."""
        while index + 1 < len(self.words) and self.words[index].text in _RULE_OPTIONS:
            index += 2
            if self.words[index - 1].closes:
                break
        return index

    def _shared_options(self, index: int) -> int:
        """Read "… each with -p wa -k K": the options belong to every rule without them."""
        core = self.words[index].core
        following = self.words[index + 1].text if index + 1 < len(self.words) else ""
        if core != "with" or following not in ("-p", "-k") or not self.open_rules:
            return index
        end = self._options(index + 1)
        last = self.words[end - 1]
        shared = self.text[self.words[index + 1].start : last.end - len(last.closes)]
        for number in self.open_rules:
            start, stop, literal = self.changes[number]
            self.changes[number] = (start, stop, f"{literal[:-1]} {shared}`")
        self.open_rules.clear()
        self.changes.append((self.words[index].start, last.end - len(last.closes), ""))
        return end

    def _same_for(self, index: int) -> int:
        """Read "and the same for X": the line before, with X in place of what resembles it."""
        cores = [word.core.lower() for word in self.words[index : index + 4]]
        if len(cores) < 4 or cores[:2] != ["the", "same"] or cores[2] not in ("for", "with"):
            return index
        other = self.words[index + 3]
        if not self.changes or not _TECHNICAL.search(other.core):
            return index
        parts = self.changes[-1][2].strip("`").split(" ")
        likeness = [difflib.SequenceMatcher(None, part, other.core).ratio() for part in parts]
        nearest = max(range(len(parts)), key=likeness.__getitem__)
        if likeness[nearest] < _ALIKE:
            return index
        parts[nearest] = other.core
        finish = other.end - len(other.closes)
        self.changes.append((self.words[index].start, finish, f"`{' '.join(parts)}`"))
        return index + 4


_VERBS: Final = frozenset({"restart", "reload", "start", "stop", "enable", "disable", "rotate"})
_SUBCOMMANDS: Final = _VERBS | frozenset(
    {"install", "remove", "reinstall", "mask", "unmask", "update", "upgrade", "erase", "purge",
     "set", "select", "write", "general", "modify", "connection", "boolean", "login", "port",
     "fcontext", "add", "delete", "get", "list", "reset", "allow", "deny", "link", "addr"}
)  # fmt: skip
