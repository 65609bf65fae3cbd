"""Tells the lines of a tip apart: prose, a command, a line of a configuration file.

Guarantees: decided by form alone (prompt signs, `=`, leading characters, English function words),
never by what a line is about.

Does not guarantee the unusual: a sentence without any small word reads as a configuration line.

Shaped by tips that show `install can /bin/false`: three words, one of them English.
"""

from __future__ import annotations

import re
from typing import Final

_FUNCTION_WORD: Final = re.compile(
    r"(?:^|\s)(?:the|to|is|are|be|must|following|with|for|a|an|of|will|that|this|can|should|from|not"
    r"|by|has|have|it)(?=\s|$)",
    re.IGNORECASE,
)


def is_config_line(body: str) -> bool:
    """Say whether a line of a tip shows a line of a file rather than a sentence."""
    if (body.endswith((".", ":", "?")) and not body.endswith(("*.", "/."))) or len(body) > 400:
        return False
    words = body.split()
    if re.match(r"-[a-zA-Z-]", words[0]) and len(words) > 1 and not re.match(r"-\s", body):
        return True
    if is_prose(body, words):
        return False
    if "=" in body or words[0].startswith(("/", "$", "*", "%", "@", "[", "#", "-")):
        return True
    if len(words) == 1:
        return bool(re.fullmatch(r"[\w.-]+", body))
    return len(words) <= 12 and "," not in words[0]


def is_prose(body: str, words: list[str]) -> bool:
    """One small English word may be a name ("install can /bin/false"); two are a sentence."""
    count = len(_FUNCTION_WORD.findall(body))
    return count > 1 or (count == 1 and (len(words) > 4 or body[:1].isupper()))
