"""Logs failures of peers to connect: at most one line per minute for each address and reason, with
a count."""

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
"""The maximum number of remembered pairs of address and reason. The pair that was logged longest
ago is dropped first."""
ADDRESS_LINES_MAX: Final = 10
"""The maximum number of lines per minute about one address.

This limit is needed because each failure of a peer may have a different reason.
"""
REASON_SHOWN: Final = 300
"""The maximum number of characters of a reason that are logged and remembered.

A reason may contain a long name that the peer chose.
"""


class FailureLines:
    """Logs that a peer failed to connect. One object logs these failures for all listeners of a
    broker."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._logged: OrderedDict[tuple[str, str], list[int]] = OrderedDict()
        """The monotonic time in ms of the last line, and the number of failures since then, by
        address and reason."""
        self._lines: OrderedDict[str, list[int]] = OrderedDict()
        """By address: the monotonic time in ms at which the current minute began, and the number of
        lines in this minute."""

    def report(self, event: str, address: str, reason: str, **about: Any) -> None:
        """Logs a failure. If the last minute already has a line about this address and reason,
        counts the failure without a new line."""
        now_ms = self._time.now().mono_ms
        reason = reason[:REASON_SHOWN]
        logged = self._logged.get((address, reason))
        if logged is not None and now_ms - logged[0] < AGAIN_MS:
            logged[1] += 1
            return
        omitted = self._line_of(address, now_ms)
        if omitted is None:
            return
        more = {} if logged is None or not logged[1] else {"more_since_last_line": logged[1]}
        if omitted:
            more["omitted_of_address"] = omitted
        self._logged.pop((address, reason), None)
        self._logged[address, reason] = [now_ms, 0]
        if len(self._logged) > KINDS_MAX:
            self._logged.popitem(last=False)
        logger.info(event, reason=reason, **about, **more)

    def _line_of(self, address: str, now_ms: int) -> int | None:
        """Counts a line about an address. Returns None if the line must be omitted, because the
        address has reached its limit in this minute.

        The first line of a minute gets the number of lines that were omitted in the previous
        minute. All other lines get 0.
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
    """Logs rejected JoinGroup requests of all groups. Only errors in LASTING are logged, which a
    client gets again until a setting is changed."""

    def __init__(self, time: Time) -> None:
        self._lines = FailureLines(time)

    def observe(self, event: JoinRefused) -> None:
        if event.error_code in LASTING:
            error = NAMES[event.error_code]
            self._lines.report(
                "join refused",
                event.client_host,
                f"group {event.group_id}: {error}: {event.detail}",
                group=event.group_id[:200],
                client=event.client_id[:200],
                host=event.client_host,
            )
