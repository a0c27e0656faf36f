"""Collects the facts for a group's verdict from the group's shard, the logs and earlier scans.

The facts are collected in steps, between which the caller can let other work run. One step reads at
most BLOCK partitions, BLOCK members, or the assignment of one member.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from broker.cores.groups.runtime import HostedGroups
from broker.metrics.kind_facts import awaited_facts, member_facts, streams_facts
from broker.metrics.lag import BLOCK, Lags
from broker.metrics.lso_blockers import LsoBlockers
from broker.metrics.progress import Arrivals, Columns, Look, Progress, unread_since
from broker.metrics.record_times import Key
from broker.metrics.topic_look import TopicLook, after_owner, orphaned, owned_alone, without_commit
from broker.share.partitions import SharePartitions
from broker.topics.partition import Partition
from coordinator.classic import heartbeats
from coordinator.classic.member_restarts import Streak
from coordinator.classic.refused_joins import LASTING
from coordinator.group_journal import FLAPPING_CAUSES, GroupJournal
from coordinator.journal import Journal
from coordinator.read_only import GroupView
from protocol.errors import NAMES
from protocol.now import Now
from verdicts.facts import (
    SHARE,
    FencedFacts,
    GroupFacts,
    HoldFacts,
    MemberFacts,
    PartitionFacts,
    RefusedFacts,
    ReturnFacts,
    StreakFacts,
)

if TYPE_CHECKING:
    from broker.metrics.share_looks import ShareLooks

PAUSE_MS = 5_000
"""If the wall clock has advanced by at least this number of ms more than the monotonic clock since
the last scan, the scan assumes that the process was paused."""

Owners = dict[str, dict[int, str]]
"""The member id of the owner of each partition, by topic and partition."""


class GroupLooks:
    """Collects facts about groups, and remembers what the next scan of a group needs."""

    def __init__(
        self,
        lags: Lags,
        journal: Journal,
        lso_blockers: LsoBlockers,
        share_partitions: SharePartitions,
    ) -> None:
        self.progress = Progress()
        self.arrivals = Arrivals()
        self._share_partitions = share_partitions
        self._lags = lags
        self._journal = journal
        self._lso_blockers = lso_blockers
        self._time = lags.time
        self._last = self._time.now()
        """The time at which the last scan of any group started."""
        self._resumed_ms = 0
        """The wall time at which the broker continued after its last pause."""

    @cached_property
    def share(self) -> ShareLooks:
        """The object that collects the facts about share groups. Its module is imported only when
        it is used for the first time."""
        from broker.metrics.share_looks import ShareLooks

        return ShareLooks(self._share_partitions)

    def facts(
        self, hosted: HostedGroups, group: GroupView, lagging_ms: int
    ) -> Generator[int, None, GroupFacts]:
        """Collects the facts about a group in steps, and returns them. Yields the number of
        elements that each step has read."""
        now = self._time.now()
        self._note_pause(now)
        read = self._all_read(hosted, group, lagging_ms, now)
        if read is not None:
            yield read
            facts = yield from self._group(group, [], now)
            return facts._replace(all_read=read)
        owners = yield from self._owners(group)
        partitions: list[PartitionFacts] = []
        looks: dict[str, Look] = {}
        group_id = group.group_id
        committed = list(hosted.core.view.offsets.topics(group_id))
        orphans = [] if group.is_assigned else self.progress.unclaimed(group_id)
        for topic in dict.fromkeys([*committed, *owners, *orphans]):
            look = looks[topic] = self.progress.look(group_id, topic, now.wall_ms)
            found = TopicLook(topic, self._lags.here(topic), owners.get(topic, {}), look)
            found.topic_id = self._lags.topic_id(topic)
            if found.topic_id:
                ends = partial(self._lags.high_watermarks, topic)
                found.marks = self.arrivals.mark(found.topic_id, ends, now.wall_ms, lagging_ms)
            for commits in hosted.core.view.offsets.commits(group_id, topic, BLOCK):
                rows = list(commits)
                partitions += self._committed(group_id, found, rows, now.wall_ms)
                yield len(rows)
            left = orphaned(found) if topic in orphans else owned_alone(found)
            for first in range(0, len(left), BLOCK):
                block = left[first : first + BLOCK]
                for partition in block:
                    at = self._lags.ends(topic, partition, found.here.get(partition), 0, 0)
                    if at is None:
                        continue
                    if topic not in orphans:
                        partitions.append(without_commit(group, found, partition, *at))
                        continue
                    orphan = after_owner(group, found, partition, *at)
                    if orphan is not None and (orphan.has_grown or not committed):
                        partitions.append(orphan)
                yield len(block)
        self.progress.keep(group_id, looks, group.generation_id)
        return (yield from self._group(group, partitions, now))

    def _note_pause(self, now: Now) -> None:
        """Checks whether the process or the machine was paused since the last scan. If so, stores
        the time of the resumption, because clients may not have made progress during the pause."""
        last, self._last = self._last, now
        if (now.wall_ms - last.wall_ms) - (now.mono_ms - last.mono_ms) >= PAUSE_MS:
            self._resumed_ms = now.wall_ms

    def _counts_from(self, group: GroupView, now: Now) -> int | None:
        """Returns the wall time from which the age of the group's state is counted; None if the
        whole age counts.

        Members need time to continue after a start or a long pause of the broker, so the time
        before does not count. An empty group stays empty while the broker does not run, so its
        whole age counts.
        """
        if group.is_empty and group.protocol_type and group.state_timestamp_ms >= 0:
            return None
        return max(self._resumed_ms, now.wall_ms - (now.mono_ms - group.state_since_ms))

    def _all_read(
        self, hosted: HostedGroups, group: GroupView, lagging_ms: int, now: Now
    ) -> int | None:
        """Checks whether a whole scan of the group can be skipped: the group has read all records,
        and its partitions and their owners are the same as at the last scan. Returns the number of
        the group's partitions in this case, otherwise None.

        Most groups pass this check, which costs a tenth of a whole scan.
        """
        offsets = hosted.core.view.offsets
        found: dict[str, Columns] = {}
        for topic in offsets.topics(group.group_id):
            partitions = offsets.partitions(group.group_id, topic)
            here = self._lags.here(topic)
            if len(partitions) > BLOCK or not here:
                return None
            committed = list(offsets.fetch(group.group_id, topic, partitions).offsets)
            ends = partial(self._lags.high_watermarks, topic)
            self.arrivals.mark(self._lags.topic_id(topic), ends, now.wall_ms, lagging_ms)
            there = [each for each in map(here.get, partitions) if each is not None]
            if committed != [each.high_watermark for each in there]:
                return None
            found[topic] = (partitions, committed)
        known = self.progress.unchanged(group.group_id, group.generation_id, found)
        if known is None:
            return None
        for topic, (_, committed) in found.items():
            Look.all_read(known[topic], committed, now.wall_ms)
        return sum([len(partitions) for partitions, _ in found.values()])

    def _owners(self, group: GroupView) -> Generator[int, None, Owners]:
        """Collects the owner of each partition, in steps. Returns an empty dict while the group
        rebalances."""
        owners: Owners = {}
        if not group.is_assigned:
            return owners
        for member in list(group.members.values()):
            for topic, partitions in (self._lags.owned_by(group, member) or {}).items():
                owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member.member_id))
            yield 1
        return owners

    def _committed(
        self,
        group_id: str,
        found: TopicLook,
        rows: Sequence[tuple[int, int, int, int]],
        now_ms: int,
    ) -> list[PartitionFacts]:
        """Returns the facts about the partitions of a topic in which the group has committed
        offsets. ``rows`` has these offsets."""
        late: list[Key] = []
        facts = []
        for partition, offset, committed_ms, _ in rows:
            at = found.here.get(partition)
            start = end = -1
            if at is not None:
                start, end = at.log.log_start_offset, at.high_watermark
            if offset > end:
                ends = self._lags.ends(found.topic, partition, at, offset, committed_ms)
                if ends is None:
                    facts.append(PartitionFacts(found.topic, partition, offset))
                    continue
                start, end = ends
            place = found.look.at(partition, offset, committed_ms, start, end)
            since_ms = timestamp_ms = None
            stands_ms = None if place.stands_ms < 0 else place.stands_ms
            key = (found.topic_id, partition, place.first_unread)
            time = self._lags.times.known(key) if place.first_unread < end else None
            if time is not None and time.none_below >= end:
                # only markers follow: all records are read
                end, stands_ms = place.first_unread, None
            elif place.first_unread < end:
                timestamp_ms = self._timestamp(group_id, key, now_ms)
                since_ms = unread_since(found.marks, place, timestamp_ms, now_ms)
                is_late = since_ms <= found.marks[0].at_ms
                is_here = at is not None and place.first_unread < at.high_watermark
                has_markers = at is not None and len(at.log.producers) > 0  # perhaps only markers
                if is_here and (is_late or has_markers) and (place.is_still or found.is_due):
                    late.append(key)
            if stands_ms is not None and timestamp_ms is not None:
                stands_ms = max(stands_ms, min(timestamp_ms, now_ms))
            facts.append(
                PartitionFacts(
                    found.topic,
                    partition,
                    offset,
                    start,
                    end,
                    committed_ms if committed_ms >= 0 else None,
                    place.moved_ms,
                    stands_ms,
                    since_ms,
                    found.owners.get(partition),
                    hold=None if at is None else self._hold(at, offset),
                )
            )
        if late:
            self._lags.times.ask(group_id, late, found.here, now_ms)
        return facts

    def _hold(self, at: Partition, offset: int) -> HoldFacts | None:
        """Returns the open transaction that blocks a group, or None. A transaction blocks the group
        if the committed ``offset`` of the group is the last stable offset."""
        if not at.log.producers.open_transactions or offset != at.last_stable_offset:
            return None
        blocker = self._lso_blockers.of(at)
        if blocker is None:
            return None
        if blocker.transactional_id is None and not blocker.hangs and not blocker.is_elsewhere:
            return None  # the transactional id will be known soon
        return HoldFacts(
            blocker.transactional_id,
            blocker.producer_id,
            blocker.producer_epoch,
            blocker.start_offset,
            blocker.since_ms,
            blocker.ends_ms,
            blocker.client.client_id or None,
            blocker.client.host or None,
            blocker.is_elsewhere,
        )

    def _timestamp(self, group_id: str, key: Key, now_ms: int) -> int | None:
        """Returns the timestamp of the first unread record; None if it is unknown.

        While the timestamp is still being looked up, returns the timestamp of a record that was the
        first unread record in an earlier scan, if known.
        """
        times = self._lags.times
        time = times.known(key)
        if time is None:
            time, _ = times.before(group_id, key, now_ms)
        return None if time.timestamp_ms < 0 else time.timestamp_ms

    def _group(
        self, group: GroupView, partitions: Sequence[PartitionFacts], now: Now
    ) -> Generator[int, None, GroupFacts]:
        """Collects, in steps, the facts about the group as a whole. Returns them together with
        ``partitions``."""
        journal = self._journal.get(group.group_id)
        losses = [
            each
            for each in (() if journal is None else journal.rebalances)
            if each.cause in FLAPPING_CAUSES
        ]
        awaits = awaited_facts(group, now)
        returns = [] if journal is None else self._returns(journal)
        is_share = group.type == SHARE
        share = (yield from self.share.facts(group.group_id, now)) if is_share else None
        members: list[MemberFacts] = []
        if partitions or awaits is not None or returns or share:
            there = list(group.members.values())
            for first in range(0, len(there), BLOCK):
                block = there[first : first + BLOCK]
                members += [member_facts(group, each, now) for each in block]
                yield len(block)
        return GroupFacts(
            group=group.group_id,
            state=group.state.value,
            state_since_ms=heartbeats.state_since_ms(group, now),
            state_counts_from_ms=self._counts_from(group, now),
            protocol_type=group.protocol_type,
            members=members,
            partitions=partitions,
            subscribed=group.subscribed_topics,
            awaits=awaits,
            returns=returns,
            fenced=() if journal is None else _fenced(journal),
            refused=self.refused(group.group_id),
            rebalances_ms=[each.began_ms for each in losses],
            rebalances_streak=None if journal is None else _streak(journal.flapping),
            last_why=losses[-1].detail if losses else None,
            share=share,
            streams=streams_facts(group),
        )

    def refused(self, group_id: str) -> Sequence[RefusedFacts]:
        """Returns the clients whose JoinGroup requests are rejected because of a setting. The group
        may be unknown."""
        journal = self._journal.get(group_id)
        kept = () if journal is None else journal.rejected
        return [
            RefusedFacts(
                NAMES[each.key.error_code],
                each.key.client_id or None,
                each.key.client_host or None,
                each.since_ms,
                each.last_ms,
                each.times,
                "" if each.last is None else each.last.detail,
            )
            for each in kept
            if each.key.is_join and each.key.error_code in LASTING and not each.is_over
        ]

    def _returns(self, journal: GroupJournal) -> list[ReturnFacts]:
        """Returns the clients that rejoined with new member ids, and the members that changed their
        subscription."""
        found = [
            ReturnFacts(
                each.member_id,
                each.client_id,
                each.client_host,
                tuple(each.recent_ms),
                streak=_streak(each.streak),
                ways=tuple(each.ways.items()),
                instance=each.instance,
                away_ms=each.away_ms,
            )
            for each in self._journal.returning(journal.name)
        ]
        for each in journal.changed:
            client = (each.member_id, each.client_id, each.client_host)
            at_ms, streak = tuple(each.recent_ms), _streak(each.streak)
            found.append(ReturnFacts(*client, at_ms, False, each.detail, streak))
        return found


def _fenced(journal: GroupJournal) -> list[FencedFacts]:
    return [
        FencedFacts(
            each.instance,
            each.member_id,
            each.client_id or None,
            each.client_host or None,
            each.other_client_id or None,
            each.other_client_host or None,
            tuple(each.recent_ms),
            _streak(each.streak),
        )
        for each in journal.fencings
    ]


def _streak(streak: Streak) -> StreakFacts | None:
    return StreakFacts(streak.count, streak.since_ms) if streak.count else None
