"""The interface to ZooKeeper for the cluster's parts: reads, conditional writes, watches, a
session.

`kazoo_zookeeper.py` implements `ZooKeeper` with a connection to a real ZooKeeper. Only the event
loop's thread may use it; every callback runs in this thread.

A request whose connection is lost is sent again until ZooKeeper responds or the session has
expired. Therefore a write may be applied although its result is an error: then
`ZooKeeperError.unsure` is set, and the writer of a conditional write compares the node with the
wanted content.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from broker.loop.histogram import Histogram
from broker.time import Time

Watch = Callable[[], None]
"""A function that is called once when the data that was read may have changed, and after every lost
connection; the function's owner reads the data again, with a new watch."""

ANY_VERSION = -1
ANSWERS_S = 5
"""The maximum time in seconds for which an operation of a client waits for ZooKeeper before the
operation fails."""
AT_ONCE = 200
"""Maximum number of nodes that are read concurrently; all responses may arrive in one turn of the
loop."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stat(NamedTuple):
    """A node's metadata in ZooKeeper."""

    version: int
    """The number of times that the node's data was set."""
    czxid: int
    """The id of the transaction that created the node; for a registration this is the broker epoch
    (KIP-380)."""
    mzxid: int
    """The id of the transaction that last set the node's data."""
    ephemeral_owner: int
    """The id of the session whose end deletes the node; 0 if the node is persistent."""
    num_children: int
    ctime_ms: int
    """The wall time in ms at which the node was created, by the server's clock."""


class Create(NamedTuple):
    """Creates a node, whose parent must exist."""

    path: str
    data: bytes | None
    """The node's data; None for a node without data, which some readers distinguish from zero
    bytes."""
    ephemeral: bool = False
    sequence: bool = False


class Set(NamedTuple):
    """Sets a node's data if the node has the version ``version``."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Deletes a node without children if the node has the version ``version``."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Makes the multi fail unless the node has the version ``version``."""

    path: str
    version: int


Operation = Create | Set | Delete | Check
Done = str | Stat | None
"""The path of a created node, the stat of a set node, or None for other operations."""


class ZooKeeperError(Exception):
    """ZooKeeper has rejected a request; the exception's text has the reason."""

    def __init__(self, text: str, *, unsure: bool = False) -> None:
        super().__init__(text)
        self.unsure = unsure
        """True if the request was sent more than once, so that an earlier attempt may have been
        applied."""


class NoNode(ZooKeeperError):
    """The node, or the parent of the node to be created, does not exist."""


class NodeExists(ZooKeeperError):
    """The node to be created already exists."""


class BadVersion(ZooKeeperError):
    """The node does not have the expected version."""


class NotEmpty(ZooKeeperError):
    """The node to be deleted has children."""


class SessionExpired(ZooKeeperError):
    """The session has expired: ZooKeeper has deleted the session's ephemeral nodes, or will delete
    them."""


class Closed(ZooKeeperError):
    """The owner of the ZooKeeper client has closed the client."""


class MultiFailed(Exception):
    """One operation of a multi failed, so ZooKeeper applied none of the operations."""

    def __init__(self, index: int, error: ZooKeeperError) -> None:
        super().__init__(f"operation {index} of the ZooKeeper multi request failed: {error}")
        self.index = index
        """The index of the failed operation."""
        self.error = error


class Connection(Enum):
    """The states that `ZooKeeper.on_session` reports."""

    CONNECTED = "connected"
    """The session is open: a new session, or the same session after a lost connection."""
    SUSPENDED = "suspended"
    """The connection is lost, and the session may still be alive."""
    EXPIRED = "expired"
    """The session has expired. A new session follows."""


class ZooKeeper(Protocol):
    """A session with ZooKeeper; paths are relative to the chroot."""

    @property
    def session(self) -> int:
        """Returns the id of the session; 0 without a session."""

    @property
    def connection(self) -> Connection:
        """Returns the last reported state of the connection."""

    @property
    def request_times(self) -> Histogram:
        """Returns the times from a request to its response, in nanoseconds."""

    def on_session(self, call: Callable[[Connection], None]) -> None:
        """Adds a callback that is called for each change of the connection, in the order of the
        changes."""

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Returns a node's data and stat; the data is b"" for a node without data. Raises NoNode,
        and sets no watch in that case."""

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Returns a node's stat; None if the node does not exist. The watch is also called when the
        node is created."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Returns the names of a node's children, unordered. Raises NoNode."""

    async def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        """Creates a node; returns its path and stat. Raises NodeExists, and NoNode if the parent is
        missing."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Sets a node's data. Raises NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Deletes a node. Raises NoNode, BadVersion, NotEmpty."""

    async def multi(self, operations: Sequence[Operation]) -> list[Done]:
        """Applies all operations or none. Raises MultiFailed and SessionExpired."""

    async def close(self) -> None:
        """Ends the session; ZooKeeper deletes the session's ephemeral nodes immediately."""


_LEAST_SESSION_MS = 6000


class Where(NamedTuple):
    """The address of a ZooKeeper ensemble, and the settings of a session."""

    hosts: str
    """The value of ``zookeeper.connect``: hosts, followed by a chroot."""
    session_timeout_ms: int
    connection_timeout_ms: int
    in_flight_max: int

    @property
    def session_ms(self) -> int:
        """Returns the milliseconds for which a session outlives its client. The server's minimum is
        two ticks, by default 6 s."""
        return max(self.session_timeout_ms, _LEAST_SESSION_MS)


Connect = Callable[[Where, Time], Awaitable[ZooKeeper]]
"""A function that opens a session and creates the chroot. Raises TimeoutError if ZooKeeper does not
respond."""


async def in_time(time: Time, work: Awaitable[Result]) -> Result:
    """Awaits ``work``. Raises ZooKeeperError if ``work`` takes longer than `ANSWERS_S`."""
    try:
        async with time.real.within(ANSWERS_S):
            return await work
    except TimeoutError:
        raise ZooKeeperError(
            f"no answer from ZooKeeper for {ANSWERS_S} s; the operation may still be applied",
            unsure=True,
        ) from None


async def ensure_path(zookeeper: ZooKeeper, path: str) -> None:
    """Creates a persistent node and its parents, if they do not exist."""
    parts = path.strip("/").split("/")
    for end in range(1, len(parts) + 1):
        node = "/" + "/".join(parts[:end])
        if await zookeeper.exists(node) is None:
            try:
                await zookeeper.create(node, None)
            except NodeExists:
                continue


async def children_of(zookeeper: ZooKeeper, path: str, watch: Watch | None = None) -> list[str]:
    """Returns the names of a node's children. If the node does not exist, returns an empty list and
    sets no watch."""
    try:
        return await zookeeper.children(path, watch)
    except NoNode:
        return []


def slices(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Splits items into lists of at most `AT_ONCE` items; the nodes of a list are read and applied
    together."""
    rest = iter(items)
    while some := list(islice(rest, AT_ONCE)):
        yield some
