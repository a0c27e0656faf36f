"""One scan for each scrape: it passes all groups, committed offsets, members, transactional ids and
topics to the objects that write the series (views).

A broker may have hundreds of thousands of groups or offsets, and handles no requests during a step
of the scan. So the scan works in bounded steps. One view is in labelled_series.py. The views in
other_exporters.py are used if the setting ``metrics.compat`` names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from broker.cores.groups.runtime import HostedGroups
from broker.metrics.lag import BLOCK, MemberLag, PartitionLag, TopicPartition
from broker.metrics.sources import Sources
from broker.topics.partition import Partition
from broker.topics.topic_logs import TopicLogs
from coordinator.classic.states import State
from coordinator.consumer.states import ConsumerGroupState
from coordinator.read_only import GroupView, MemberView
from coordinator.streams.states import StreamsGroupState
from protocol.consumer_protocol import CONSUMER
from protocol.errors import NONE
from transactions.states import State as TransactionState

STEP = BLOCK
"""The maximum number of offsets, members or partitions that one step scans."""
LOOKUP_S_MAX = 1.0
"""The maximum time in seconds for which a scrape waits for lookups of record ages. The scrape omits
the ages that are unknown after this time."""
ASSIGNMENT_BYTES_MAX = 64 * 1024
"""The maximum length in bytes of an assignment that is read. It is enough for about 16,000
partitions.

The lag of a member with a longer assignment is omitted.
"""


class Seen(NamedTuple):
    """A group that the scan passes to views. ``group`` is None if the group has only committed
    offsets."""

    hosted: HostedGroups
    group_id: str
    group: GroupView | None


def is_led(partition: Partition) -> bool:
    """Returns True if this broker leads the partition. Only the leader exports the end offset of a
    partition."""
    return partition.serving_error(-1) == NONE


class View:
    """Writes the series of the groups and topics that a scan passes to it. A view overrides the
    methods that it needs."""

    def begin_group(self, seen: Seen) -> None:
        """Called before the scan passes the committed offsets and the members of a group to the
        view."""

    def offsets(
        self, lags: Sequence[PartitionLag], owners: dict[TopicPartition, MemberView]
    ) -> None:
        """Called with the lags of some committed offsets of the group; all of them are in one
        topic. ``owners`` has the owner of each partition. It is empty if no view of the scan needs
        the owners."""

    def end_topic(self, topic: str) -> None:
        """The scan calls this method at the end of a topic, when it has passed all committed
        offsets of the group in ``topic`` to `offsets`."""

    def members(self, lags: Sequence[MemberLag]) -> None:
        """Called with some members of the group that was passed to `begin_group`."""

    def end_group(self) -> None:
        """Called at the end of a group, after all calls with its committed offsets and members."""

    def partitions(self, entry: TopicLogs, partitions: Sequence[Partition]) -> None:
        """Receives some of the partitions of a topic. The scan passes the partitions of a topic
        before it passes the topic itself."""

    def topic(self, entry: TopicLogs) -> None:
        """Called with a topic, after `partitions` was called with all its partitions."""


class Scan:
    """Passes all groups and topics to ``views``, and counts them."""

    def __init__(self, sources: Sources, views: Sequence[View], with_owners: bool = False) -> None:
        self.sources = sources
        self.views = views
        self.with_owners = with_owners
        self.states: Counter[str] = Counter(
            {state.value: 0 for state in (*State, *ConsumerGroupState, *StreamsGroupState)}
        )
        """The number of groups by state."""
        self.classic_states: Counter[str] = Counter({state.value: 0 for state in State})
        """The number of classic groups by state."""
        self.everybody = 0
        """The number of members of all groups."""
        self.assignments_left_out = 0
        """The number of members whose assignment was not read, because it is longer than
        ASSIGNMENT_BYTES_MAX."""
        self.poisoned = 0
        """The number of poisoned logs, which accept no writes."""
        self.transactions: Counter[str] = Counter(
            {state.wire_name: 0 for state in TransactionState if state is not TransactionState.DEAD}
        )
        """The number of transactional ids by state."""
        self.oldest_open_ms: int | None = None
        """The wall time in ms at which the oldest open transaction began; None if no transaction is
        open."""
        self.held_since_ms: list[int] = []
        """For each partition whose last stable offset is held back: the wall time in ms since which
        it has been held back."""
        self.producers = 0
        """The number of producer states in all partitions."""
        self._late: list[Seen] = []
        """The groups for which the ages of unread records are still being looked up."""

    async def run(self) -> None:
        """Scans all groups and topics, in slices.

        Changes during the scan may be included or not. A group whose first unread record has an
        unknown age is scanned last, after the lookup of this age or after LOOKUP_S_MAX.
        """
        await self.in_slices(self.steps())
        if self._late:
            with suppress(TimeoutError):
                async with self.sources.time.real.within(LOOKUP_S_MAX):
                    await self.sources.lags.times.settled()
            await self.in_slices(self.late_steps())

    async def in_slices(self, steps: Iterator[int]) -> None:
        slices = self.sources.slicer.work("/metrics")
        await slices.through(steps)
        slices.end()

    def late_steps(self) -> Iterator[int]:
        """Scans again, in steps, each group whose first scan found records of unknown age. Passes
        the results to each `View` in ``views``, without the ages that are still unknown."""
        for seen in self._late:
            yield from self._group(seen, late=True)

    def steps(self) -> Iterator[int]:
        """Scans all groups and topics. After each step, yields the number of elements of the step:
        at most STEP, or all elements of one member."""
        for hosted in list(self.sources.groups.hosted_shards):
            alone = [
                each
                for each in hosted.core.view.offsets.groups()
                if each not in hosted.core.view.groups
            ]
            yield 1
            for group in list(hosted.core.view.groups.values()):
                self.states[group.state.value] += 1
                if isinstance(group.state, State):
                    self.classic_states[group.state.value] += 1
                self.everybody += len(group.members)
                yield from self._group(Seen(hosted, group.group_id, group))
            for group_id in alone:
                yield from self._group(Seen(hosted, group_id, None))
        yield from self._transactions()
        for entry in list(self.sources.logs.topics.values()):
            yield from self._topic(entry)

    def _transactions(self) -> Iterator[int]:
        yield from self.sources.lso_blockers.refresh()
        for hosted in list(self.sources.transactions.hosted_shards):
            view = hosted.core.view
            known = list(view.transactions.values())
            for start in range(0, len(known), STEP):
                some = known[start : start + STEP]
                self.transactions.update([each.state.wire_name for each in some])
                yield len(some)
            first = next(view.open(), None)
            opened = None if first is None else view.get(first)
            if opened is not None:
                began_ms = self.oldest_open_ms
                if began_ms is None or opened.start_ms < began_ms:
                    self.oldest_open_ms = opened.start_ms
            yield 1

    def _group(self, seen: Seen, late: bool = False) -> Iterator[int]:
        lags = self.sources.lags
        blocks: list[tuple[str, list[list[PartitionLag]]]] = []
        for topic in list(seen.hosted.core.view.offsets.topics(seen.group_id)):
            of_topic: list[list[PartitionLag]] = []
            blocks.append((topic, of_topic))
            for block in lags.blocks_or_none(
                seen.hosted, seen.group_id, topic, ask=False, whole=late
            ):
                if block is None:
                    yield from lags.ask(seen.hosted, seen.group_id)
                    self._late.append(seen)
                    return
                of_topic.append(block)
                yield len(block)
        views = self.views
        for view in views:
            view.begin_group(seen)
        members = self._readable_members(seen.group)
        owners: dict[TopicPartition, MemberView] = {}
        if self.with_owners and seen.group is not None:
            for member in members:
                for topic, partitions in (lags.owned_by(seen.group, member) or {}).items():
                    owners.update(((topic, each), member) for each in partitions)
                yield 1
        for topic, of_topic in blocks:
            for block in of_topic:
                for view in views:
                    view.offsets(block, owners)
                yield len(block)
            for view in views:
                view.end_topic(topic)
        if seen.group is not None and members:
            yield from self._members(seen.group, members, blocks)
        for view in views:
            view.end_group()
        yield 1

    def _members(
        self,
        group: GroupView,
        members: Sequence[MemberView],
        blocks: Sequence[tuple[str, Sequence[Sequence[PartitionLag]]]],
    ) -> Iterator[int]:
        found: dict[str, dict[int, PartitionLag]] = {}
        for topic, of_topic in blocks:
            lags = found[topic] = {}
            for block in of_topic:
                lags.update([(lag.partition, lag) for lag in block])
                yield len(block)
        for member in members:
            lag = self.sources.lags.of_member(group, member, found)
            if lag is not None:
                for view in self.views:
                    view.members((lag,))
            yield 1

    def _readable_members(self, group: GroupView | None) -> list[MemberView]:
        if group is None or group.protocol_type != CONSUMER:
            return []
        members = list(group.members.values())
        short = [each for each in members if len(each.assignment) <= ASSIGNMENT_BYTES_MAX]
        self.assignments_left_out += len(members) - len(short)
        return short

    def _topic(self, entry: TopicLogs) -> Iterator[int]:
        for start in range(0, len(entry.partitions), STEP):
            partitions = entry.partitions[start : start + STEP]
            self.poisoned += sum([each.log.poisoned is not None for each in partitions])
            self.producers += sum([len(each.log.producers) for each in partitions])
            for each in partitions:
                if each.log.producers.open_transactions and is_led(each):
                    blocker = self.sources.lso_blockers.of(each)
                    if blocker is not None:
                        self.held_since_ms.append(blocker.since_ms)
            for view in self.views:
                view.partitions(entry, partitions)
            yield len(partitions)
        for view in self.views:
            view.topic(entry)
        yield 1
