"""Part of bench_memory.py: one ``MemoryStore.retrieve``, as an agent loop calls it.

Guarantees: what is timed is the product's own call, commit included: it ranks with evidence, draws for
the hold-out, and inserts the attempt and its rows. Requests go through all rules in a fixed, mixed order.
``rank`` is the same request without writing. Between the calls one row is committed as a yardstick.

The rows that it writes stay: some thousands, of a run that is being recorded, so that no sum moves.
"""

from __future__ import annotations

import itertools
import random
import uuid
from typing import TYPE_CHECKING, Any

from benchmarks import history
from benchmarks.scratch import Processor, Statements, Yardstick, load, spread, timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.history import Rule
    from memory.store import MemoryStore
    from memory.store_values import RunHandle

WARM_UP = 30


class Agent:
    """Asks for tips of one rule after the other, in one run of its own."""

    def __init__(self) -> None:
        from contextgraph.agent import memory_store

        self.store: MemoryStore = memory_store(history.SKILL)
        self.run: RunHandle = self.store.start_run(
            f"bench-agent-{uuid.uuid4()}", environment_tag="rhel9"
        )
        self._rules = history.rules()
        random.Random(0).shuffle(self._rules)

    def rules(self, number: int) -> list[Rule]:
        """The next *number* rules; after the last comes the first."""
        found = list(itertools.islice(itertools.cycle(self._rules), number))
        self._rules = (
            self._rules[number % len(self._rules) :] + self._rules[: number % len(self._rules)]
        )
        return found

    def _query(self, rule: Rule) -> str:
        """A text that no other agent has asked for: it has no vector until it is asked for twice.

        Hardly longer than the title, for the model's time grows with a text.
        """
        return f"{rule.title} {self.run.external_id[-6:]}"

    def retrieve(self, rule: Rule, *, text: bool) -> Any:
        """Once."""
        query = self._query(rule) if text else ""
        return self.store.retrieve(self.run, rule.rule_id, category=rule.category, query=query)

    def rank(self, rule: Rule, *, text: bool) -> Any:
        """The same question without writing."""
        from memory.retrieval import RankRequest, rank

        return rank(
            RankRequest(
                history.SKILL,
                rule.rule_id,
                category=rule.category,
                environment_tag="rhel9",
                query=self._query(rule) if text else "",
                run=self.run.external_id,
            )
        )


def measure(requests: int, *, text: bool, repeat: bool = False) -> dict[str, Any]:
    """Percentiles of *requests* calls. *repeat*: each question was asked before, so that its query has a
    vector already."""
    agent, yardstick = Agent(), Yardstick()
    asked = agent.rules(requests)
    for rule in asked if repeat else agent.rules(WARM_UP):
        agent.rank(rule, text=text)
        yardstick.measure()
    yardstick.seconds.clear()
    whole, alone, busy, tips = [], [], [0.0, 0.0], 0
    began, processor = load(), Processor()
    for rule in asked:
        processor.used()
        seconds, answer = timed(agent.retrieve, rule, text=text)
        busy = [sum(pair) for pair in zip(busy, processor.used(), strict=True)]
        whole.append(seconds)
        tips += len(answer.tips)
        yardstick.measure()
    for rule in asked:
        alone.append(timed(agent.rank, rule, text=text)[0])
    figures, bare = spread(whole), spread(yardstick.seconds)
    python, database = (round(seconds / requests * 1000, 1) for seconds in busy)
    return {
        "retrieve": figures,
        "rank alone": spread(alone),
        "bare commit": bare,
        "processor": {"python_ms": python, "database_ms": database},
        "": {
            "times_bare_commit": round(figures["p50_ms"] / bare["p50_ms"], 1),
            "tips_a_call": round(tips / requests, 2),
            "load": [began, load()],
        },
    }


def by_pgvector(requests: int) -> dict[str, Any]:
    """As the text leg is where the database compares the vectors, whatever their number."""
    from memory import tip_vectors

    kept = tip_vectors.IN_DATABASE_AT_MOST
    tip_vectors.IN_DATABASE_AT_MOST = history.TIPS * 10  # type: ignore[misc]
    try:
        return measure(requests, text=True, repeat=True)
    finally:
        tip_vectors.IN_DATABASE_AT_MOST = kept  # type: ignore[misc]


def statements(*, text: bool, explain: bool) -> int:
    """Statements of one call; with *explain* their plans are printed."""
    from django.db import transaction

    agent = Agent()
    rules = agent.rules(3)
    for rule in rules[:2]:
        agent.retrieve(rule, text=text)
    with transaction.atomic():
        with Statements(explain=explain).watched() as seen:
            agent.retrieve(rules[2], text=text)
        transaction.set_rollback(True)
    if explain:
        seen.print_plans("retrieve with text" if text else "retrieve")
    return len(seen.executed)


def part(requests: int, *, explain: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """All of it at the present size of the history."""
    say("retrieve")
    found: dict[str, Any] = {"no text": measure(requests, text=False)}
    found["statements"] = statements(text=False, explain=explain)
    from scoring.vectors import EmbeddingError

    try:
        history.fill_vectors()
    except EmbeddingError as error:
        found["text leg left out"] = str(error)
        return found
    say("retrieve with text")
    found["new query, numpy"] = measure(requests, text=True)
    found["known query, numpy"] = measure(requests, text=True, repeat=True)
    found["known query, pgvector"] = by_pgvector(requests)
    found["statements with text"] = statements(text=True, explain=explain)
    return found
