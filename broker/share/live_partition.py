"""A share partition of a log that this broker leads, in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.topics.long_poll import LongPolls, Waiter
from broker.topics.partition import NEVER, Partition
from protocol.errors import NONE
from share.values import SharePartitionKey

if TYPE_CHECKING:
    from share.partition.settings import ShareSettings
    from share.partition.share_partition import SharePartition


class LivePartition:
    """A share partition: its state once it is loaded, and the requests that wait for it."""

    __slots__ = (
        "deleted", "due_ms", "error_code", "error_message", "is_contended", "is_dropped",
        "is_reading", "key", "leader_epoch", "limits", "loaded", "loaded_ms", "partition",
        "retry_ms", "share", "used_ms", "waiting", "writes",
    )  # fmt: skip

    def __init__(self, key: SharePartitionKey, partition: Partition, now_ms: int) -> None:
        self.key = key
        self.partition = partition
        """The log partition."""
        self.leader_epoch = partition.leader_epoch
        self.limits: ShareSettings | None = None
        """The settings that the state uses."""
        self.share: SharePartition | None = None
        """The state; None before it is loaded."""
        self.error_code = NONE
        """The reason why the state can't be loaded."""
        self.error_message: str | None = None
        self.loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when ``share`` or ``error_code`` is set."""
        self.is_reading = False
        """True while a ShareFetch reads the log; other requests wait, since they would acquire the
        same records."""
        self.is_contended = False
        """True if another request has found the share partition locked."""
        self.waiting: dict[Waiter, None] = {}
        """The requests that wait for records of this share partition."""
        self.writes = 0
        """The number of changes that are not stored yet."""
        self.due_ms = NEVER
        """The time (monotonic ms) at which locks are checked next."""
        self.retry_ms = 0
        """After a failed write, the time before which locks are not checked."""
        self.loaded_ms = now_ms
        """The time (monotonic ms) at which the load began; earlier deliveries are not known."""
        self.deleted: tuple[int, int] | None = None
        """The offsets that the last move of the log start offset has dropped, both included."""
        self.used_ms = now_ms
        """The time (monotonic ms) of the last request."""
        self.is_dropped = False
        """True if the object is not in use any more: another object may have the same key."""

    @property
    def ready(self) -> SharePartition:
        """Returns the state of a loaded share partition."""
        assert self.share is not None
        return self.share

    def is_idle(self, before_ms: int) -> bool:
        """Returns whether no request has used the share partition since ``before_ms``, and nothing
        in memory would be lost."""
        return (
            self.used_ms < before_ms
            and self.share is not None
            and not (self.waiting or self.is_reading or self.writes)
            and self.share.next_deadline() is None
        )

    def follow_log_start(self) -> None:
        """Drops the records that retention or DeleteRecords has deleted."""
        log_start_offset = self.partition.log.log_start_offset
        if log_start_offset > self.ready.start_offset:
            self.deleted = (self.ready.start_offset, log_start_offset - 1)
            self.ready.log_start_moved(log_start_offset)

    def configure(self, limits: ShareSettings) -> None:
        """Applies the current settings of the group."""
        if limits != self.limits:
            self.limits = limits
            self.ready.configure(limits)

    def wake(self, long_polls: LongPolls) -> None:
        """Makes the waiting requests read again at the end of the turn."""
        for waiter in self.waiting:
            long_polls.wake(waiter)
