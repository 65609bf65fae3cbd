"""Rule ids: what two rules have in common, in Python and as a generated column.

Guarantees: the family of a rule id is the first of its tokens, the same here and in the database (ids
beyond ASCII need one whose locale knows their letters); ids of SCAP content lose the part that they all
share (``xccdf_…_content_rule_``). Does not understand a rule:
ids of one family are alike by name only (upstream's finding: embeddings of rule ids collapse on shared
tokens, names do not).
"""

from __future__ import annotations

import re
from typing import Any

from django.db.models import F, Func, TextField, Value
from django.db.models.functions import Lower

_SCAP = re.compile(r"^xccdf_[^_]+_rule_")


def rule_tokens(rule_id: str) -> tuple[str, ...]:
    """``xccdf_org.ssgproject.content_rule_sshd_use_strong_macs`` -> (sshd, use, strong, macs)."""
    return tuple(_SCAP.sub("", _lower(rule_id)).split("_"))


def _lower(text: str) -> str:
    """Letter by letter, as the database does it: Python's own looks at neighbours and adds letters."""
    return text.lower() if text.isascii() else "".join(letter.lower()[0] for letter in text)


def rule_prefix(one: str, other: str) -> float:
    """Length of the common leading run of tokens over the longer token count, [0, 1]; 0 for no id."""
    if not one or not other:
        return 0.0
    first, second = rule_tokens(one), rule_tokens(other)
    shared = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        shared += 1
    return shared / max(len(first), len(second))


class RuleFamily(Func):
    """SQL: the first token of a rule id; the empty string for none. Twin of ``rule_tokens(...)[0]``."""

    function = "split_part"
    output_field = TextField()

    def __init__(self, column: Any, **extra: Any) -> None:
        name = column if not isinstance(column, str) else F(column)
        stripped = Func(
            Lower(name),
            Value(r"^xccdf_[^_]+_rule_"),
            Value(""),
            function="regexp_replace",
            output_field=TextField(),
        )
        super().__init__(stripped, Value("_"), Value(1), **extra)
