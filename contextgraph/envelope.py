"""The wire schema of a completed run, version 1.

Guarantees: a document that parses is complete enough to be stored and scored; an unknown version is
refused by name; a field we do not know is kept (``extra``), never dropped; every refusal names the
place (``attempts.12.number``) and the cause. Text is made storable at this one boundary: Postgres
can hold neither NUL bytes nor lone surrogates, so both become U+FFFD and the entry is flagged.

Does not guarantee: that a tip, rule or script makes sense. Texts are data from agents, and hostile.

Shaped by: run logs that cut scripts at 200 characters, never said which tips reached the prompt, and
gave no number to a successful attempt. Here each of these is a field of its own. No ORM, no Django.
"""

from __future__ import annotations

import hashlib
import json
import math
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCHEMA_V1 = "contextgraph.run/1"
"""The value of ``schema`` that this module reads and writes."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

E = TypeVar("E", bound="Entry")


class EnvelopeError(ValueError):
    """A document that is not a run we can store. ``place`` is a dotted path, ``cause`` a sentence."""

    def __init__(self, cause: str, *, place: str = "") -> None:
        self.place = place
        self.cause = cause
        super().__init__(f"{place}: {cause}" if place else cause)


class UnknownVersion(EnvelopeError):
    """``schema`` names a version that this build cannot read."""


def storable(text: str) -> str:
    """Return *text* with NUL bytes and lone surrogates replaced, so that Postgres can store it."""
    if "\x00" in text:
        text = text.replace("\x00", REPLACEMENT)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def storable_tree(value: Any) -> Any:
    """Apply :func:`storable` to every string inside a JSON value, keys included.

    NaN and infinities, which jsonb has no room for, become text.
    """
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [storable_tree(item) for item in value]
    if isinstance(value, dict):
        return {storable(str(key)): storable_tree(item) for key, item in value.items()}
    return value


Key = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Word = Annotated[str, StringConstraints(max_length=500)]
Unit = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Grade = Annotated[float, Field(ge=-1.0, le=1.0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Entry(BaseModel):
    """Base of every part of an envelope: unknown fields kept, text made storable and flagged."""

    model_config = ConfigDict(extra="allow", frozen=True)

    text_repaired: bool = Field(
        default=False, description="True when a NUL byte or a lone surrogate was replaced."
    )

    @model_validator(mode="before")
    @classmethod
    def _make_storable(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        repaired = storable_tree(data)
        return repaired | {"text_repaired": True} if repaired != data else data

    @property
    def extra(self) -> dict[str, Any]:
        """Fields that the sender added and this version does not know."""
        return dict(self.model_extra or {})


class RunHeader(Entry):
    """Identity of a run. ``(skill, external_id)`` is the idempotency key of intake."""

    skill: Key
    external_id: Key
    source: Word = Field(default="", description="The system that ran it, free text.")
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = Field(default=None, description="None when the run died.")
    model: Word = Field(default="", description="The model that acted; follow rates depend on it.")
    environment_tag: Word = ""
    high_stakes: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="Have every verdict about this run given by the stronger judge, within its budget.",
    )

    @property
    def asked(self) -> dict[str, Any]:
        """What the sender wants done with the run, as ``Run.extra`` keeps it."""
        return {"high_stakes": True} if self.high_stakes else {}

    @model_validator(mode="after")
    def _ends_after_start(self) -> Self:
        if self.ended_at is not None and self.ended_at < self.started_at:
            msg = f"ended_at {self.ended_at} is before started_at {self.started_at}"
            raise ValueError(msg)
        return self


class TipEntry(Entry):
    """A tip with its full text. ``tip`` is the sender's id, unique within the skill."""

    tip: Key
    text: str = Field(default="", description="Empty when the log names the tip but not its text.")
    tip_type: Word = ""
    category: Word = ""
    mechanism: str = ""
    source_rule_id: Word = ""
    source_run_id: Word = ""
    outcome_at_source_value: Grade | None = None
    outcome_at_source_confidence: Unit | None = None
    environment_tag: Word = ""
    scope: Literal["rule", "environment"] = Field(
        default="rule",
        description="environment: it holds for every rule there, not for rules like its own.",
    )

    @field_validator("tip", "source_run_id", "source_rule_id", mode="before")
    @classmethod
    def _ids_may_be_numbers(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class RetrievalEntry(Entry):
    """One tip retrieved into one attempt: what was ranked, and what the agent really saw."""

    tip: Key
    rank: int = Field(ge=1)
    similarity: Finite | None = Field(
        default=None, description="The ranker's composite score; may exceed 1."
    )
    shown: bool = Field(default=True, description="False: retrieved, then dropped from the prompt.")
    shown_text: str | None = Field(
        default=None, description="The text the agent saw. None: the tip's own text, whole."
    )
    shown_cut: bool = Field(default=False, description="The tip was shown, but shortened.")
    shown_chars: int | None = Field(
        default=None,
        ge=0,
        description="With no shown_text: the agent saw at most this many first characters of the tip.",
    )
    withheld: bool = Field(default=False, description="Held out on purpose, by a coin.")
    propensity: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=1.0, description="Probability with which the ranker would have shown it."
    )
    canary: bool = Field(default=False, description="A retired tip, shown again to test it.")
    retrieved_at: AwareDatetime | None = None

    _tip_may_be_a_number = field_validator("tip", mode="before")(
        TipEntry._ids_may_be_numbers.__func__  # type: ignore[attr-defined]
    )

    @model_validator(mode="after")
    def _withheld_is_not_shown(self) -> Self:
        if self.withheld and self.shown:
            msg = "a withheld tip cannot have been shown"
            raise ValueError(msg)
        return self


class AttemptEntry(Entry):
    """One attempt at one rule: the script, what the evaluator said, which tips were retrieved."""

    rule_id: Key
    number: int = Field(ge=1, description="Unique per rule within the run.")
    sender_number: int | None = Field(
        default=None, ge=1, description="The sender's own number, when it had to be renumbered."
    )
    category: Word = ""
    title: str = ""
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    script: str | None = Field(default=None, description="The full script. None: there was none.")
    script_truncated: bool = Field(default=False, description="The sender cut the script.")
    narrative: str = ""
    evaluator_raw: dict[str, Any] | None = Field(
        default=None, description="What the evaluator printed or returned, unparsed."
    )
    evaluator_error: str = Field(
        default="", description="Why the evaluator itself failed; then there is no outcome."
    )
    passed: bool | None = None
    failure_mode: Word = ""
    apply_failed: bool = Field(default=False, description="The script ran and exited non-zero.")
    deferred: bool = Field(default=False, description="The verdict came later than the attempt.")
    grade_value: Grade | None = Field(default=None, description="The sender's own grade.")
    grade_confidence: Unit | None = None
    hazards: tuple[str, ...] = Field(default=(), description="Hazard codes met while reading.")
    retrievals: tuple[RetrievalEntry, ...] = ()

    @model_validator(mode="after")
    def _one_retrieval_per_tip(self) -> Self:
        seen: set[str] = set()
        for entry in self.retrievals:
            if entry.tip in seen:
                msg = f"tip {entry.tip!r} is retrieved twice into {self.rule_id} #{self.number}"
                raise ValueError(msg)
            seen.add(entry.tip)
        return self


class OutcomeCorrection(Entry):
    """A verdict that arrived after its attempt was closed (deferred verification)."""

    rule_id: Key
    number: int = Field(ge=1)
    passed: bool
    failure_mode: Word = ""
    evaluator_raw: dict[str, Any] | None = None
    grade_value: Grade | None = None
    grade_confidence: Unit | None = None


class RunFooter(Entry):
    """What is known only when the log ends: end time, model, hazards counted by code."""

    ended_at: AwareDatetime | None = None
    model: Word = ""
    environment_tag: Word = ""
    hazards: dict[str, int] = Field(default_factory=dict)


Record = RunHeader | TipEntry | AttemptEntry | OutcomeCorrection | RunFooter
"""What a reader yields, in this order for each run: one RunHeader; TipEntry, AttemptEntry and
OutcomeCorrection in any order (a tip may come after the attempt that retrieved it); one RunFooter."""


class Envelope(Entry):
    """A completed run as one JSON document."""

    schema_: Literal["contextgraph.run/1"] = Field(alias="schema")
    run: RunHeader
    tips: tuple[TipEntry, ...] = ()
    attempts: tuple[AttemptEntry, ...] = ()

    @model_validator(mode="after")
    def _attempts_are_unique(self) -> Self:
        seen: set[tuple[str, int]] = set()
        for attempt in self.attempts:
            key = (attempt.rule_id, attempt.number)
            if key in seen:
                msg = f"attempt {attempt.rule_id} #{attempt.number} is there twice"
                raise ValueError(msg)
            seen.add(key)
        return self

    def records(self) -> Iterator[Record]:
        """The envelope as the record stream that ingest reads."""
        yield self.run
        yield from self.tips
        yield from self.attempts
        yield footer_of(self.run, self.extra)


def footer_of(run: RunHeader, extra: dict[str, Any]) -> RunFooter:
    """The footer of a run that came as an envelope; *extra* are unknown fields of its outer object."""
    kept = {name: value for name, value in extra.items() if name not in RunFooter.model_fields}
    known = {"ended_at": run.ended_at, "model": run.model, "environment_tag": run.environment_tag}
    return validate(RunFooter, kept | known)


def parse_envelope(document: Any) -> Envelope:
    """Validate a decoded JSON document.

    Raises:
        UnknownVersion: ``schema`` is not one this build reads.
        EnvelopeError: anything else; ``place`` is the first offending path.
    """
    if not isinstance(document, dict):
        msg = f"an envelope is a JSON object, this is {type(document).__name__}"
        raise EnvelopeError(msg)
    check_version(document.get("schema"))
    return validate(Envelope, document)


def check_version(schema: Any) -> None:
    """Raise :class:`UnknownVersion` unless *schema* is one this build reads."""
    if schema != SCHEMA_V1:
        msg = f"unknown version {schema!r}; this build reads {SCHEMA_V1!r}"
        raise UnknownVersion(msg, place="schema")


def validate(model: type[E], data: Any, *, place: str = "") -> E:
    """Build one entry, turning pydantic's report into an :class:`EnvelopeError` of one line."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join([place, *map(str, first["loc"])]).strip(".")
        raise EnvelopeError(first["msg"], place=path) from None


class Digest:
    """Running sha256 over a record stream: the same run gives the same digest however it travels.

    Hazards and the repaired flag are left out, so that a better reader does not make an old run
    look like a different one.
    """

    _SKIP = frozenset({"hazards", "text_repaired"})

    def __init__(self) -> None:
        self._sha = hashlib.sha256(SCHEMA_V1.encode())

    def add(self, record: Record) -> None:
        """Feed one record, in stream order."""
        body = record.model_dump(mode="json", exclude=set(self._SKIP), exclude_defaults=True)
        line = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        self._sha.update(f"{type(record).__name__}:{len(line)}:{line}\n".encode())

    def hexdigest(self) -> str:
        """64 hex digits."""
        return self._sha.hexdigest()


def digest_of(records: Iterable[Record]) -> str:
    """sha256 of a whole record stream, see :class:`Digest`."""
    digest = Digest()
    for record in records:
        digest.add(record)
    return digest.hexdigest()


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the envelope, for senders in other languages."""
    return Envelope.model_json_schema(by_alias=True)


def timestamp(value: str | datetime) -> datetime:
    """Parse an ISO-8601 timestamp that must carry an offset. Raises EnvelopeError."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if moment.tzinfo is None:
        msg = f"timestamp {value!r} has no UTC offset"
        raise EnvelopeError(msg)
    return moment
