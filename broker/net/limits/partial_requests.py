"""The limit on the total size of all partly received requests (``queued.max.request.bytes``). Above
the limit, the broker reads only the connection with the oldest partial request, so that one request
always completes. The other connections wait until the total is below the limit. If the oldest
connection sends nothing for `STALLED_S_MAX` seconds while others wait, the broker closes it."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

STALLED_S_MAX = 10
"""While partial requests exceed their limit, the broker reads only from the connection with the
oldest partial request. This is the maximum number of seconds for which this connection may send
nothing."""


class Reader(Protocol):
    """The methods of a connection that this module uses."""

    last_active_s: int

    def hold(self) -> None: ...

    def release(self) -> None: ...


AnyReader = TypeVar("AnyReader", bound=Reader)


class PartialRequests(Generic[AnyReader]):
    """Counts the received bytes of requests that are not complete yet. The length prefixes of the
    requests do not count."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._sizes: dict[AnyReader, int] = {}
        """For each connection with a partial request, the number of bytes received of this request.
        The oldest partial request is first."""
        self._total = 0
        self._held: dict[AnyReader, None] = {}

    def note(self, connection: AnyReader, size: int) -> None:
        """Sets the number of bytes that ``connection`` has received of a partial request; 0 means
        that it has no partial request."""
        before = self._sizes.get(connection, 0)
        self._total += size - before
        if size:
            self._sizes[connection] = size
        elif before:
            del self._sizes[connection]
        if self._total > self.bytes_max or self._held:
            self._settle()

    def forget(self, connection: AnyReader) -> None:
        self._held.pop(connection, None)
        self.note(connection, 0)

    def holds(self, connection: AnyReader) -> bool:
        """Returns True if the socket of ``connection`` must not be read now."""
        return connection in self._held

    def stalled(self, now_s: int) -> AnyReader | None:
        """Returns the connection with the oldest partial request if it has sent nothing for
        STALLED_S_MAX seconds; otherwise None."""
        if not self._held:
            return None
        oldest = next(iter(self._sizes))
        return oldest if now_s - oldest.last_active_s >= STALLED_S_MAX else None

    def _settle(self) -> None:
        """While the total size of the partial requests exceeds the limit, reads only the connection
        with the oldest partial request. Otherwise reads all connections."""
        rest = list(self._sizes)[1:] if self._total > self.bytes_max else ()
        held, self._held = self._held, dict.fromkeys(rest)
        for connection in rest:
            if connection not in held:
                connection.hold()
        for connection in held:
            if connection not in self._held:
                connection.release()
