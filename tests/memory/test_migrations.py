"""Migrations: named by meaning, complete, and ADR-0019's columns can be taken back alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from memory.duplicates import words_sha256
from tests.factories import make_tip

ADR_COLUMNS = {"tip_followed_llm", "tip_followed_emb", "tip_followed_computed_at"}
CHECKOUT = Path(__file__).resolve().parents[2]


def columns(table: str = "tip_retrievals") -> set[str]:
    with connection.cursor() as cursor:
        found = connection.introspection.get_table_description(cursor, table)
    return {column.name for column in found}


@pytest.mark.django_db(transaction=True)
def test_the_three_columns_of_adr_0019_are_reversed_alone() -> None:
    latest = columns()
    try:
        MigrationExecutor(connection).migrate([("memory", "0002_adr0019_tip_followed")])
        before = columns()
        assert before >= ADR_COLUMNS
        MigrationExecutor(connection).migrate([("memory", "0001_graph")])
        assert columns() == before - ADR_COLUMNS
        applied = MigrationExecutor(connection).loader.applied_migrations
        assert ("scoring", "0001_bench") in applied, "another app's tables were taken back too"
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    assert columns() == latest


@pytest.mark.django_db(transaction=True)
def test_tips_that_were_there_before_are_found_by_their_words() -> None:
    tip, silent = make_tip(text="Réinstaller d'abord."), make_tip(text="", external_id="silent")
    try:
        MigrationExecutor(connection).migrate([("memory", "0005_evidence_and_sweeps")])
        assert "words_sha256" not in columns("tips")
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    tip.refresh_from_db()
    silent.refresh_from_db()
    assert tip.words_sha256 == words_sha256("RÉINSTALLER d'abord")
    assert silent.words_sha256 == ""


@pytest.mark.django_db
def test_the_models_have_no_change_without_a_migration() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_migrations_are_named_by_meaning() -> None:
    for path in CHECKOUT.glob("*/migrations/[0-9]*.py"):
        assert re.fullmatch(r"\d{4}_[a-z0-9_]+", path.stem), path
        assert not re.search(r"initial|auto_|_and_more", path.stem), path
