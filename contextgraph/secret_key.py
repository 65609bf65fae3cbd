"""Django's secret key for a checkout that was given none: made once, kept private, never printed.

Guarantees: the same key for every process of a checkout, also when two start at once (the first
writer wins); mode 0600. Does not fit several hosts: there DJANGO_SECRET_KEY must be set.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from contextgraph.embedded.location import make_state_dir, own_like

if TYPE_CHECKING:
    from pathlib import Path


def load_secret_key(state_dir: Path) -> str:
    """The key kept under *state_dir*, made on first use."""
    path = state_dir / "secret_key"
    if not path.exists():
        make_state_dir(state_dir)
        draft = path.with_name(f"secret_key.{os.getpid()}")
        draft.touch(mode=0o600)
        own_like(draft, state_dir)
        draft.write_text(secrets.token_urlsafe(50), encoding="ascii")
        try:
            os.link(draft, path)  # atomic, and fails when another process was first
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text(encoding="ascii")
