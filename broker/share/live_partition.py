"""The share partitions in memory, for logs that this broker leads."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from broker.topics.long_poll import LongPolls, Waiter
from broker.topics.partition import NEVER, Partition
from protocol.errors import NONE
from protocol.now import Now
from share.values import SharePartitionKey

if TYPE_CHECKING:
    from share.partition.settings import ShareSettings
    from share.partition.share_partition import SharePartition


class LivePartition:
    """A share partition in memory: its state once it is loaded, and the requests that wait for
    records."""

    __slots__ = (
        "deleted", "due_ms", "error_code", "error_message", "is_contended", "is_dropped",
        "is_reading", "key", "leader_epoch", "limits", "loaded", "loaded_ms", "partition",
        "retry_ms", "share", "used_ms", "waiting", "writes",
    )  # fmt: skip

    def __init__(self, key: SharePartitionKey, partition: Partition, now: Now) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.limits: ShareSettings | None = None
        """The delivery settings in effect; None before the state is loaded."""
        self.share: SharePartition | None = None
        """The state of the share partition; None before it is loaded."""
        self.error_code = NONE
        """The error code with which the load failed; NONE unless the load has failed."""
        self.error_message: str | None = None
        self.loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """A future that is done when ``share`` or ``error_code`` is set."""
        self.is_reading = False
        """True while a ShareFetch request reads the log. Other ShareFetch requests wait, since they
        would acquire the same records."""
        self.is_contended = False
        """True if another ShareFetch request arrived while ``is_reading`` was True."""
        self.waiting: dict[Waiter, None] = {}
        self.writes = 0
        """The number of changes that have been sent to the share coordinator but are not stable
        yet."""
        self.due_ms = NEVER
        """The monotonic time in ms of the next check for expired acquisition locks."""
        self.retry_ms = 0
        """After a failed write, the monotonic time in ms before which acquisition locks are not
        checked."""
        self.loaded_ms = now.wall_ms
        """The wall time in ms at which the load began. Deliveries before this time are unknown."""
        self.deleted: tuple[int, int] | None = None
        """The range of offsets, as its first and last offset, that the share partition dropped at
        the last advance of the log start offset; None before the first advance."""
        self.used_ms = now.mono_ms
        """The monotonic time in ms of the last request."""
        self.is_dropped = False
        """True after the object was removed from `LivePartitions`. Another object may then have the
        same key."""

    @property
    def ready(self) -> SharePartition:
        assert self.share is not None
        return self.share

    def follow_leader_epoch(self, partition: Partition | None) -> bool:
        """Adopts the leader epoch of ``partition``. Returns False if the state in memory may be
        outdated, because the epoch has risen by more than 1: another broker may have been the
        leader. A controller that keeps the leader, for example after the failure of a replica,
        raises the epoch by 1."""
        if partition is not self.partition or partition.serving_error(-1) != NONE:
            return False
        leader_epoch = partition.leader_epoch
        if leader_epoch not in (self.leader_epoch, self.leader_epoch + 1):
            return False
        self.leader_epoch = leader_epoch
        return True

    def is_idle(self, before_ms: int) -> bool:
        """Returns True if the share partition was not used since ``before_ms`` and can be dropped
        without loss."""
        return (
            self.used_ms < before_ms
            and self.share is not None
            and not (self.waiting or self.is_reading or self.writes)
            and not self.share.is_held
        )

    def follow_log_start(self) -> None:
        """Moves the start offset to the log start offset, if retention or DeleteRecords has deleted
        records of this share partition."""
        log_start_offset = self.partition.log.log_start_offset
        if log_start_offset > self.ready.start_offset:
            self.deleted = (self.ready.start_offset, log_start_offset - 1)
            self.ready.log_start_moved(log_start_offset)

    def configure(self, limits: ShareSettings) -> None:
        if limits != self.limits:
            self.limits = limits
            self.ready.configure(limits)

    def wake(self, long_polls: LongPolls) -> None:
        """Makes the waiting ShareFetch requests read the log again at the end of the turn."""
        for waiter in self.waiting:
            long_polls.wake(waiter)


_Log = tuple[str, int]
"""A log partition: topic and partition index."""


class LivePartitions:
    """The share partitions in memory, at most one for each key."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[SharePartitionKey, LivePartition]] = {}
        self._by_log: dict[_Log, dict[LivePartition, None]] = {}

    def __len__(self) -> int:
        return sum([len(each) for each in self._by_group.values()])

    def __iter__(self) -> Iterator[LivePartition]:
        for of_group in self._by_group.values():
            yield from of_group.values()

    def get(self, key: SharePartitionKey) -> LivePartition | None:
        """Returns the share partition of a key; None if it is not in memory."""
        return self._by_group.get(key.group_id, {}).get(key)

    def of_group(self, group_id: str) -> Collection[LivePartition]:
        return self._by_group.get(group_id, {}).values()

    def of_log(self, topic: str, index: int) -> list[LivePartition]:
        return list(self._by_log.get((topic, index), ()))

    def add(self, live: LivePartition) -> None:
        self._by_group.setdefault(live.key.group_id, {})[live.key] = live
        self._by_log.setdefault(_log_of(live), {})[live] = None

    def remove(self, live: LivePartition) -> None:
        if self.get(live.key) is not live:
            return
        of_group = self._by_group[live.key.group_id]
        del of_group[live.key]
        if not of_group:
            del self._by_group[live.key.group_id]
        log = _log_of(live)
        of_log = self._by_log[log]
        del of_log[live]
        if not of_log:
            del self._by_log[log]


def _log_of(live: LivePartition) -> _Log:
    return live.partition.topic, live.partition.index
