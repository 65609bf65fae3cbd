"""Publishing hints: until the first failure, and then no more.

Guarantees: a broker or a result backend that is away costs one wait for its timeouts for each outbox, not
one for each run; nothing is raised. Not thread-safe: one outbox for a sweep and a kind of message.

Does not keep what was not sent. Rows decide; the next sweep finds them and sends it.

Shaped by: sweeps over many runs that waited twenty seconds for each of them while the backend was down.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Outbox:
    """``muted``: sends nothing, for one who does the work right here. ``away``: a message failed."""

    muted: bool = False
    away: bool = False

    def publish(self, send: Callable[[], object], **about: object) -> bool:
        """Whether *send* was called and succeeded; *about* goes into the log."""
        if self.muted or self.away:
            return False
        try:
            send()
        except Exception:  # every broker has errors of its own
            logger.warning("outbox.publish_failed", extra=about, exc_info=True)
            self.away = True
        return not self.away
