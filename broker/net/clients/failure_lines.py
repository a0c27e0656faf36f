"""One line a minute of peers that fail to get in in the same way, with their number."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import structlog

from broker.time import Time
from coordinator.classic.refused_joins import LASTING
from coordinator.events import JoinRefused
from protocol.errors import NAMES

logger = structlog.get_logger(__name__)

AGAIN_MS: Final = 60_000
KINDS_MAX: Final = 1000
"""Distinct failures that are remembered; the ones logged longest ago are dropped first."""
ADDRESS_LINES_MAX: Final = 10
"""Lines of one address in a minute: a peer may try another name each time."""
REASON_SHOWN: Final = 300
"""Characters of a reason that are logged and remembered: it may have a name from a stranger."""


class FailureLines:
    """Of all listeners of one broker."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._told: OrderedDict[tuple[str, str], list[int]] = OrderedDict()
        """By address and reason: when it was logged, and its count since."""
        self._lines: OrderedDict[str, list[int]] = OrderedDict()
        """By address: since when, and how many lines it would have had since."""

    def tell(self, event: str, address: str, reason: str, **about: Any) -> None:
        """Logs the failure, unless the same one was logged within a minute."""
        now_ms = self._time.now().mono_ms
        reason = reason[:REASON_SHOWN]
        told = self._told.get((address, reason))
        if told is not None and now_ms - told[0] < AGAIN_MS:
            told[1] += 1
            return
        untold = self._line_of(address, now_ms)
        if untold is None:
            return
        more = {} if told is None or not told[1] else {"more_since_last_line": told[1]}
        if untold:
            more["omitted_of_address"] = untold
        self._told.pop((address, reason), None)
        self._told[address, reason] = [now_ms, 0]
        if len(self._told) > KINDS_MAX:
            self._told.popitem(last=False)
        logger.info(event, reason=reason, **about, **more)

    def _line_of(self, address: str, now_ms: int) -> int | None:
        """Takes one of an address's lines: how many it lacked in its last minute.

        None where it has had all of this minute's.
        """
        since = self._lines.get(address)
        if since is None or now_ms - since[0] >= AGAIN_MS:
            self._lines.pop(address, None)
            self._lines[address] = [now_ms, 1]
            if len(self._lines) > KINDS_MAX:
                self._lines.popitem(last=False)
            return 0 if since is None else max(0, since[1] - ADDRESS_LINES_MAX)
        since[1] += 1
        return 0 if since[1] <= ADDRESS_LINES_MAX else None


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
