"""ISR changes that leaders write to ZooKeeper themselves (inter.broker.protocol.version before
2.7-IV2).

A leader sets the partition's ``state`` node, on condition that the node has the version that the
leader knows. A notification node makes the controller read the state. Changes within 5 s share one
notification, which is written at most a minute after a change.
"""

from __future__ import annotations

from asyncio import CancelledError, Event, Task, gather
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from broker.cluster.lines import PartitionLines
from broker.cluster.replicas.isr_change import AGAIN_S, IsrChange, Place, wanted_change
from broker.cluster.zookeeper.zookeeper import BadVersion, Closed, NoNode, SessionExpired, ZooKeeper
from broker.time import Time
from broker.topics.replicas.replica_services import LedPartition
from protocol.errors import (
    INVALID_UPDATE_VERSION,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.znodes.fields import BadNode
from protocol.znodes.notices import ISR_CHANGE, encode_isr_change
from protocol.znodes.topics import StateNode, decode_state, encode_state, state_path

logger = structlog.get_logger(__name__)

LOOK_S = 2.5
"""The interval in seconds at which the broker checks whether an ISR change notification must be
written."""
QUIET_MS = 5_000
"""A notification of ISR changes is written when no further ISR change has followed for this number
of ms."""
NOTICE_MS_MAX = 60_000
"""The maximum time in ms by which further ISR changes can delay the notification of a change."""

Spawn = Callable[[Coroutine[Any, Any, None], str], Task[None]]


class IsrStates:
    """Implements `IsrWriter` with writes to ZooKeeper. Only the event loop's thread may use this
    class."""

    def __init__(self, zookeeper: ZooKeeper, time: Time, spawn: Spawn) -> None:
        self._zookeeper = zookeeper
        self._time = time
        self._spawn = spawn
        self._wanted: dict[Place, IsrChange] = {}
        self._news = Event()
        self._tasks: list[Task[None]] = []
        self._changed: dict[Place, None] = {}
        """The changed partitions that no notification has named yet."""
        self._changed_ms = self._noticed_ms = 0
        self._lines = PartitionLines()

    def start(self) -> None:
        self._tasks += [
            self._spawn(self._write_all(), "in-sync replicas"),
            self._spawn(self._notify(), "notices of in-sync replicas"),
        ]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def wanted(self, partition: LedPartition, isr: tuple[int, ...], expected_epoch: int) -> None:
        change = wanted_change(partition, isr, expected_epoch)
        self._wanted[change.place] = change
        self._news.set()

    # -- states

    async def _write_all(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                while self._wanted:
                    changes = [each for each in self._wanted.values() if each.holds]
                    self._wanted.clear()
                    written = await gather(*[self._write(each) for each in changes])
                    self._lines.write()
                    for change, is_known in zip(changes, written, strict=True):
                        if not is_known:
                            self._wanted.setdefault(change.place, change)
                    if not all(written):
                        await self._time.sleep(AGAIN_S)
        except (CancelledError, Closed):
            pass

    async def _write(self, change: IsrChange) -> bool:
        """Writes the state of one partition. Returns False if it is unknown whether the write was
        applied."""
        state = change.partition.state
        assert state is not None
        node = StateNode(state.leader, state.leader_epoch, change.isr, state.controller_epoch)
        path = state_path(*change.place)
        try:
            try:
                stat = await self._zookeeper.set(path, encode_state(node), change.expected_epoch)
                version = stat.version
            except BadVersion:
                # An earlier attempt, whose response was lost, may have written this state.
                data, stat = await self._zookeeper.get(path)
                if decode_state(*change.place, data) != node:
                    change.decided(self._lines, INVALID_UPDATE_VERSION)
                    return True
                version = stat.version
        except NoNode:
            change.decided(self._lines, UNKNOWN_TOPIC_OR_PARTITION)
        except BadNode as error:
            logger.error("partition state can't be read from ZooKeeper", reason=str(error))
            change.decided(self._lines, INVALID_UPDATE_VERSION)
        except SessionExpired:
            return False
        except Closed:
            raise
        except Exception:  # a bug of ours: the other changes continue (law 10)
            logger.exception("ISR change can't be written to ZooKeeper", path=path)
            return False
        else:
            self._changed[change.place] = None
            self._changed_ms = self._time.now().mono_ms
            change.decided(self._lines, NONE, version)
        return True

    # -- notices

    async def _notify(self) -> None:
        try:
            while True:
                await self._time.sleep(LOOK_S)
                now_ms = self._time.now().mono_ms
                if self._changed and (
                    now_ms - self._changed_ms > QUIET_MS
                    or now_ms - self._noticed_ms > NOTICE_MS_MAX
                ):
                    await self._notice(now_ms)
        except (CancelledError, Closed):
            pass

    async def _notice(self, now_ms: int) -> None:
        places, self._changed = self._changed, {}
        try:
            notice = encode_isr_change(list(places))
            await self._zookeeper.create(ISR_CHANGE, notice, sequence=True)
        except (NoNode, SessionExpired) as error:
            logger.warning("controller can't be notified of an ISR change", reason=str(error))
            self._changed = places | self._changed
            return
        self._noticed_ms = now_ms
