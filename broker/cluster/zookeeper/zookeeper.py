"""The broker's interface to ZooKeeper: reads, conditional writes, watches and a session.

`kazoo_zookeeper.py` implements `ZooKeeper` for a real ZooKeeper. Only the event loop's thread may
use it, and all callbacks run in this thread. If the connection is lost, a request is sent again
until ZooKeeper responds or the session has expired. Therefore a write may have been applied
although its result is an error: `ZooKeeperError.unsure` is then True, and the writer compares the
node with the wanted content.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from broker.loop.histogram import Histogram
from broker.time import Time

Watch = Callable[[], None]
"""A function that is called once: when the data that was read may have changed, or when the
connection was lost. The code that set the watch then reads the data again, with a new watch."""

ANY_VERSION = -1
ANSWERS_S = 5
"""The maximum time in seconds that an operation for a client waits for ZooKeeper before it fails.
"""
AT_ONCE = 200
"""The maximum number of nodes that are read concurrently. All their responses may arrive in one
turn of the event loop."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stat(NamedTuple):
    """The metadata of a node that ZooKeeper stores."""

    version: int
    """The number of times that the node's data was set."""
    czxid: int
    """The id of the transaction that created the node. For the registration of a broker, this id is
    the broker epoch (KIP-380)."""
    mzxid: int
    """The id of the transaction that last set the node's data."""
    ephemeral_owner: int
    """The id of the session that owns an ephemeral node, which is deleted with the session; 0 for a
    persistent node."""
    num_children: int
    ctime_ms: int
    """The wall time of the ZooKeeper server in ms at which the node was created."""


class Create(NamedTuple):
    """The operation that creates a node. The parent node must exist."""

    path: str
    data: bytes | None
    """The data of the node; None for a node without data, which some readers distinguish from zero
    bytes."""
    ephemeral: bool = False
    sequence: bool = False


class Set(NamedTuple):
    """The operation that sets a node's data, if the node has the given version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """The operation that deletes a node without children, if the node has the given version."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """The operation that makes a multi fail unless the node has the given version."""

    path: str
    version: int


Operation = Create | Set | Delete | Check
Done = str | Stat | None
"""The result of an operation: the path of a created node, the stat of a set node, or None for other
operations."""


class ZooKeeperError(Exception):
    """ZooKeeper has rejected a request. The exception's text has the reason."""

    def __init__(self, text: str, *, unsure: bool = False) -> None:
        super().__init__(text)
        self.unsure = unsure
        """True if the request was sent more than once, so that an earlier attempt may have been
        applied."""


class NoNode(ZooKeeperError):
    """The node does not exist; when a node is created, its parent does not exist."""


class NodeExists(ZooKeeperError):
    """A node that should be created already exists."""


class BadVersion(ZooKeeperError):
    """The node does not have the expected version."""


class NotEmpty(ZooKeeperError):
    """A node that should be deleted has children."""


class SessionExpired(ZooKeeperError):
    """The session has expired. ZooKeeper has deleted, or will delete, the ephemeral nodes of the
    session."""


class Closed(ZooKeeperError):
    """The owner of this ZooKeeper client has closed it."""


class MultiFailed(Exception):
    """One operation of a multi has failed, so ZooKeeper has applied none of them."""

    def __init__(self, index: int, error: ZooKeeperError) -> None:
        super().__init__(f"operation {index} of the ZooKeeper multi request failed: {error}")
        self.index = index
        """The index of the failed operation."""
        self.error = error


class Connection(Enum):
    """The states of the connection that `ZooKeeper.on_session` reports."""

    CONNECTED = "connected"
    """The session is open: either it is new, or it continues after a lost connection."""
    SUSPENDED = "suspended"
    """The connection is lost. The session may still be alive."""
    EXPIRED = "expired"
    """The session has expired. A new session follows."""


class ZooKeeper(Protocol):
    """A session with ZooKeeper. All paths are relative to the chroot."""

    @property
    def session(self) -> int:
        """The id of the session; 0 without a session."""

    @property
    def connection(self) -> Connection:
        """The last reported state of the connection."""

    @property
    def request_times(self) -> Histogram:
        """The distribution of the times between a request and its response, in nanoseconds."""

    def on_session(self, call: Callable[[Connection], None]) -> None:
        """Adds a callback, which gets each new state of the connection, in order."""

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Returns the data and the stat of a node; the data is b"" for a node without data.

        Raises NoNode; then no watch is set.
        """

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Returns the stat of a node; None if the node does not exist. The watch is also called
        when the node is created."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Returns the names of a node's children, unordered. Raises NoNode."""

    async def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        """Creates a node. Returns its path and stat. Raises NodeExists, and NoNode if the parent
        does not exist."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Sets the data of a node. Raises NoNode and BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Deletes a node. Raises NoNode, BadVersion and NotEmpty."""

    async def multi(self, operations: Sequence[Operation]) -> list[Done]:
        """Applies all operations or none of them. Raises MultiFailed and SessionExpired."""

    async def close(self) -> None:
        """Ends the session. ZooKeeper deletes the ephemeral nodes of the session immediately."""


_LEAST_SESSION_MS = 6000


class Where(NamedTuple):
    """The address of ZooKeeper, and the settings of a session."""

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
    """Returns the result of ``work``. Raises ZooKeeperError if it takes longer than `ANSWERS_S`."""
    try:
        async with time.real.within(ANSWERS_S):
            return await work
    except TimeoutError:
        raise ZooKeeperError(
            f"no answer from ZooKeeper for {ANSWERS_S} s; the operation may still be applied",
            unsure=True,
        ) from None


async def ensure_path(zookeeper: ZooKeeper, path: str) -> None:
    """Creates a persistent node, and its parents, unless they exist."""
    parts = path.strip("/").split("/")
    for end in range(1, len(parts) + 1):
        node = "/" + "/".join(parts[:end])
        if await zookeeper.exists(node) is None:
            try:
                await zookeeper.create(node, None)
            except NodeExists:
                continue


async def children_of(zookeeper: ZooKeeper, path: str, watch: Watch | None = None) -> list[str]:
    """Returns the names of a node's children. If the node does not exist, returns an empty list,
    and sets no watch."""
    try:
        return await zookeeper.children(path, watch)
    except NoNode:
        return []


def slices(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Splits items into lists of at most `AT_ONCE` items. The nodes of one list are read
    together."""
    rest = iter(items)
    while some := list(islice(rest, AT_ONCE)):
        yield some
