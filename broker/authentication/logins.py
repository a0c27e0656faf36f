"""The state that all logins of one broker share: counts, limits, and log lines about failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final, NamedTuple, Protocol

from broker.authentication.guesses import Guesses
from broker.net.clients.failure_lines import FailureLines
from broker.net.peer import display_client_id
from broker.net.request import Handler, Route
from broker.time import Time

STRANGERS_MAX: Final = 2000
"""The maximum number of connections that have not logged in. Above this number, the broker finds
the address with the most such connections, and closes the oldest of them."""
STRANGERS_BYTES_MAX: Final = 64 << 20
"""The maximum total of undecoded bytes of all connections that have not logged in. Above this
number, the broker closes the connection with the most undecoded bytes."""
LOGIN_S_MAX: Final = 10.0
"""The maximum duration of a login in seconds. Apache Kafka has no such limit; it closes idle
connections after ten minutes."""

LOGINS: Final = "logins"
"""The name for the handling of logins in the watchdog's log lines."""
TOO_MANY_FAILED: Final = "too many failed logins of this user from this address"
NO_MECHANISM: Final = "none"
"""The metric label "mechanism" of a login that failed before the client chose a mechanism."""


class Result(NamedTuple):
    """The metric labels of a login's result. Each label has few possible values, so that clients
    can't create many time series."""

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
    def held_bytes(self) -> int: ...

    def cut(self, reason: str) -> None: ...


class Logins:
    """The logins of one broker. Only the event loop's thread may use this class."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.guesses = Guesses()
        self.counts = Counter[Result]()
        self.offered: list[tuple[str, str]] = []
        """Pairs of a listener's name and a mechanism that this listener offers."""
        self._lines = FailureLines(time)
        self._strangers: dict[Stranger, None] = {}
        """The connections that have not logged in yet, oldest first."""
        self._by_address: defaultdict[str, dict[Stranger, None]] = defaultdict(dict)
        self.held_bytes = 0
        self.routes: dict[Handler, dict[int, Route]] = {}
        """For each handler: the routes of connections that are re-authenticating or whose session
        has expired."""

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def came(self, stranger: Stranger) -> None:
        self._strangers[stranger] = None
        self._by_address[stranger.address][stranger] = None
        if len(self._strangers) > STRANGERS_MAX:
            busiest = max(self._by_address.values(), key=len)
            next(iter(busiest)).cut(f"more than {STRANGERS_MAX} connections have not logged in")

    def gone(self, stranger: Stranger) -> None:
        if stranger in self._strangers:
            del self._strangers[stranger]
            mates = self._by_address[stranger.address]
            del mates[stranger]
            if not mates:
                del self._by_address[stranger.address]

    def holds(self, more_bytes: int) -> None:
        """Adds ``more_bytes``, which may be negative, to the undecoded bytes of all logins."""
        self.held_bytes += more_bytes
        if self.held_bytes > STRANGERS_BYTES_MAX:
            biggest = max(self._strangers, key=lambda each: each.held_bytes)
            biggest.cut(
                f"unfinished logins buffer more than {STRANGERS_BYTES_MAX} bytes, and this"
                " connection buffers the most"
            )

    def counted(self, listener: str, mechanism: str, result: str) -> None:
        self.counts[Result(listener, mechanism, result)] += 1

    def failed(
        self, event: str, peer: str, address: str, listener: str, mechanism: str,
        client_id: str, reason: str,
    ) -> None:  # fmt: skip
        """Logs a failure, at most once a minute for the same address and reason."""
        self._lines.report(
            event,
            address,
            reason,
            peer=peer,
            listener=listener,
            mechanism=mechanism,
            client_id=display_client_id(client_id),
        )
