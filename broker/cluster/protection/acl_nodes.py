"""The ACLs of a cluster in ZooKeeper, stored and followed as Kafka's brokers do.

Each resource pattern has a node with all its ACLs. A write is conditional on the version that was
read; if the node has changed, it is read again. After a write, a notification node informs the
other brokers. ACLs that this broker can't parse are logged and stay in the node. Source: Kafka 3.9
``AclAuthorizer``, ``ZkAclStore``.

A node may have 1 MB, which is thousands of ACLs. Large nodes are decoded and encoded in a thread,
and their ACLs are applied in slices. Concurrent reads of a node may finish in any order; the read
that ZooKeeper answered last takes effect.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final

import structlog

from broker.cluster.protection.followed_nodes import FollowedNodes, Spawn
from broker.cluster.zookeeper.zookeeper import (
    BadVersion,
    NodeExists,
    NoNode,
    ZooKeeper,
    ZooKeeperError,
    children_of,
    ensure_path,
    in_time,
    slices,
)
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.time import Time
from protocol.znodes import acls
from protocol.znodes.acls import Place
from protocol.znodes.fields import BadNode
from security.acls.index import AclIndex
from security.acls.model import AclEntry, Pattern, PatternType, spelled
from security.acls.text import entry_of, json_of, type_of

logger = structlog.get_logger(__name__)

ATTEMPTS: Final = 10
"""The maximum number of attempts to change a node while other brokers change the same node. The
number is Kafka's."""
AGAIN_S: Final = (0.05, 0.2)
"""The bounds in seconds of the random pause between two attempts, so that two brokers do not
collide again."""
AT_ONCE: Final = 200
"""The maximum number of ACLs of a node that the event loop's thread decodes or encodes, which takes
less than 1 ms. For a node with more ACLs, another thread does this work."""
ENTRY_BYTES: Final = 100
"""The approximate size of one ACL in a node, in bytes."""

Understood = tuple[frozenset[AclEntry], list[acls.Entry]]


class ZooKeeperAcls:
    """Implements `AclStore` with ZooKeeper. Only the event loop's thread may use this class."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        time: Time,
        spawn: Spawn,
        errors: InternalErrors,
        slicer: Slicer,
        *,
        has_prefixes: bool = True,
    ) -> None:
        """``has_prefixes`` is True if all brokers of the cluster support prefixed ACLs."""
        self.index = AclIndex()
        """The index of all ACLs that this broker can parse."""
        self._zookeeper = zookeeper
        self._time = time
        self._slicer = slicer
        self._has_prefixes = has_prefixes
        self._known: dict[Place, frozenset[AclEntry]] = {}
        self._taking = asyncio.Lock()
        self._answers = count()
        self._taken: dict[Place, int] = {}
        """By resource pattern: the number of the last ZooKeeper response that was applied. While
        several reads are in progress, an older response must not replace a newer one."""
        self._under_way = 0
        self._nodes = FollowedNodes(
            zookeeper,
            time,
            spawn,
            errors,
            "access control entries",
            acls.TREES.values(),
            acls.CHANGES.values(),
            self._read_all,
            self._handle,
        )

    async def open(self) -> None:
        """Reads all ACLs, and starts to follow their changes. Raises ZooKeeperError."""
        await self._nodes.open()

    def stop(self) -> None:
        self._nodes.stop()

    # -- reading

    async def _handle(self, path: str, data: bytes) -> None:
        place = acls.decode_change(path, data)
        if not self._nodes.unread:  # otherwise a read of all nodes follows
            await self._read(place)

    async def _read_all(self) -> None:
        gone = {*self._known}
        for pattern_type, tree in acls.TREES.items():
            for kind in acls.TYPES:
                names = await children_of(self._zookeeper, f"{tree}/{kind}")
                for some in slices(names):
                    places = [Place(kind, name, pattern_type) for name in some]
                    gone.difference_update(places)
                    await asyncio.gather(*map(self._read, places))
        for place in gone:
            with self._order():
                await self._take(place, frozenset(), next(self._answers))

    async def _read(self, place: Place) -> None:
        with self._order():
            await self._read_in_order(place)

    async def _read_in_order(self, place: Place) -> None:
        try:
            data, _ = await self._zookeeper.get(place.path)
        except NoNode:
            data = b""
        answer = next(self._answers)
        try:
            known, strange = await self._understood(place, data)
        except BadNode as error:
            # The known entries remain, because one of them may deny something.
            logger.error("ACLs can't be read from ZooKeeper", reason=str(error))
            return
        if strange:
            logger.error(
                "ACLs can't be parsed, ignored",
                path=place.path,
                entries=len(strange),
            )
        await self._take(place, known, answer)

    @contextmanager
    def _order(self) -> Iterator[None]:
        """Returns a context manager for one read of ACL nodes. While several such reads of the same
        node are in progress, the result of an older read does not replace that of a newer one."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._taken.clear()

    async def _understood(self, place: Place, data: bytes) -> Understood:
        """Parses the ACLs of a node; a large node is parsed in a thread. Raises BadNode."""
        if len(data) <= AT_ONCE * ENTRY_BYTES:
            return _understood(place, data)
        return await self._time.in_thread(_understood, place, data)

    async def _take(self, place: Place, entries: frozenset[AclEntry], answer: int) -> None:
        """Replaces the cached ACLs of a resource pattern by ``entries``, which the response with
        the number ``answer`` contained. Does nothing if a later response was already applied."""
        async with self._taking:
            if self._taken.get(place, -1) > answer:
                return
            self._taken[place] = answer
            # The pattern is listed before the slices begin: a read of all nodes removes the listed
            # patterns that it does not find.
            before = self._known.setdefault(place, frozenset())
            now = set(before)
            work = self._slicer.work("access control entries")
            try:
                for entry in before - entries:
                    self.index.remove(entry)
                    now.discard(entry)
                    if work.over:
                        await work.pause()
                for entry in entries - before:
                    self.index.add(entry)
                    now.add(entry)
                    if work.over:
                        await work.pause()
            finally:  # the caller may be cancelled during a pause
                work.end()
                self._known[place] = frozenset(now)
                if not now:
                    del self._known[place]

    # -- changes

    async def change(
        self, added: Sequence[AclEntry], removed: Sequence[AclEntry]
    ) -> Mapping[AclEntry, str]:
        wanted: dict[Pattern, dict[AclEntry, bool]] = defaultdict(dict)
        for entries, is_there in ((added, True), (removed, False)):
            for entry in entries:
                wanted[entry.pattern][entry] = is_there
        failed: dict[AclEntry, str] = {}
        for some in slices(wanted.items()):
            reasons = await asyncio.gather(*[self._change(*each) for each in some])
            for (_, changes), reason in zip(some, reasons, strict=True):
                if reason is not None:
                    failed.update(dict.fromkeys(changes, reason))
        return failed

    async def _change(self, pattern: Pattern, wanted: Mapping[AclEntry, bool]) -> str | None:
        """Adds and removes ACLs of one resource pattern. Returns None, or the reason if the change
        failed."""
        if not acls.fits_a_path(pattern.name):
            return f"ZooKeeper can't have a node of this name: {pattern.name[:100]!r}"
        if pattern.pattern_type == PatternType.PREFIXED and not self._has_prefixes:
            return "prefixed ACLs need inter.broker.protocol.version=2.0 or later"
        place = Place(spelled(pattern.resource_type), pattern.name, pattern.pattern_type.name)
        try:
            with self._order():
                await in_time(self._time, self._change_node(place, wanted))
        except (ZooKeeperError, BadNode) as error:
            return str(error)
        return None

    async def _change_node(self, place: Place, wanted: Mapping[AclEntry, bool]) -> None:
        for attempt in range(ATTEMPTS):
            try:
                data, stat = await self._zookeeper.get(place.path)
                version: int | None = stat.version
            except NoNode:
                data, version = b"", None
            answer = next(self._answers)
            known, strange = await self._understood(place, data)
            after = {each for each in known if wanted.get(each, True)}
            after |= {each for each, is_there in wanted.items() if is_there}
            if after != known and not await self._written(place, strange, after, version):
                await self._time.sleep(self._time.chance.uniform(*AGAIN_S))
                continue
            if after != known:
                answer = next(self._answers)
            if after != known or attempt:  # an earlier attempt may have been applied
                notice = acls.encode_change(place)
                await self._zookeeper.create(place.notice_path, notice, sequence=True)
            await self._take(place, frozenset(after), answer)
            return
        raise ZooKeeperError(f"{place.path} was changed concurrently too often: try again")

    async def _written(
        self, place: Place, strange: list[acls.Entry], after: set[AclEntry], version: int | None
    ) -> bool:
        """Writes the ACLs of a resource pattern into the node of the pattern. ``version`` is the
        version of the node that was read. Returns False, and writes nothing, if the node has
        another version now."""
        if len(after) <= AT_ONCE:
            data = _node(strange, after)
        else:
            data = await self._time.in_thread(_node, strange, after)
        try:
            if version is None:
                # The path is not created earlier: Kafka before 0.11 does not start if it finds an
                # unknown type.
                await ensure_path(self._zookeeper, place.path.rpartition("/")[0])
                await self._zookeeper.create(place.path, data)
            elif after or strange:
                await self._zookeeper.set(place.path, data, version)
            else:
                await self._zookeeper.delete(place.path, version)
        except (BadVersion, NodeExists, NoNode):
            return False
        return True


def _node(strange: Sequence[acls.Entry], entries: Iterable[AclEntry]) -> bytes:
    """Returns the data of a resource pattern's node: the ACLs that this broker can't parse, and
    ``entries``."""
    return acls.encode_entries([*strange, *map(json_of, sorted(entries))])


def _understood(place: Place, data: bytes) -> Understood:
    """Splits the ACLs of a node into those that this broker can parse, and those that it can't.
    Raises BadNode."""
    entries = acls.decode_entries(place.path, data)
    pattern = Pattern(type_of(place.resource_type), place.name, PatternType[place.pattern_type])
    known, strange = set(), []
    for each in entries:
        try:
            known.add(entry_of(pattern, each))
        except ValueError:
            strange.append(each)
    return frozenset(known), strange
