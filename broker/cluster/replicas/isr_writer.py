"""Writes to ZooKeeper the ISR changes that leaders request.

| ``inter.broker.protocol.version`` | writer of the partition's state |
|---|---|
| 2.7-IV2 and newer | the controller, after AlterPartition (KIP-497) |
| older | the leader; a notification makes the controller read the state |

In both cases the write is conditional on the version that the leader knows. `make_isr_writer` makes
the writer before any replica exists.
"""

from __future__ import annotations

from asyncio import CancelledError, Event, Task
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from broker.cluster.lines import PartitionLines, Trouble
from broker.cluster.membership.registration import NO_EPOCH
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peers.controller_peer import ControllerPeer
from broker.cluster.peers.fitting import Value, fitting
from broker.cluster.peers.peer import PeerLost
from broker.cluster.replicas.isr_change import AGAIN_S, IsrChange, Place, wanted_change
from broker.cluster.replicas.isr_states import IsrStates
from broker.cluster.replicas.replication_settings import ReplicationSettings
from broker.cluster.zookeeper.zookeeper import ZooKeeper
from broker.time import Time
from broker.topics.replicas.replica_services import LedPartition
from protocol.errors import NAMES, NONE, NOT_CONTROLLER
from protocol.messages import alter_partition
from protocol.schema import ZERO_UUID

logger = structlog.get_logger(__name__)

DOUBLED_MOST = 3
"""The maximum number of times that the pause after failures is doubled. The longest pause is 400
ms, because producers of the partition may wait for the ISR change."""
_BY_NAME = 1
"""The last version of AlterPartition that identifies topics by name."""

Spawn = Callable[[Coroutine[Any, Any, None], str], Task[None]]


class AlterPartitionWriter:
    """Sends ISR changes to the controller by AlterPartition, one request at a time, until each
    change is accepted or rejected.

    Implements `IsrWriter`. Only the event loop's thread may use this class.
    """

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        cache: MetadataCache,
        controller: ControllerPeer,
        has_topic_ids: bool,
        request_timeout_ms: int,
        time: Time,
        spawn: Spawn,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._cache = cache
        self._controller = controller
        self._has_topic_ids = has_topic_ids
        self._request_timeout_ms = request_timeout_ms
        self._time = time
        self._spawn = spawn
        self._changes: dict[Place, IsrChange] = {}
        self._news = Event()
        self._worker: Task[None] | None = None
        self._trouble = Trouble(time)
        self._lines = PartitionLines()

    def start(self) -> None:
        self._worker = self._spawn(self._work(), "in-sync replicas")

    def stop(self) -> None:
        if self._worker is not None:
            self._worker.cancel()

    def wanted(self, partition: LedPartition, isr: tuple[int, ...], expected_epoch: int) -> None:
        change = wanted_change(partition, isr, expected_epoch)
        self._changes[change.place] = change
        self._news.set()

    async def _work(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                while self._changes:
                    if await self._round_or_not():
                        self._recovered()
                    else:
                        times = max(0, self._trouble.attempts - 1)
                        doubled = AGAIN_S * (1 << min(times, DOUBLED_MOST))
                        await self._time.sleep(doubled)
        except CancelledError:
            pass

    async def _round_or_not(self) -> bool:
        try:
            return await self._round()
        except Exception:  # a bug of ours: all changes are sent again (law 10)
            if self._trouble.is_news():
                logger.exception("ISR change request failed: internal error")
            return False

    async def _round(self) -> bool:
        """Sends all requested changes in one request. Returns False if some changes must be sent
        again."""
        self._changes = {place: each for place, each in self._changes.items() if each.holds}
        if not self._changes:
            return True
        epoch = self._broker_epoch()
        if epoch == NO_EPOCH:
            # Waits for the broker epoch of the next session, because the controller fences the old
            # one.
            return self._not_asked("this broker is not registered in ZooKeeper")
        asked = dict(self._changes)
        try:
            version = await self._controller.version_of(alter_partition.API)
            ids = self._topic_ids(asked) if version > _BY_NAME else {}
            if len(ids) < len({topic for topic, _ in asked}):
                version = min(version, _BY_NAME)
            answer = await self._controller.call(
                alter_partition.API,
                version,
                _request(self._node_id, epoch, asked, ids, version),
                self._request_timeout_ms,
            )
        except PeerLost as lost:
            return self._not_asked(str(lost))
        return self._take(asked, ids, answer)

    def _not_asked(self, reason: str) -> bool:
        """Logs that the controller does not accept ISR changes, unless this was logged recently.
        Always returns False, so that the caller repeats the request."""
        if self._trouble.is_news():
            logger.warning(
                "controller does not accept ISR changes, retrying",
                partitions=len(self._changes),
                attempts=self._trouble.attempts,
                reason=reason,
            )
        return False

    def _recovered(self) -> None:
        if self._trouble.is_over():
            logger.info("controller accepts ISR changes again")

    def _topic_ids(self, asked: dict[Place, IsrChange]) -> dict[str, bytes]:
        if not self._has_topic_ids:
            return {}
        known = {name: self._cache.topics.get(name) for name, _ in asked}
        return {
            name: topic.topic_id
            for name, topic in known.items()
            if topic is not None and topic.topic_id is not None
        }

    def _take(self, asked: dict[Place, IsrChange], ids: dict[str, bytes], answer: Value) -> bool:
        found = _errors(answer, {topic_id: name for name, topic_id in ids.items()})
        codes = {answer["error_code"], *[code for code, _ in found.values()]}
        if NOT_CONTROLLER in codes:
            self._controller.look_again()
            return self._not_asked("the broker that received the request is not the controller")
        error_code = answer["error_code"]
        if error_code != NONE:
            return self._not_asked(f"the controller returned {NAMES.get(error_code, error_code)}")
        self._recovered()
        for place, change in asked.items():
            if self._changes.get(place) is not change or place not in found:
                continue
            del self._changes[place]
            change.decided(self._lines, *found[place])
        self._lines.write()
        return not self._changes


def _request(
    node_id: int,
    broker_epoch: int,
    asked: dict[Place, IsrChange],
    ids: dict[str, bytes],
    version: int,
) -> Value:
    topics: dict[str, list[Value]] = {}
    for (topic, index), change in asked.items():
        entry = {
            "partition_index": index,
            "leader_epoch": change.leader_epoch,
            "new_isr": list(change.isr),
            "new_isr_with_epochs": [{"broker_id": each} for each in change.isr],
            "leader_recovery_state": 0,
            "partition_epoch": change.expected_epoch,
        }
        topics.setdefault(topic, []).append(entry)
    value = {
        "broker_id": node_id,
        "broker_epoch": broker_epoch,
        "topics": [
            {"topic_name": name, "topic_id": ids.get(name, ZERO_UUID), "partitions": partitions}
            for name, partitions in topics.items()
        ],
    }
    return fitting(alter_partition.API.request, version, value)


def _errors(answer: Value, names: dict[bytes, str]) -> dict[Place, tuple[int, int]]:
    """Returns the error code and the partition epoch of each partition in the response."""
    return {
        (topic["topic_name"] or names.get(topic["topic_id"], ""), each["partition_index"]): (
            each["error_code"],
            each["partition_epoch"],
        )
        for topic in answer["topics"]
        for each in topic["partitions"]
    }


def make_isr_writer(
    settings: ReplicationSettings,
    cache: MetadataCache,
    controller: ControllerPeer,
    zookeeper: ZooKeeper,
    broker_epoch: Callable[[], int],
    time: Time,
    spawn: Spawn,
) -> AlterPartitionWriter | IsrStates:
    """Returns the `IsrWriter` for the cluster's inter-broker protocol version."""
    if not settings.spoken.has_alter_partition:
        return IsrStates(zookeeper, time, spawn)
    return AlterPartitionWriter(
        settings.node_id,
        broker_epoch,
        cache,
        controller,
        settings.spoken.has_topic_ids,
        settings.request_timeout_ms,
        time,
        spawn,
    )
