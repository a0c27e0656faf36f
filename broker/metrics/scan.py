"""One pass over all groups, their offsets and members, transactions and topics, for a scrape.

A broker may have hundreds of thousands of them, and answers no request during a step. The scan
takes steps of bounded work and passes each thing to its views, which write the series: the views of
labelled_series.py, and of other_exporters.py if ``metrics.compat`` names them.
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
from coordinator.read_only import GroupView, MemberView
from protocol.consumer_protocol import CONSUMER
from protocol.errors import NONE
from transactions.states import State as TransactionState

STEP = BLOCK
"""Offsets, members or partitions in one step at most."""
LOOKUP_S_MAX = 1.0
"""How long a scrape waits for lookups of record ages; ages found later are omitted."""
ASSIGNMENT_BYTES_MAX = 64 * 1024
"""The lag of a member with a longer assignment (16,000 partitions) is omitted."""


class Seen(NamedTuple):
    """A group in a scan; ``group`` is None if only its offsets exist."""

    hosted: HostedGroups
    group_id: str
    group: GroupView | None


def is_led(partition: Partition) -> bool:
    """True if this broker leads the partition: only the leader exports its end offset."""
    return partition.serving_error(-1) == NONE


class View:
    """Writes series of groups, their offsets and members, and topics, as a scan shows them.

    A view overrides the methods whose series it writes.
    """

    def begin_group(self, seen: Seen) -> None:
        """A group begins."""

    def offsets(
        self, lags: Sequence[PartitionLag], owners: dict[TopicPartition, MemberView]
    ) -> None:
        """Some offsets of the group in one topic; ``owners`` is empty unless a view needs it."""

    def end_topic(self, topic: str) -> None:
        """All offsets in this topic have been shown."""

    def members(self, lags: Sequence[MemberLag]) -> None:
        """Some members of the group."""

    def end_group(self) -> None:
        """All of the group has been shown."""

    def partitions(self, entry: TopicLogs, partitions: Sequence[Partition]) -> None:
        """Some partitions of a topic."""

    def topic(self, entry: TopicLogs) -> None:
        """A topic, after its partitions."""


class Scan:
    """One pass over all groups and topics."""

    def __init__(self, sources: Sources, views: Sequence[View], with_owners: bool = False) -> None:
        self.sources = sources
        self.views = views
        self.with_owners = with_owners
        self.states: Counter[str] = Counter({state.value: 0 for state in State})
        """Groups by state."""
        self.everybody = 0
        """Members of all groups."""
        self.assignments_left_out = 0
        """Members whose assignment was too long to read."""
        self.poisoned = 0
        """Logs that accept no writes."""
        self.transactions: Counter[str] = Counter(
            {state.wire_name: 0 for state in TransactionState if state is not TransactionState.DEAD}
        )
        """Transactional ids by state."""
        self.oldest_open_ms: int | None = None
        """When the oldest open transaction began."""
        self.held_since_ms: list[int] = []
        """Since when each partition that is held back has been held back."""
        self.producers = 0
        """Producer ids that partitions keep state for."""
        self._late: list[Seen] = []
        """Groups that wait for lookups of record ages."""

    async def run(self) -> None:
        """Scan everything, in slices.

        A change during the scan is seen or not. A group that committed since the last scrape needs
        record ages: these are queued, and the group is shown last.
        """
        await self.in_slices(self.steps())
        if self._late:
            with suppress(TimeoutError):
                async with self.sources.time.real.within(LOOKUP_S_MAX):
                    await self.sources.lags.times.settled()
            await self.in_slices(self.late_steps())

    async def in_slices(self, steps: Iterator[int]) -> None:
        """Do steps of such work, in slices."""
        slices = self.sources.slicer.work("/metrics")
        await slices.through(steps)
        slices.end()

    def late_steps(self) -> Iterator[int]:
        """Show the groups that waited; ages that are still unknown are omitted."""
        for seen in self._late:
            yield from self._group(seen, late=True)

    def steps(self) -> Iterator[int]:
        """Scan step by step; yields the size of each step, at most STEP or one member."""
        for hosted in list(self.sources.groups.hosted_shards):
            alone = [
                each
                for each in hosted.core.view.offsets.groups()
                if each not in hosted.core.view.groups
            ]
            yield 1
            for group in list(hosted.core.view.groups.values()):
                self.states[group.state.value] += 1
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
