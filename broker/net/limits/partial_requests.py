"""The bound on all partly received requests together (``queued.max.request.bytes``).

Above the bound only the oldest of them is read, so that one always completes; the others are not
read until there is room. The oldest is closed if it sends nothing while others wait.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

STALLED_S_MAX = 10
"""Seconds that the oldest may send nothing while others wait for it."""


class Reader(Protocol):
    """A connection."""

    last_active_s: int
    """When it last received something."""

    def hold(self) -> None:
        """Reads no further until `release`."""

    def release(self) -> None:
        """Reads again, unless something else holds it back."""


AnyReader = TypeVar("AnyReader", bound=Reader)


class PartialRequests(Generic[AnyReader]):
    """Counts what has arrived of requests that are not whole; never what their lengths claim."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._sizes: dict[AnyReader, int] = {}
        """Bytes arrived by connection, the oldest request first."""
        self._total = 0
        self._held: dict[AnyReader, None] = {}

    def note(self, connection: AnyReader, size: int) -> None:
        """``connection`` now has ``size`` bytes of a partial request, 0 for none."""
        before = self._sizes.get(connection, 0)
        self._total += size - before
        if size:
            self._sizes[connection] = size
        elif before:
            del self._sizes[connection]
        if self._total > self.bytes_max or self._held:
            self._settle()

    def forget(self, connection: AnyReader) -> None:
        """Removes a closed connection."""
        self._held.pop(connection, None)
        self.note(connection, 0)

    def holds(self, connection: AnyReader) -> bool:
        """Whether ``connection`` must not be read for now."""
        return connection in self._held

    def stalled(self, now_s: int) -> AnyReader | None:
        """The connection that keeps others waiting and sends nothing, if there is one."""
        if not self._held:
            return None
        oldest = next(iter(self._sizes))
        return oldest if now_s - oldest.last_active_s >= STALLED_S_MAX else None

    def _settle(self) -> None:
        """Holds all connections but the oldest while the total is too large, otherwise none."""
        rest = list(self._sizes)[1:] if self._total > self.bytes_max else ()
        held, self._held = self._held, dict.fromkeys(rest)
        for connection in rest:
            if connection not in held:
                connection.hold()
        for connection in held:
            if connection not in self._held:
                connection.release()
