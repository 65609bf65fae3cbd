"""Action trace: which commands, files, keys and values of a tip occur in a script.

Guarantees: `trace` answers followed, violated, not followed or abstains, with cited evidence; it
tells direction apart (enable and disable, use and avoid); it never raises, on hostile texts either;
no Django, no network, no execution.

Does not guarantee anything where a tip names no command, file, key or value: then it abstains.

Shaped by embedding similarity on tips that warn: the script that does the forbidden thing is as
near to the tip as the one that obeys.
"""

from __future__ import annotations

from scoring.trace.clauses import ParsedTip, parse_tip
from scoring.trace.compare import FOLLOWED_FROM, TRACE_VERSION, compare, trace
from scoring.trace.requirements import Requirement
from scoring.trace.results import Evidence, TraceResult, Verdict
from scoring.trace.shell import ParsedScript, parse_script
from scoring.trace.vocabulary import ActionVocabulary, VocabularyError

__all__ = [
    "FOLLOWED_FROM",
    "TRACE_VERSION",
    "ActionVocabulary",
    "Evidence",
    "ParsedScript",
    "ParsedTip",
    "Requirement",
    "TraceResult",
    "Verdict",
    "VocabularyError",
    "compare",
    "parse_script",
    "parse_tip",
    "trace",
]
