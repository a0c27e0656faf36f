"""ZooKeeper as the cluster's parts see it: reads, conditional writes, watches, a session.

`ZooKeeper` is the interface. `kazoo_zookeeper.py` connects to a real one. Use it from the event
loop's thread alone; every callback runs there.

A request that meets a lost connection is sent again until it is answered or the session has
expired. So a write may be applied although its answer is an error: then `ZooKeeperError.unsure` is
set, and the writer compares the node with its wanted content. That holds for every conditional
write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from broker.loop.histogram import Histogram
from broker.time import Time

Watch = Callable[[], None]
"""Called once when what was read may have changed, and after every lost connection: a hint to read
again, with another watch."""

ANY_VERSION = -1
ANSWERS_S = 5
"""Seconds that a client of ours waits for ZooKeeper before its request fails."""
AT_ONCE = 200
"""Nodes read concurrently: all answers may arrive in one turn of the loop."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stat(NamedTuple):
    """ZooKeeper's data about a node, without its content."""

    version: int
    """How often its data was set."""
    czxid: int
    """The transaction that created it: a broker's epoch is that of its registration (KIP-380)."""
    mzxid: int
    """The transaction that set its data last."""
    ephemeral_owner: int
    """The session whose end removes it; 0 if it is persistent."""
    num_children: int
    ctime_ms: int
    """When it was created, by the server's wall clock."""


class Create(NamedTuple):
    """Creates a node; its parent must be there."""

    path: str
    data: bytes | None
    """None: a node without data, which is not the same to every reader as one of no bytes."""
    ephemeral: bool = False
    sequence: bool = False


class Set(NamedTuple):
    """Sets a node's data, if it has that version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Deletes a node without children, if it has that version."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fails the multi unless the node has that version."""

    path: str
    version: int


Operation = Create | Set | Delete | Check
Done = str | Stat | None
"""The path of a create, the stat of a set, None for other operations."""


class ZooKeeperError(Exception):
    """ZooKeeper has rejected a request; the text has the reason."""

    def __init__(self, text: str, *, unsure: bool = False) -> None:
        super().__init__(text)
        self.unsure = unsure
        """The request was sent more than once: an earlier attempt may have been done."""


class NoNode(ZooKeeperError):
    """The node, or the parent of the node to be created, does not exist."""


class NodeExists(ZooKeeperError):
    """The node to be created is there."""


class BadVersion(ZooKeeperError):
    """The node has another version than the one expected."""


class NotEmpty(ZooKeeperError):
    """The node to be deleted has children."""


class SessionExpired(ZooKeeperError):
    """The session has expired: its ephemeral nodes are deleted, or will be."""


class Closed(ZooKeeperError):
    """The client was closed by its owner."""


class MultiFailed(Exception):
    """One operation of a multi failed, so none was applied."""

    def __init__(self, index: int, error: ZooKeeperError) -> None:
        super().__init__(f"operation {index} of the multi: {error}")
        self.index = index
        """Which of its operations."""
        self.error = error


class Connection(Enum):
    """The states that `ZooKeeper.on_session` reports."""

    CONNECTED = "connected"
    """The session is open: the old one again, or a new one."""
    SUSPENDED = "suspended"
    """The connection is lost, and the session may still be alive."""
    EXPIRED = "expired"
    """The session is over. Another follows."""


class ZooKeeper(Protocol):
    """A session with a ZooKeeper; paths are those below the chroot."""

    @property
    def session(self) -> int:
        """The session's id, 0 without a session."""

    @property
    def connection(self) -> Connection:
        """The last reported state."""

    @property
    def request_times(self) -> Histogram:
        """Nanoseconds from a request to its answer."""

    def on_session(self, call: Callable[[Connection], None]) -> None:
        """Has ``call`` called with each change, in the order in which they happened."""

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """A node's data; a node without any has b"". Raises NoNode, which sets no watch."""

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """A node's stat, None if it does not exist; the watch also fires on its creation."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children, in no order. Raises NoNode."""

    async def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        """Creates a node and returns its path. Raises NodeExists, NoNode without its parent."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Sets a node's data. Raises NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Deletes a node. Raises NoNode, BadVersion, NotEmpty."""

    async def multi(self, operations: Sequence[Operation]) -> list[Done]:
        """Applies all operations or none. Raises MultiFailed, and SessionExpired."""

    async def close(self) -> None:
        """Ends the session; ZooKeeper deletes its ephemeral nodes at once."""


_LEAST_SESSION_MS = 6000


class Where(NamedTuple):
    """Which ZooKeeper, and how a session with it is kept."""

    hosts: str
    """``zookeeper.connect``: hosts, and a chroot at the end."""
    session_timeout_ms: int
    connection_timeout_ms: int
    in_flight_max: int

    @property
    def session_ms(self) -> int:
        """How long a session outlives its client: a server grants no less than two of its ticks,
        which are 3 s unless it says otherwise."""
        return max(self.session_timeout_ms, _LEAST_SESSION_MS)


Connect = Callable[[Where, Time], Awaitable[ZooKeeper]]
"""Begins a session, below a chroot that it creates. Raises TimeoutError without an answer."""


async def in_time(time: Time, work: Awaitable[Result]) -> Result:
    """The result of ``work``. Raises ZooKeeperError if it takes longer than `ANSWERS_S`."""
    try:
        async with time.within(ANSWERS_S):
            return await work
    except TimeoutError:
        raise ZooKeeperError(
            f"no answer from ZooKeeper for {ANSWERS_S} s; the operation may still be applied",
            unsure=True,
        ) from None


async def ensure_path(zookeeper: ZooKeeper, path: str) -> None:
    """Creates a persistent node and its parents, where they are not there."""
    parts = path.strip("/").split("/")
    for end in range(1, len(parts) + 1):
        node = "/" + "/".join(parts[:end])
        if await zookeeper.exists(node) is None:
            try:
                await zookeeper.create(node, None)
            except NodeExists:
                continue


async def children_of(zookeeper: ZooKeeper, path: str, watch: Watch | None = None) -> list[str]:
    """The names of a node's children; one that is not there has none, and sets no watch."""
    try:
        return await zookeeper.children(path, watch)
    except NoNode:
        return []


def slices(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Splits items whose nodes are to be read into parts that are short to read and apply."""
    rest = iter(items)
    while some := list(islice(rest, AT_ONCE)):
        yield some
