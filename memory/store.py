"""MemoryStore: the in-process door for an agent loop, with the verbs of the original memory.

    store = contextgraph.agent.memory_store("stig")
    run = store.start_run("night-7", model="some-model", environment_tag="rhel9")
    got = store.retrieve(run, "sshd_root_login", category="ssh")    # got.prompt goes into the prompt
    store.save_attempt(run, got.rule_id, number=got.attempt_number, script=…, passed=True)
    store.end_run(run)                                              # the pipeline takes it from there

Guarantees: each verb is one transaction, and all its values are checked before it writes. What is
recorded is at every moment what a posted run would be: the same limits, repairs, grades and reasons; an
agent that dies loses nothing that a verb has returned for, and may go on after ``open_run``. Of two
agents at work on one run, or on one rule of it, each gets attempts of its own. Withheld tips are logged
and never handed out. The run's digest is made of its rows (``memory.store_records``).

Does not score or credit while it records: that begins with ``end_run`` or, if the agent is not heard of
for RECORDING_TIMEOUT_H hours, when the reaper closes the run. Every verb that writes is a sign of life.
Does not import a grader; it is given one. Not a cache: every verb asks the database.

Errors, for all verbs: EnvelopeError (a ValueError: the value breaks the wire schema; names the field),
RunClosed, UnknownRun, and StoreRefused with its subclasses. Times are aware datetimes. Where an id is
asked for or returned, it is a primary key.

Source: issue 4 item 9. Shaped by: attempts that were written at the end of their rule, and only for
failures; retrievals that waited for an attempt id and had to be matched by position; outcomes of an
agent that was killed, lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from django.db import transaction
from django.utils import timezone

from contextgraph.envelope import EnvelopeError, storable
from memory import retrieval_log, store_input, store_rows, store_tips
from memory.holdout import draw
from memory.insertion import insert_rows
from memory.retrieval import K_AT_MOST, RankRequest, rank
from memory.store_runs import RunRecorder
from memory.store_values import (
    AttemptConflict,
    AttemptState,
    Retrieved,
    RunClosed,
    RunExists,
    RunHandle,
    SavedTip,
    ShownTip,
    StoreRefused,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from contextgraph.envelope import AttemptEntry
    from memory.models import Attempt, Run
    from memory.ranking_parts import Ranking

__all__ = [
    "AttemptConflict",
    "AttemptState",
    "Grader",
    "MemoryStore",
    "Retrieved",
    "RunClosed",
    "RunExists",
    "RunHandle",
    "SavedTip",
    "ShownTip",
    "StoreRefused",
]

BANS_AT_MOST: Final = 200
PATTERN_AT_MOST: Final = 1_000


class Grader(Protocol):
    """Makes the unsaved row of an attempt, graded by the ladder of its skill."""

    def __call__(self, run: Run, entry: AttemptEntry) -> Attempt: ...


class MemoryStore(RunRecorder):
    """The memory of one skill. Holds no state of a run: many agents and processes may use one each.

    Args:
        skill: 1 to 500 characters; part of every key.
        grade: what makes a graded row of an attempt (``contextgraph.agent`` has the real one).
        policy: credit policy of the ranker; None: the skill's, else CREDIT_POLICY.
    """

    def __init__(self, skill: str, *, grade: Grader, policy: str | None = None) -> None:
        super().__init__(skill)
        self._grade = grade
        self._policy = policy

    # --- Attempts ---------------------------------------------------------------------------------

    def retrieve(
        self,
        run: RunHandle,
        rule_id: str,
        *,
        category: str = "",
        query: str = "",
        title: str = "",
        attempt: int | None = None,
        k: int | None = None,
    ) -> Retrieved:
        """Begin an attempt and get its tips: ranked, drawn for the hold-out, and logged.

        Args:
            category: of the rule; also stored with the attempt.
            query: text to search tips by, such as the rule's title; "": no such search.
            title: of the rule, stored with the attempt.
            attempt: its number, from 1; None: the next one of the rule. With the number of an open
                attempt nothing is done again: the answer is what was logged for it.
            k: tips wanted, from 1 to K_AT_MOST; None: the skill's.

        Raises:
            StoreRefused: the attempt is saved already.
            ValueError: k is out of its range.
        """
        now = timezone.now()
        wanted = store_input.attempt(
            run,
            rule_id=rule_id,
            number=1 if attempt is None else attempt,
            category=category,
            title=title,
            started_at=now,
        )
        with transaction.atomic():
            # before the claim: other calls for this run need not wait for it
            ranking = rank(self._request(run, wanted, storable(query), k))
            row = self._claim(run)
            if attempt is None:
                number = store_rows.next_number(row, wanted.rule_id)
                wanted = wanted.model_copy(update={"number": number})
            elif (known := self._open(row, wanted)) is not None:
                return store_rows.answer(run, known)
            return self._begin(run, self._grade(row, wanted), ranking, now)

    def _begin(
        self, run: RunHandle, attempt: Attempt, ranking: Ranking, now: datetime
    ) -> Retrieved:
        insert_rows([attempt])
        draws = draw(ranking, attempt=attempt.number)
        retrieval_log.log(attempt, ranking, draws, retrieved_at=now)
        return store_rows.answer_of(run, attempt, draws)

    def _request(
        self, run: RunHandle, wanted: AttemptEntry, query: str, k: int | None
    ) -> RankRequest:
        return RankRequest(
            skill=run.skill,
            rule_id=wanted.rule_id,
            category=wanted.category,
            environment_tag=run.environment_tag,
            query=query,
            run=run.external_id,
            policy=self._policy,
            k=k,
        )

    def _open(self, row: Run, wanted: AttemptEntry) -> Attempt | None:
        known = store_rows.attempt_at(row, wanted.rule_id, wanted.number)
        if known is not None and known.ended_at is not None:
            msg = (
                f"attempt {known} of run {row} is saved: a new one gets its number by attempt=None"
            )
            raise StoreRefused(msg)
        return known

    def mark_shown(
        self,
        retrieved: Retrieved,
        *,
        shown: Mapping[int, str] | None = None,
        dropped: Collection[int] = (),
    ) -> None:
        """Say what the prompt made of the tips; those that are not named were shown as returned.

        May be called again while the run is recording; a tip that was dropped may be shown after all.

        Args:
            shown: primary key -> the text that the agent saw, not empty. A shorter one than the tip's
                counts as cut.
            dropped: primary keys of tips that did not reach the prompt.

        Raises:
            StoreRefused: a tip was not handed out for this attempt, or is in both.
        """
        texts = {tip: storable(text) for tip, text in (shown or {}).items()}
        store_input.check_size(*texts.values(), place="shown")
        if not all(texts.values()):
            raise EnvelopeError("a tip of which nothing was shown was dropped", place="shown")
        with transaction.atomic():
            row = self._claim(retrieved.run)
            attempt = store_rows.attempt_of(row, retrieved.attempt_id)
            store_rows.note_shown(attempt, texts, frozenset(dropped))
            store_rows.settle(attempt)

    def save_attempt(
        self,
        run: RunHandle,
        rule_id: str,
        *,
        number: int | None = None,
        category: str | None = None,
        title: str | None = None,
        script: str | None = None,
        script_truncated: bool = False,
        narrative: str = "",
        evaluator_raw: Mapping[str, Any] | None = None,
        evaluator_error: str = "",
        passed: bool | None = None,
        failure_mode: str = "",
        apply_failed: bool = False,
        deferred: bool = False,
        grade_value: float | None = None,
        grade_confidence: float | None = None,
        started_at: datetime | None = None,
        ended_at: datetime | None = None,
    ) -> int:
        """Store how an attempt went, graded by the ladder of the skill; closes it. Its primary key.

        An attempt needs no ``retrieve`` before it. Saved again with the same content, nothing changes:
        give the number, so that a call whose answer was lost can be repeated.

        Args:
            number: from 1; None: the rule's open attempt, or else a new one with the next number.
            category, title, started_at: None: what ``retrieve`` said.
            script: the full script; None: there was none. script_truncated: it is not the full one.
            evaluator_raw: what the evaluator printed or returned, as JSON.
            evaluator_error: why the evaluator itself failed; then there is no outcome.
            passed: the verdict; None: there is none (yet).
            failure_mode: one of the skill's, or any word.
            apply_failed: the script exited non-zero. deferred: the verdict comes later.
            grade_value: the agent's own grade in [-1, 1]; grade_confidence: in [0, 1].
            ended_at: now, unless given.

        Raises:
            AttemptConflict: the attempt is saved with other content.
            StoreRefused: no number is given, and several attempts at the rule are open.
        """
        facts = {
            "script": script, "script_truncated": script_truncated, "narrative": narrative,
            "evaluator_raw": evaluator_raw, "evaluator_error": evaluator_error, "passed": passed,
            "failure_mode": failure_mode, "apply_failed": apply_failed, "deferred": deferred,
            "grade_value": grade_value, "grade_confidence": grade_confidence,
            "ended_at": ended_at or timezone.now(),
        }  # fmt: skip
        place = {"category": category, "title": title, "started_at": started_at}
        given = {name: value for name, value in place.items() if value is not None}
        shape = {"rule_id": rule_id, "number": 1 if number is None else number}
        wanted = store_input.attempt(run, **shape, **facts, **given)
        also = set(given) | ({"ended_at"} if ended_at else set())
        with transaction.atomic():
            return self._save(self._claim(run), wanted, number, also=also)

    def _save(
        self, row: Run, wanted: AttemptEntry, number: int | None, *, also: Collection[str]
    ) -> int:
        stored = store_rows.attempt_at(row, wanted.rule_id, number)
        if stored is not None:
            kept = {"category", "title", "started_at"} - set(also)
            update = {name: getattr(stored, name) for name in kept} | {"number": stored.number}
        else:
            update = {"number": number or store_rows.next_number(row, wanted.rule_id)}
        entry = wanted.model_copy(update=update)
        new = self._grade(row, entry)
        if stored is None:
            new.save(force_insert=True)
            return int(new.pk)
        if stored.ended_at is not None:
            store_rows.refuse_other_content(stored, new, also)
        else:
            store_rows.fill(stored, new)
            store_rows.settle(stored)
        return int(stored.pk)

    def update_retrieval_attempt_ids(self, run: RunHandle, rule_id: str, attempt_id: int) -> int:
        """Give the tips of the rule's other open attempt to this one. How many rows moved.

        For loops written for the original memory, where retrievals were logged before there was an
        attempt. Here ``retrieve`` begins one, so that this does something in one case only: the attempt
        was then saved under another number than ``retrieve`` gave. The rows move to it, but for tips
        that it has already, and take its outcome; the attempt that was begun goes when all have moved,
        for it was the same one (it stays when a tip was born of it). So does one that got no tips, if
        it was begun before this one; then 0 rows move, as in every other case.

        Raises:
            StoreRefused: the run has no such attempt at this rule; several others are open; or the rows
                carry hold-out coins, which were tossed for the number that ``retrieve`` gave.
        """
        with transaction.atomic():
            target = store_rows.attempt_of(self._claim(run), attempt_id)
            if target.rule_id != storable(rule_id):
                msg = f"attempt {attempt_id} is one at {target.rule_id}, not at {rule_id!r}"
                raise StoreRefused(msg)
            return store_rows.join(target)

    # --- Tips and bans ----------------------------------------------------------------------------

    def save_tip(
        self,
        text: str,
        *,
        run: RunHandle,
        category: str = "",
        tip_type: str = "",
        source_rule_id: str = "",
        attempt_id: int | None = None,
        scope: Literal["rule", "environment"] = "rule",
        mechanism: str = "",
    ) -> SavedTip:
        """Store a tip, unless the skill has it in nearly these words: then that one is returned.

        Nearly: but for case, spaces, full stops at the end and compatible forms of Unicode. A known tip
        is returned as it is, also when it is retired (``SavedTip.retired``) or was born of another rule.
        The new tip is retrieved at once, in its own run with less weight.

        Args:
            text: the advice; it must say something.
            tip_type: strategy, recovery, optimization, warning, or any word.
            source_rule_id: the rule it was learned at; "": that of the attempt.
            attempt_id: the attempt it was learned from; its outcome is noted as the one at the source.
            scope: "environment": for every rule in the run's environment (of a run without
                environment_tag: everywhere).
            mechanism: why it works.

        Raises:
            StoreRefused: the run has no such attempt.
        """
        if not store_tips.says_something(text):
            raise EnvelopeError("a tip without text says nothing", place="text")
        with transaction.atomic():
            row = self._claim(run)
            born = {"source_rule_id": source_rule_id} if source_rule_id else {}
            if attempt_id is not None:
                born = store_tips.born_of(store_rows.attempt_of(row, attempt_id)) | born
            entry = store_input.tip(
                run,
                tip=store_tips.name_of(storable(text)),
                text=text,
                tip_type=tip_type,
                category=category,
                mechanism=mechanism,
                source_run_id=run.external_id,
                environment_tag=run.environment_tag,
                scope=scope,
                **born,
            )
            return store_tips.save(row, entry)

    def add_ban(self, run: RunHandle, pattern: str, rule_id: str = "") -> int:
        """Note a pattern that is not to be tried again; the same one again is the same ban.

        Args:
            pattern: 1 to 1,000 characters; refused when longer, never cut.
            rule_id: "": for every rule.
        """
        pattern, rule_id = storable(pattern), storable(rule_id)
        if not 1 <= len(pattern) <= PATTERN_AT_MOST:
            msg = f"{len(pattern)} characters; a ban has 1 to {PATTERN_AT_MOST}"
            raise EnvelopeError(msg, place="pattern")
        if rule_id:
            store_input.attempt(run, rule_id=rule_id, number=1)
        store_input.check_index("pattern", pattern, rule_id)
        store_input.check_index("rule_id", self.skill, rule_id)
        with transaction.atomic():
            return store_tips.add_ban(self._claim(run), pattern, rule_id)

    def bans(self, rule_id: str = "", *, limit: int = BANS_AT_MOST) -> list[str]:
        """Distinct patterns banned for the rule or for every rule, by any run; newest first.

        Args:
            rule_id: "": only those for every rule.
            limit: how many at most, from 1 to K_AT_MOST.
        """
        if not 1 <= limit <= K_AT_MOST:
            raise EnvelopeError(f"a number from 1 to {K_AT_MOST}", place="limit")
        return store_tips.bans(self.skill, storable(rule_id), limit=limit)
