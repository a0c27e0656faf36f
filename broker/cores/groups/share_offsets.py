"""Reads, sets and deletes the start offsets of share groups, for administrators.

To set or delete start offsets, the group coordinator first writes a record. When this record is
stable, this module calls the share coordinator, and then passes the result to the group
coordinator. Because of this order, the group's log never shows a state as initialized that the
share coordinator has already deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol

from broker.cores.groups.runtime import GroupRuntime
from broker.cores.hosted_shard import Phase
from coordinator.outcome import Outcome
from coordinator.shard import GroupShard
from protocol.errors import NONE
from protocol.now import Now
from share.persister.calls import (
    Call,
    DeleteState,
    InitializeState,
    ReadStateSummary,
    StateReply,
)
from share.values import SharePartitionKey


class Persister(Protocol):
    """The share coordinator, with the only method that this module calls."""

    def submit(self, call: Call) -> None:
        """Submits a call. Its ticket gets a `StateReply`, possibly before this method returns."""


Replies = dict[SharePartitionKey, StateReply]


class ShareOffsets:
    """Reads and changes the start offsets of share groups. Only the event loop's thread may use
    this class."""

    def __init__(self, persister: Persister, groups: GroupRuntime) -> None:
        self._persister = persister
        self._groups = groups

    def summarize(self, keys: Collection[SharePartitionKey]) -> asyncio.Future[Replies]:
        """Returns the states of share partitions, without their state batches."""
        return self._each(keys, lambda ticket, key: ReadStateSummary(ticket, key, -1))

    def initialize(
        self, group_id: str, state_epoch: int, offsets: Mapping[SharePartitionKey, int]
    ) -> asyncio.Future[Replies]:
        """Sets the start offsets of a group's share partitions. Then reports to the group which
        states are initialized."""

        def make(ticket: _Ticket, key: SharePartitionKey) -> Call:
            return InitializeState(ticket, key, state_epoch, offsets[key])

        def report(core: GroupShard, topics: dict[bytes, tuple[int, ...]], now: Now) -> Outcome:
            return core.share_state_initialized(group_id, topics, now)

        return self._each(offsets, make, partial(self._report, group_id, report))

    def delete(self, group_id: str, keys: Collection[SharePartitionKey]) -> asyncio.Future[Replies]:
        """Deletes the states of a group's share partitions. Then reports to the group the topics of
        which all states are deleted."""

        def report(core: GroupShard, topics: dict[bytes, tuple[int, ...]], now: Now) -> Outcome:
            return core.share_state_deleted(group_id, topics.keys(), now)

        def done(replies: Replies) -> None:
            failed = {key.topic_id for key, reply in replies.items() if reply.error_code}
            deleted = {key: each for key, each in replies.items() if key.topic_id not in failed}
            self._report(group_id, report, deleted)

        return self._each(keys, DeleteState, done)

    def _each(
        self,
        keys: Collection[SharePartitionKey],
        make: Callable[[_Ticket, SharePartitionKey], Call],
        done: Callable[[Replies], None] | None = None,
    ) -> asyncio.Future[Replies]:
        """Makes one call for each share partition. When all replies have arrived, calls ``done``
        with the replies, and then completes the returned future with them."""
        future: asyncio.Future[Replies] = asyncio.get_running_loop().create_future()
        replies: Replies = {}
        wanted = len(keys)

        def take(key: SharePartitionKey, reply: StateReply) -> None:
            replies[key] = reply
            if len(replies) == wanted:
                end()

        def end() -> None:
            if done is not None:
                done(replies)
            if not future.done():
                future.set_result(replies)

        if not keys:
            end()
        for key in keys:
            self._persister.submit(make(_Ticket(partial(take, key)), key))
        return future

    def _report(
        self,
        group_id: str,
        report: Callable[[GroupShard, dict[bytes, tuple[int, ...]], Now], Outcome],
        replies: Replies,
    ) -> None:
        """Reports the successful replies of the share coordinator to the shard of the group.

        A shard that is not active gets no report. It requests the initialization or deletion of the
        states again later.
        """
        topics: dict[bytes, tuple[int, ...]] = {}
        for key, reply in replies.items():
            if reply.error_code == NONE:
                topics[key.topic_id] = (*topics.get(key.topic_id, ()), key.partition)
        hosted = self._groups.hosted_for(group_id)
        if topics and hosted is not None and hosted.phase is Phase.ACTIVE:
            now = self._groups.time.now()
            self._groups.life.work(hosted, partial(report, hosted.core, topics, now))


class _Ticket:
    """A ticket that passes its reply to a function."""

    __slots__ = ("take",)

    def __init__(self, take: Callable[[StateReply], None]) -> None:
        self.take = take
