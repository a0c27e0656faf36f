"""The nodes and sessions of a ZooKeeper in memory: versions, sequential nodes, ephemeral nodes,
multi-operations. tests/broker/cluster/zookeeper/test_zookeeper_conduct.py compares `Ensemble` and
`MemoryZooKeeper` with a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from broker.cluster.zookeeper.zookeeper import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    Done,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    Stat,
    ZooKeeperError,
)


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
    """The number of children created so far, which is the number of the next sequential child."""

    @property
    def stat(self) -> Stat:
        children = len(self.children)
        return Stat(self.version, self.czxid, self.mzxid, self.owner, children, self.ctime_ms)


class SessionOwner(Protocol):
    """The client that owns a session. The ensemble notifies it of changes."""

    def changed(self, kind: str, path: str) -> None:
        """Removes and calls the watches of kind ``kind`` on the changed node ``path``."""


class Ensemble:
    """The nodes of a ZooKeeper, and the sessions that own ephemeral nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {"/": _Node(None, 0, 0, 0, 0)}
        self.zxid = 0
        self.now_ms = 1_700_000_000_000
        """The server's wall clock in ms, which the owner of the ensemble sets."""
        self.sessions: dict[int, SessionOwner] = {}
        self.writes: list[Operation] = []
        self._last_session = 0
        self._undo: list[Callable[[], None]] = []
        self._changed: list[tuple[str, str]] = []
        """The changes of the current write. Each change is the kind of the watches that it
        triggers, and the path of the node."""

    def begin_session(self, client: SessionOwner) -> int:
        self._last_session += 1
        self.sessions[self._last_session] = client
        return self._last_session

    def end_session(self, session: int) -> None:
        """Removes the ephemeral nodes of a session, and calls the watches on these nodes."""
        if self.sessions.pop(session, None) is None:
            return
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self.do([Delete(path)], session)

    def node(self, path: str) -> _Node:
        """Returns a node. Raises NoNode if the node does not exist."""
        if path not in self.nodes:
            raise NoNode(f"{path}: the node does not exist")
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
                    raise NotEmpty(f"{path}: the node has children")
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
            raise ZooKeeperError(f"{wanted.path}: an ephemeral node can't have children")
        path = f"{wanted.path}{parent.born:010d}" if wanted.sequence else wanted.path
        if path in self.nodes:
            raise NodeExists(f"{path}: the node exists")
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
            raise BadVersion(f"{path}: the node has version {node.version}, not {version}")
        return node


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name
