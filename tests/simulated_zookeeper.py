"""A ZooKeeper in memory, with sessions that fail when a test requires it.

`Ensemble` contains the nodes and sessions; `SimulatedZooKeeper` implements `ZooKeeper` for one
process, with successive sessions. Each response takes one turn of the event loop and no time.
tests/broker/cluster/zookeeper/test_zookeeper_conduct.py compares the simulation with a real
ZooKeeper accessed through kazoo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from broker.cluster.zookeeper.zookeeper import (
    ANY_VERSION,
    BadVersion,
    Check,
    Closed,
    Connection,
    Create,
    Delete,
    Done,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    Set,
    Stat,
    Watch,
    ZooKeeperError,
)
from broker.loop.histogram import Histogram

Result = TypeVar("Result")


@dataclass(slots=True)
class _Node:
    data: bytes | None
    czxid: int
    mzxid: int
    owner: int
    ctime_ms: int
    version: int = 0
    children: set[str] = field(default_factory=set)
    born: int = 0
    """The number of children ever created. The next sequential child gets this number."""

    @property
    def stat(self) -> Stat:
        children = len(self.children)
        return Stat(self.version, self.czxid, self.mzxid, self.owner, children, self.ctime_ms)


class Ensemble:
    """The nodes of a ZooKeeper, and the sessions that own ephemeral nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {"/": _Node(None, 0, 0, 0, 0)}
        self.zxid = 0
        self.now_ms = 1_700_000_000_000
        """The wall clock of the server in ms. Only a test changes it."""
        self.sessions: dict[int, SimulatedZooKeeper] = {}
        self.writes: list[Operation] = []
        """All applied operations, in order."""
        self._last_session = 0
        self._undo: list[Callable[[], None]] = []
        self._changed: list[tuple[str, str]] = []
        """The kind of watch and the path for each change of the current write."""

    def begin_session(self, client: SimulatedZooKeeper) -> int:
        """Begins a session and returns its id."""
        self._last_session += 1
        self.sessions[self._last_session] = client
        return self._last_session

    def end_session(self, session: int) -> None:
        """Removes the ephemeral nodes of a session and calls the watches of these nodes."""
        if self.sessions.pop(session, None) is None:
            return
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self.do([Delete(path)], session)

    def node(self, path: str) -> _Node:
        """Returns a node. Raises NoNode if the node does not exist."""
        if path not in self.nodes:
            raise NoNode(f"{path}: there is none")
        return self.nodes[path]

    def do(self, operations: Sequence[Operation], session: int) -> list[Done]:
        """Applies either all operations or no operation. Raises MultiFailed if an operation
        fails."""
        self.zxid += 1
        self._undo, self._changed = [], []
        done: list[Done] = []
        for index, each in enumerate(operations):
            try:
                done.append(self._apply(each, session))
            except ZooKeeperError as error:
                for undo in reversed(self._undo):
                    undo()
                raise MultiFailed(index, error) from None
        self.writes += operations
        for kind, path in self._changed:
            for client in [*self.sessions.values()]:
                client.changed(kind, path)
        return done

    def _apply(self, operation: Operation, session: int) -> Done:
        match operation:
            case Create():
                return self._create(operation, session)
            case Set(path, data, version):
                node = self._at_version(path, version)
                before = (node.data, node.version, node.mzxid)

                def restore() -> None:
                    node.data, node.version, node.mzxid = before

                self._undo.append(restore)
                node.data, node.version, node.mzxid = data, node.version + 1, self.zxid
                self._changed.append(("data", path))
                return node.stat
            case Delete(path, version):
                node = self._at_version(path, version)
                if node.children:
                    raise NotEmpty(f"{path}: it has children")
                parent, name = _split(path)
                del self.nodes[path]
                self.nodes[parent].children.discard(name)
                self._undo.append(lambda: self._put(path, node))
                self._changed += [("data", path), ("children", path), ("children", parent)]
                return None
            case Check(path, version):
                self._at_version(path, version)
                return None

    def _create(self, wanted: Create, session: int) -> str:
        parent_path, _ = _split(wanted.path)
        parent = self.node(parent_path)
        if parent.owner:
            raise ZooKeeperError(f"{wanted.path}: an ephemeral node has no children")
        path = f"{wanted.path}{parent.born:010d}" if wanted.sequence else wanted.path
        if path in self.nodes:
            raise NodeExists(f"{path}: it is there")
        parent.born += 1
        owner = session if wanted.ephemeral else 0
        self._put(path, _Node(wanted.data, self.zxid, self.zxid, owner, self.now_ms))
        self._undo.append(lambda: self._remove(path))
        self._changed += [("data", path), ("children", parent_path)]
        return path

    def _put(self, path: str, node: _Node) -> None:
        parent, name = _split(path)
        self.nodes[path] = node
        self.nodes[parent].children.add(name)

    def _remove(self, path: str) -> None:
        parent, name = _split(path)
        del self.nodes[path]
        self.nodes[parent].children.discard(name)
        self.nodes[parent].born -= 1

    def _at_version(self, path: str, version: int) -> _Node:
        node = self.node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(f"{path}: it has version {node.version}, not {version}")
        return node


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name


class SimulatedZooKeeper:
    """Implements `ZooKeeper`. The client is connected from its creation on."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.session = ensemble.begin_session(self)
        self.connection = Connection.CONNECTED
        self.request_times = Histogram()
        self._listeners: list[Callable[[Connection], None]] = []
        self._watches: dict[tuple[str, str], list[Watch]] = {}
        self._connected = asyncio.Event()
        self._connected.set()
        self._closed = False
        self._answers_lost = 0

    # -- commands of tests

    def suspend(self) -> None:
        """Disconnects: requests get no response, and each watch is called once and removed."""
        self._connected.clear()
        self._tell(Connection.SUSPENDED)
        watches, self._watches = self._watches, {}
        for several in watches.values():
            for watch in several:
                self._call(watch)

    def resume(self) -> None:
        """Reconnects, with a new session if the old session has expired."""
        if self.session not in self.ensemble.sessions:
            self.session = 0
            self._connected.set()  # wake the waiting requests
            self._connected.clear()
            self._tell(Connection.EXPIRED)
            self.session = self.ensemble.begin_session(self)
        self._tell(Connection.CONNECTED)
        self._connected.set()

    def lose_connection(self) -> None:
        """Disconnects and immediately reconnects with the same session."""
        self.suspend()
        self.resume()

    def expire(self) -> None:
        """Ends the session and immediately begins another session."""
        self.ensemble.end_session(self.session)
        self.lose_connection()

    def lose_answers(self, count: int) -> None:
        """Applies the next ``count`` writes but loses their responses, so that the client sends the
        writes again."""
        self._answers_lost = count

    # -- ZooKeeper

    def on_session(self, call: Callable[[Connection], None]) -> None:
        self._listeners.append(call)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        def read() -> tuple[bytes, Stat]:
            node = self.ensemble.node(path)
            self._watch("data", path, watch)
            return node.data or b"", node.stat

        return await self._answered(read)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        def read() -> Stat | None:
            self._watch("data", path, watch)
            node = self.ensemble.nodes.get(path)
            return None if node is None else node.stat

        return await self._answered(read)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def read() -> list[str]:
            node = self.ensemble.node(path)
            self._watch("children", path, watch)
            return sorted(node.children, reverse=True)  # ZooKeeper does not define the order

        return await self._answered(read)

    async def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        made = await self._one(Create(path, data, ephemeral, sequence))
        assert isinstance(made, str)
        return made, self.ensemble.nodes[made].stat

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat = await self._one(Set(path, data, version))
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._one(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[Done]:
        unsure = False
        while True:
            try:
                done = await self._answered(lambda: self.ensemble.do(operations, self.session))
            except MultiFailed as failed:
                failed.error.unsure = unsure
                raise
            if not self._answers_lost:
                return done
            self._answers_lost -= 1
            unsure = True
            self.lose_connection()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connected.set()  # wake the waiting requests
            self.ensemble.end_session(self.session)

    async def _one(self, operation: Operation) -> Done:
        try:
            return (await self.multi([operation]))[0]
        except MultiFailed as failed:
            raise failed.error from None

    async def _answered(self, request: Callable[[], Result]) -> Result:
        """Returns the result of a request in a later turn of the event loop. Raises SessionExpired
        or Closed."""
        session = self.session
        while True:
            await self._connected.wait()
            await asyncio.sleep(0)
            if self._closed:
                raise Closed("the session was closed")
            if session != self.session:
                raise SessionExpired("the session has expired")
            if self._connected.is_set():
                return request()

    # -- changes

    def changed(self, kind: str, path: str) -> None:
        """Calls and removes the watches of a changed node."""
        for watch in self._watches.pop((kind, path), ()):
            self._call(watch)

    def _watch(self, kind: str, path: str, watch: Watch | None) -> None:
        if watch is not None:
            self._watches.setdefault((kind, path), []).append(watch)

    def _call(self, watch: Watch) -> None:
        asyncio.get_running_loop().call_soon(lambda: None if self._closed else watch())

    def _tell(self, connection: Connection) -> None:
        self.connection = connection
        for call in [*self._listeners]:
            call(connection)
