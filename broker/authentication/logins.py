"""The state that all logins of one broker share: counts, bounds, and log lines of failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final, NamedTuple, Protocol

from broker.authentication.guesses import Guesses
from broker.net.clients.failure_lines import FailureLines
from broker.net.peer import display_client_id
from broker.net.request import Handler, Route
from broker.time import Time

STRANGERS_MAX: Final = 2000
"""Connections before their login above which the oldest one of the busiest address is closed."""
STRANGERS_BYTES_MAX: Final = 64 << 20
"""Undecoded bytes of all connections before their login above which the connection with most is
closed."""
LOGIN_S_MAX: Final = 10.0
"""Longest time of a login, in seconds. Apache Kafka closes only idle connections, after ten
minutes."""

LOGINS: Final = "logins"
"""The name of login work in the watchdog's log lines."""
TOO_MANY_FAILED: Final = "too many failed logins of this user from this address"
NO_MECHANISM: Final = "none"
"""The mechanism in metrics for a login that has not chosen one."""


class Result(NamedTuple):
    """The metric labels of a login's result, none of which a client can choose freely."""

    listener: str
    mechanism: str
    result: str


SUCCESS, FAILURE, RENEWED, RENEWAL_FAILED, EXPIRED = (
    "success",
    "failure",
    "reauthentication_success",
    "reauthentication_failure",
    "expired",
)
RESULTS: Final = (SUCCESS, FAILURE, RENEWED, RENEWAL_FAILED, EXPIRED)


class Stranger(Protocol):
    """A connection that has not logged in yet."""

    address: str

    @property
    def held_bytes(self) -> int:
        """Received bytes of its incomplete message."""

    def cut(self, reason: str) -> None:
        """Closes it at once."""


class Logins:
    """The logins of one broker; only the event loop's thread may use it."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.guesses = Guesses()
        self.counts = Counter[Result]()
        self.offered: list[tuple[str, str]] = []
        """Pairs of a listener and one of its mechanisms."""
        self._lines = FailureLines(time)
        self._strangers: dict[Stranger, None] = {}
        """Connections before their login, oldest first."""
        self._by_address: defaultdict[str, dict[Stranger, None]] = defaultdict(dict)
        self.held_bytes = 0
        self.routes: dict[Handler, dict[int, Route]] = {}
        """The routes of sessions that re-authenticate or have expired, by handler."""

    @property
    def strangers(self) -> int:
        """The number of connections before their login."""
        return len(self._strangers)

    def came(self, stranger: Stranger) -> None:
        """Adds a connection that must log in."""
        self._strangers[stranger] = None
        self._by_address[stranger.address][stranger] = None
        if len(self._strangers) > STRANGERS_MAX:
            busiest = max(self._by_address.values(), key=len)
            next(iter(busiest)).cut("too many connections without login")

    def gone(self, stranger: Stranger) -> None:
        """Removes a connection that has logged in or is closed."""
        if stranger in self._strangers:
            del self._strangers[stranger]
            mates = self._by_address[stranger.address]
            del mates[stranger]
            if not mates:
                del self._by_address[stranger.address]

    def holds(self, more_bytes: int) -> None:
        """Adds ``more_bytes``, which may be negative, to the bytes of all logins."""
        self.held_bytes += more_bytes
        if self.held_bytes > STRANGERS_BYTES_MAX:
            biggest = max(self._strangers, key=lambda each: each.held_bytes)
            biggest.cut("unfinished logins hold too many bytes, and this one the most")

    def counted(self, listener: str, mechanism: str, result: str) -> None:
        """Counts the result of a login or re-authentication."""
        self.counts[Result(listener, mechanism, result)] += 1

    def failed(
        self, event: str, peer: str, address: str, listener: str, mechanism: str,
        client_id: str, reason: str,
    ) -> None:  # fmt: skip
        """Logs a failure, once a minute for the same address and reason."""
        self._lines.report(
            event,
            address,
            reason,
            peer=peer,
            listener=listener,
            mechanism=mechanism,
            client_id=display_client_id(client_id),
        )
