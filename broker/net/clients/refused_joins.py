"""One line a minute of clients that are refused when they join a group."""

from __future__ import annotations

from broker.net.clients.failure_lines import FailureLines
from broker.time import Time
from coordinator.classic.refused_joins import LASTING
from coordinator.events import JoinRefused
from protocol.errors import NAMES


class RefusedJoinLines:
    """Of all groups of one broker; only of refusals that do not end by themselves."""

    def __init__(self, time: Time) -> None:
        self._lines = FailureLines(time)

    def observe(self, event: JoinRefused) -> None:
        """Write the line of a refused join."""
        if event.error_code in LASTING:
            error = NAMES[event.error_code]
            self._lines.tell(
                "join refused",
                event.client_host,
                f"group {event.group_id}: {error}: {event.detail}",
                group=event.group_id[:200],
                client=event.client_id[:200],
                host=event.client_host,
            )
