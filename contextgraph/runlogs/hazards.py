"""The vocabulary of what can be wrong with a run log, and the tally kept while one is read.

Guarantees: each hazard has a stable code (stored with runs and attempts), one line of meaning, and one
line on what the reader does about it. The tally keeps a count and the first line of each, so its size
does not depend on the log. Nothing that a reader leaves out or doubts goes uncounted.

Does not guarantee: that a log without hazards is true. A grader that is wrong in a consistent way
leaves no trace here.

Shaped by: DEF-26 and DEF-27 data in which cut scripts, tips that never reached the prompt and crashed
evaluators all looked like ordinary rows.
"""

from __future__ import annotations

import enum
from collections import Counter


class Hazard(enum.StrEnum):
    """A code, its ``meaning``, and the ``action`` that the reader takes."""

    meaning: str
    action: str

    def __new__(cls, code: str, meaning: str, action: str) -> Hazard:
        """Attach the two explanations to the code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        member.action = action
        return member

    # Lines
    LAST_LINE_CUT = (
        "last_line_cut",
        "the last line stops in the middle: the writer was killed or the copy is incomplete",
        "the line is left out",
    )
    BAD_LINE = (
        "bad_line",
        "a line is not a JSON object with an event type",
        "the line is left out",
    )
    LINE_TOO_LONG = (
        "line_too_long",
        "a line is longer than the reader's limit",
        "the line is left out without being held in memory",
    )
    BAD_UTF8 = (
        "bad_utf8",
        "a line holds bytes that are not UTF-8",
        "the bytes become U+FFFD; an attempt that holds them is flagged as repaired",
    )
    NUL_BYTES = (
        "nul_bytes",
        "a line begins or ends with NUL bytes, as a crash of the host leaves them",
        "the NUL bytes are removed",
    )
    UNKNOWN_EVENT = (
        "unknown_event",
        "an event type that this reader does not know",
        "the event is left out",
    )
    BAD_FIELD = (
        "bad_field",
        "a field has the wrong type, is out of range, or is too long",
        "the field reads as absent; an identifier that is unusable makes its event an orphan",
    )
    ORPHAN_EVENT = (
        "orphan_event",
        "an event that belongs to an attempt, outside of any attempt",
        "the event is left out",
    )

    # Time
    BAD_TIMESTAMP = (
        "bad_timestamp",
        "an event has no readable timestamp",
        "the time of the event before it is used",
    )
    TIMESTAMP_WITHOUT_OFFSET = (
        "timestamp_without_offset",
        "a timestamp has no UTC offset",
        "it is read as UTC, as the log's contract says",
    )
    CLOCK_WENT_BACK = (
        "clock_went_back",
        "an event is older than the one before it",
        "order in the file decides; the run ends at its latest timestamp",
    )

    # Runs
    RUN_DIED = (
        "run_died",
        "the run has no closing event",
        "the run is kept, with no end time",
    )
    RUN_START_LATE = (
        "run_start_late",
        "events of the run stand before its start event",
        "they are read as part of the run",
    )
    RUN_START_REPEATED = (
        "run_start_repeated",
        "the start event stands twice with nothing attempted in between",
        "the second one is left out",
    )
    RUN_ID_MISSING = (
        "run_id_missing",
        "the start event names no run id",
        "the id of the closing consolidation, or else the log's name, is used",
    )
    RUN_ID_REPEATED = (
        "run_id_repeated",
        "two runs of one file have the same id",
        "both are emitted; intake decides whether the second is the same run",
    )
    SKILL_NOT_LOGGED = (
        "skill_not_logged",
        "the run has no skill manifest",
        "the skill given by the caller is used",
    )
    SKILL_DISAGREES = (
        "skill_disagrees",
        "the caller, or a second manifest, names another skill than the log",
        "the log's first skill is kept",
    )
    MODEL_CHANGED = (
        "model_changed",
        "more than one model acted in the run",
        "the last one is stored as the run's model",
    )

    # Tips
    TIP_TEXT_CHANGED = (
        "tip_text_changed",
        "one tip id has two texts",
        "the first text is kept",
    )
    TIP_WITHOUT_TEXT = (
        "tip_without_text",
        "a tip is recorded with an empty text",
        "the tip is kept; nothing can be judged against it",
    )
    TIP_REPEATED = (
        "tip_repeated",
        "a tip stands twice in one retrieval list",
        "its first place is kept",
    )
    TIP_TEXT_UNKNOWN = (
        "tip_text_unknown",
        "the log retrieves a tip whose text it does not hold",
        "the shown text is left open, to be filled from the stored tip",
    )
    TIP_SHOWN_CUT = (
        "tip_shown_cut",
        "the agent saw only the beginning of a tip",
        "what it saw is stored as the shown text; following is judged against that",
    )
    SHOWN_TEXT_DIFFERS = (
        "shown_text_differs",
        "the agent was shown a text that is not the tip's text or a shortening of it",
        "what it saw is stored as the shown text",
    )
    TIPS_DROPPED = (
        "tips_dropped",
        "the tips were retrieved, then dropped from the prompt",
        "they are stored as not shown and earn nothing",
    )
    TIPS_SECTION_TRUNCATED = (
        "tips_section_truncated",
        "the tips' section of the prompt was cut; which tips survived is not logged",
        "they are stored as not shown and earn nothing",
    )
    WITHHELD_BUT_SHOWN = (
        "withheld_but_shown",
        "a tip is marked both withheld and shown",
        "it is stored as withheld",
    )
    RETRIEVALS_NOT_LOGGED = (
        "retrievals_not_logged",
        "the prompt of an attempt does not say which tips were retrieved",
        "the attempt has no retrievals",
    )
    PROMPT_NOT_LOGGED = (
        "prompt_not_logged",
        "an attempt has no prompt event, so its retrievals are unknown",
        "the attempt has no retrievals",
    )
    PROMPT_REPEATED = (
        "prompt_repeated",
        "an attempt has several prompt events",
        "the last one counts",
    )

    # Attempts
    ATTEMPT_START_MISSING = (
        "attempt_start_missing",
        "an attempt begins without its start event",
        "it is opened by the first event that belongs to it",
    )
    ATTEMPT_START_REPEATED = (
        "attempt_start_repeated",
        "an attempt is started twice with nothing in between",
        "the second start is left out",
    )
    ATTEMPT_NUMBER_REPEATED = (
        "attempt_number_repeated",
        "an attempt number is used twice for one rule",
        "the attempt gets the next free number; the log's own number is kept beside it",
    )
    RULE_RESELECTED = (
        "rule_reselected",
        "a rule is taken up again and its attempts are counted from 1 again",
        "numbers go on from the last one; the log's own number is kept beside it",
    )
    ATTEMPT_COUNT_DIFFERS = (
        "attempt_count_differs",
        "the rule's closing event counts other attempts than the log holds",
        "the attempts that the log holds are kept",
    )
    ATTEMPT_NOT_EVALUATED = (
        "attempt_not_evaluated",
        "an attempt ends without an evaluation that says passed or not",
        "its outcome is unknown",
    )
    EVALUATION_REPEATED = (
        "evaluation_repeated",
        "an attempt is evaluated twice",
        "the last evaluation counts",
    )
    EVALUATOR_EXCEPTION = (
        "evaluator_exception",
        "the evaluator itself failed; the log reports that as a health failure",
        "the attempt has an evaluator error and no outcome",
    )
    OUTCOME_CONTRADICTED = (
        "outcome_contradicted",
        "the harness acted against the evaluation (kept a failure or reverted a success)",
        "the evaluation is kept and the contradiction marked",
    )
    VERDICT_MISMATCH = (
        "verdict_mismatch",
        "a verdict names another rule or attempt than the one being evaluated",
        "the verdict is not applied",
    )
    HEALTH_MISREAD = (
        "health_misread",
        "the evaluation says healthy where the health text or the post-mortem says unhealthy",
        "both are kept for re-grading",
    )
    RULE_MISREAD = (
        "rule_misread",
        "the evaluation says the rule passed where the scanner's result says it failed",
        "both are kept for re-grading",
    )
    GRADE_OUT_OF_RANGE = (
        "grade_out_of_range",
        "a grade or confidence is not a number within its range",
        "the grade reads as absent; the raw value is kept",
    )
    DEFERRED_UNRESOLVED = (
        "deferred_unresolved",
        "a verdict was put off and never came",
        "the outcome is unknown",
    )
    CORRECTION_WITHOUT_ATTEMPT = (
        "correction_without_attempt",
        "a late verdict for a rule that has no attempt waiting for one",
        "the verdict is left out",
    )
    CHECKPOINT_ERROR = (
        "checkpoint_error",
        "saving or restoring the target failed, so later attempts may start from a changed system",
        "counted; outcomes are kept",
    )

    # Scripts
    ATTEMPT_WITHOUT_SCRIPT = (
        "attempt_without_script",
        "the agent ran nothing in an attempt, or the log does not hold what it ran",
        "following is undecidable for the attempt",
    )
    SCRIPT_CUT = (
        "script_cut",
        "the log says that it cut the script, or holds exactly the 200 characters at which it cuts",
        "the script is marked truncated; following is undecidable",
    )
    SCRIPT_DIGEST_DIFFERS = (
        "script_digest_differs",
        "the script is not the one its logged length or sha256 describes",
        "the script is marked truncated; following is undecidable",
    )
    SIDE_FILE_DIFFERS = (
        "side_file_differs",
        "the side file's text does not continue the text in the log",
        "the log's text is kept",
    )
    CALL_WITHOUT_RESULT = (
        "call_without_result",
        "a tool call has no result: the script may not have run",
        "the script is kept",
    )
    RESULT_WITHOUT_CALL = (
        "result_without_call",
        "a tool result has no call before it",
        "the result is left out",
    )
    CALL_CAPPED = (
        "call_capped",
        "a further tool call was refused by the harness; its script is not logged",
        "the call that ran is kept",
    )
    CALL_REPEATED = (
        "call_repeated",
        "an attempt ran several scripts",
        "the last one is kept, as the one that was evaluated",
    )
    UNKNOWN_TOOL = (
        "unknown_tool",
        "a tool whose arguments hold no script that this reader knows",
        "the call is left out",
    )


HAZARDS: dict[str, Hazard] = {str(hazard): hazard for hazard in Hazard}
"""Hazards by code, for codes that come from a stored run or another sender."""


class HazardTally:
    """Counts by hazard, with the line (1-based; 0 when there is no line) where each was first met."""

    def __init__(self) -> None:
        self._counts: Counter[Hazard] = Counter()
        self._first: dict[Hazard, int] = {}

    def add(self, hazard: Hazard, line: int = 0) -> None:
        """Count one occurrence at *line*."""
        self._counts[hazard] += 1
        self._first.setdefault(hazard, line)

    def __getitem__(self, hazard: Hazard) -> int:
        """How often *hazard* was met; 0 when it was not."""
        return self._counts[hazard]

    def first_line(self, hazard: Hazard) -> int:
        """Line of the first occurrence, 0 when it has none."""
        return self._first.get(hazard, 0)

    def counts(self) -> dict[str, int]:
        """Counts by code, codes sorted: what ``RunFooter.hazards`` stores."""
        return {str(hazard): self._counts[hazard] for hazard in sorted(self._counts)}
