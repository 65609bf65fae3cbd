"""System checks with ids: every setting that would lose work is refused when a process starts.

``manage.py check`` prints them; ``consume_runs``, ``up`` and every worker refuse to start on an error.
Ids are stable; E are errors, W warnings.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from django.conf import settings
from django.core.checks import Error, Tags, Warning, register
from django.db import connection, connections

from contextgraph.skills import FILE_NAME, SkillError, load_skill
from memory.credit import POLICIES
from scoring.judge import service as judge
from scoring.judge.prompt import PromptError, PromptLibrary
from scoring.memos.prompt_files import PARTS, MemoPrompts
from scoring.model_size import NAME_AT_MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django.core.checks import CheckMessage
    from django.db.backends.postgresql.base import DatabaseWrapper


SAFE_BROKERS = frozenset({"amqp", "amqps", "pyamqp", "redis", "rediss", "redis+socket", "sentinel"})


@register(Tags.compatibility)
def servers_keep_work(**_kwargs: Any) -> Iterable[CheckMessage]:
    """A broker or result backend that forgets what was under way loses whole runs."""
    backend = str(settings.CELERY_RESULT_BACKEND)
    if not backend.startswith(("redis", "rediss", "sentinel")):
        yield Error(
            f"The result backend {backend.split(':', 1)[0]!r} loses chord bodies.",
            hint="Point CELERY_RESULT_BACKEND at a Redis or Valkey server (redis://…).",
            id="contextgraph.E001",
        )
    transport = str(settings.CELERY_BROKER_URL).split(":", 1)[0]
    if transport not in SAFE_BROKERS:
        yield Error(
            f"The broker transport {transport!r} is not known to keep messages in flight when a "
            "worker dies.",
            hint="Use RabbitMQ (amqp://) or Redis/Valkey (redis://).",
            id="contextgraph.E005",
        )


@register(Tags.compatibility)
def tasks_keep_work(**_kwargs: Any) -> Iterable[CheckMessage]:
    """Celery settings under which a killed process loses its tasks, or a stranger's code is run."""
    if not settings.CELERY_TASK_ACKS_LATE:
        yield Error(
            "CELERY_TASK_ACKS_LATE is off: a killed worker's tasks are lost.",
            hint="Leave it True; every task is safe to run twice.",
            id="contextgraph.E002",
        )
    if not settings.CELERY_TASK_REJECT_ON_WORKER_LOST:
        yield Error(
            "CELERY_TASK_REJECT_ON_WORKER_LOST is off: a killed child's task is acknowledged.",
            hint="Leave it True.",
            id="contextgraph.E003",
        )
    if "pickle" in {*settings.CELERY_ACCEPT_CONTENT, settings.CELERY_TASK_SERIALIZER}:
        yield Error(
            "Pickle is accepted on the wire: whoever reaches the broker runs code here.",
            hint='Leave CELERY_ACCEPT_CONTENT at ["json"].',
            id="contextgraph.E004",
        )


@register(Tags.compatibility)
def timings_fit(**_kwargs: Any) -> Iterable[CheckMessage]:
    """Timeouts that contradict each other: a chord expires, or two workers do one task at once."""
    if settings.CELERY_RESULT_EXPIRES <= settings.VISIBILITY_TIMEOUT:
        yield Error(
            "CELERY_RESULT_EXPIRES is shorter than a redelivery: open chords would expire.",
            hint="Keep it at a day.",
            id="contextgraph.E006",
        )
    if settings.TASK_TIME_LIMIT >= settings.VISIBILITY_TIMEOUT:
        yield Error(
            f"A task may run {settings.TASK_TIME_LIMIT} s, but is redelivered after "
            f"{settings.VISIBILITY_TIMEOUT} s.",
            hint="Raise CONTEXTGRAPH_VISIBILITY_TIMEOUT_S above CONTEXTGRAPH_TASK_TIME_LIMIT_S.",
            id="contextgraph.E007",
        )
    if settings.JUDGE_BASE_URL and settings.SCORE_LEASE_S <= settings.JUDGE_DEADLINE_S:
        yield Error(
            f"A batch lease of {settings.SCORE_LEASE_S:g} s ends before one judge call may "
            f"({settings.JUDGE_DEADLINE_S:g} s): its rows would be judged twice.",
            hint="Raise CONTEXTGRAPH_SCORE_LEASE_S or lower JUDGE_DEADLINE_S.",
            id="contextgraph.E008",
        )


@register(Tags.compatibility)
def files_fit(**_kwargs: Any) -> Iterable[CheckMessage]:
    """Skill files and the credit policy exist and make sense."""
    if settings.CREDIT_POLICY not in POLICIES:
        yield Error(
            f"Unknown credit policy {settings.CREDIT_POLICY!r}.",
            hint=f"CONTEXTGRAPH_CREDIT_POLICY is one of: {', '.join(sorted(POLICIES))}.",
            id="contextgraph.E009",
        )
    unknown = set(settings.SIGNALS) - {"trace", "embed", "judge"}
    if unknown:
        yield Error(
            f"Unknown signals {sorted(unknown)}.",
            hint="CONTEXTGRAPH_SIGNALS is a list of: trace, embed, judge.",
            id="contextgraph.E012",
        )
    names = {path.parent.name for path in settings.PROMPTS_DIR.glob("*/skill.toml")} | {"default"}
    for name in sorted(names):
        try:
            skill = load_skill(settings.PROMPTS_DIR, name)
        except SkillError as error:
            yield Error(str(error), hint="Mend the file.", id="contextgraph.E010")
            continue
        for part, policy in (
            ("ranking", skill.ranking.policy),
            ("eviction", skill.eviction.policy),
        ):
            if policy and policy not in POLICIES:
                yield Error(
                    f"{settings.PROMPTS_DIR / name / FILE_NAME}: {part}.policy: unknown credit policy "
                    f"{policy!r}.",
                    hint=f"It is one of: {', '.join(sorted(POLICIES))}.",
                    id="contextgraph.E018",
                )


@register(Tags.compatibility)
def database_is_postgres(**_kwargs: Any) -> Iterable[CheckMessage]:
    """Leases, partial indexes and row locks are Postgres's."""
    engine = connection.settings_dict["ENGINE"]
    if "postgresql" not in engine:
        yield Error(
            f"The database engine is {engine}; rows are kept in Postgres only.",
            hint="Set DATABASE_URL to postgresql://…, or unset it to use the embedded server.",
            id="contextgraph.E013",
        )


OLDEST_POSTGRES: Final = 15
"""NULLS NOT DISTINCT: one row of sums for a skill as a whole, which has no tip."""


def postgres_version(alias: str = "default") -> int | None:
    """The server's major version; it is asked. None: it is no Postgres."""
    server = connections[alias]
    if server.vendor != "postgresql":
        return None
    return cast("DatabaseWrapper", server).pg_version // 10_000


@register(Tags.database)
def postgres_is_new_enough(
    databases: Iterable[str] | None = None, **_kwargs: Any
) -> Iterable[CheckMessage]:
    """Asks the server: only ``migrate`` and ``check --database`` run it."""
    for alias in databases or ():
        version = postgres_version(alias)
        if version is not None and version < OLDEST_POSTGRES:
            yield Error(
                f"The server of database {alias!r} is Postgres {version}.",
                hint=f"Postgres {OLDEST_POSTGRES} or newer is needed; unset DATABASE_URL to use the "
                "embedded one.",
                id="contextgraph.E016",
            )


@register(Tags.compatibility)
def judge_is_whole(**_kwargs: Any) -> Iterable[CheckMessage]:
    """A judge that is half or wrongly configured would fail every call, or be skipped silently."""
    missing = [name for name in ("JUDGE_BASE_URL", "JUDGE_MODEL") if not getattr(settings, name)]
    if len(missing) == 1:
        yield Warning(
            f"{missing[0]} is not set: the judge is skipped.",
            hint="Set JUDGE_BASE_URL and JUDGE_MODEL, or neither.",
            id="contextgraph.W001",
        )
    if not missing:
        try:
            judge.config()
        except ValueError as error:
            yield Error(
                f"The judge cannot work: {error}",
                hint="For example JUDGE_BASE_URL=http://127.0.0.1:8000/v1",
                id="contextgraph.E011",
            )
    if settings.JUDGE_MODE not in {"per_attempt", "per_tip"}:
        yield Error(
            f"JUDGE_MODE={settings.JUDGE_MODE!r} is no way to ask.",
            hint="per_attempt (one call for the tips of an attempt) or per_tip.",
            id="contextgraph.E015",
        )
    for name in ("JUDGE_MODEL", "JUDGE_HIGH_STAKES_MODEL"):
        if len(getattr(settings, name)) > NAME_AT_MOST:
            yield Error(
                f"{name} has more than {NAME_AT_MOST} characters: rows keep no more of it, "
                "and two judges whose names begin alike would be taken for one.",
                hint="Have the server serve the model under a shorter name (--served-model-name).",
                id="contextgraph.E017",
            )
    if settings.JUDGE_HIGH_STAKES_MODEL and not settings.JUDGE_HIGH_STAKES_BASE_URL:
        yield Warning(
            "JUDGE_HIGH_STAKES_MODEL is set, and no address of a judge: nothing is escalated.",
            hint="Set JUDGE_BASE_URL, or JUDGE_HIGH_STAKES_BASE_URL.",
            id="contextgraph.W002",
        )


@register(Tags.compatibility)
def memos_are_written_by_somebody(**_kwargs: Any) -> Iterable[CheckMessage]:
    """A misspelt choice would show as a memo that is never written."""
    for name, value, choices in (
        ("CONTEXTGRAPH_MEMOS", settings.MEMOS, ("writer", "model", "off")),
        ("MEMO_VARIANT", settings.MEMO_VARIANT, ("single", "debate")),
    ):
        if value not in choices:
            yield Error(
                f"{name}={value!r} is none of {', '.join(choices)}.",
                hint=f"Set {name} to one of them, or unset it.",
                id="contextgraph.E019",
            )


@register(Tags.compatibility)
def prompts_fit(**_kwargs: Any) -> Iterable[CheckMessage]:
    """A judge prompt that does not fit would fail every call of its skill, a memo's every memo."""
    library, memos = PromptLibrary(settings.PROMPTS_DIR), MemoPrompts(settings.PROMPTS_DIR)
    skills = {path.parent.name for path in settings.PROMPTS_DIR.glob("*/tip_follow_judge.md")}
    readers: list[Callable[[], object]] = [
        *(partial(library.for_skill, name) for name in sorted(skills | {"default"})),
        *(partial(memos.named, name) for name in PARTS),
    ]
    for read in readers:
        try:
            read()
        except PromptError as error:
            yield Error(str(error), hint="Mend the prompt file.", id="contextgraph.E014")
