"""The heads and rows of `/api/live` for groups, topics and the broker.

Each row has a token, which contains everything on which the row depends. A row is created again
only if its token has changed. A row has the same values as the responses of the other `/api` paths,
but with points in time instead of durations. So the passing of time alone does not change a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from broker.cores.groups.runtime import HostedGroups
from broker.cores.hosted_shard import Phase
from broker.loop.slices import Slices
from broker.metrics.lag import PartitionLag, readable
from broker.metrics.sources import Sources
from broker.web.live.broker import TheBroker
from broker.web.live.cluster import TheCluster
from broker.web.live.events import Row, Source, steady
from broker.web.live.seen import SeenBy
from broker.web.live.share import share_rows, share_settings
from broker.web.live.transactions import OneTransaction, Transactions
from broker.web.readers.reader import Reader
from broker.web.views.groups import (
    View,
    group_head,
    journal_head,
    member_view,
    offset_view,
    rebalances,
    summary,
)
from broker.web.views.search_names import search_names, topics_named
from broker.web.views.topics import (
    partition_view,
    readers,
    setting_rows,
    topic_summary,
)
from broker.web.views.verdicts import findings_of, never_committed, verdict_of
from coordinator.read_only import GroupView, MemberView
from offsets.cache import CachedOffset
from verdicts.judge import Judgement
from verdicts.names import Verdict

REBALANCES_SHOWN = 24
LOOKUP_S_MAX = 0.2
"""The maximum number of seconds that an update waits for the ages of unread records. Ages that are
found later are in the next update."""
JUDGED_EVERY_S = 5.0
"""The minimum number of seconds between two verdicts on the watched group. The sentences of a
verdict contain times, so each new verdict changes the row."""


def find(sources: Sources, watch: str, reader: Reader) -> Source | None:
    """Returns the source for ``watch``, restricted to the reader's rights; None if ``watch`` is
    unknown."""
    source = _found(sources, watch)
    if source is None or reader.sees_everything:
        return source
    return SeenBy(source, watch, reader)


def _found(sources: Sources, watch: str) -> Source | None:
    """Returns the source for ``watch``; None if ``watch`` is unknown.

    ``watch`` is groups, groups/GROUP, transactions, transactions/ID, topics, topics/TOPIC, or
    broker. In a cluster it may also be cluster.
    """
    kind, slash, name = watch.partition("/")
    if kind == "groups":
        return OneGroup(sources, name) if slash else Groups(sources)
    if kind == "transactions":
        return OneTransaction(sources, name) if slash else Transactions(sources)
    if kind == "topics":
        return OneTopic(sources, name) if slash else Topics(sources)
    if watch == "cluster" and sources.member is not None:
        return TheCluster(sources, sources.member)
    return TheBroker(sources) if watch == "broker" else None


class Groups(Source):
    """The live data about all groups. The table ``group`` contains the summary of each group."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._unread: dict[str, tuple[Any, int | None]] = {}
        """By group id, two values: the lag and the sample from which the second value was computed,
        and the wall time in ms of the group's oldest unread record (None if the group has none)."""
        self._stale: dict[str, tuple[HostedGroups, Any]] | None = None
        """The groups whose lag changed in the last update; None before the first update."""

    async def prepare(self, slices: Slices) -> None:
        """Finds the age of the oldest unread record for each group whose lag has changed."""
        if self._stale is None:  # a client that has just connected gets the ages at once
            await slices.through(self.rows())
        stale, self._stale = self._stale or {}, {}
        lags = self.sources.lags
        unknown = lags.times.unknown
        for group_id, (hosted, _) in stale.items():
            await slices.through(lags.ask(hosted, group_id))
        if lags.times.unknown != unknown:
            await slices.wait_for(lags.times.settled(), LOOKUP_S_MAX)
        for group_id, found in stale.items():
            await self._look(slices, group_id, *found)

    async def _look(self, slices: Slices, group_id: str, hosted: HostedGroups, stamp: Any) -> None:
        """Stores the time of a group's oldest unread record. If the timestamps of some records are
        not available yet, the next pass computes this time again."""
        lags = self.sources.lags
        unknown = lags.times.unknown
        since_ms: list[int] = []
        for topic in list(hosted.core.view.offsets.topics(group_id)):
            for block in lags.blocks(hosted, group_id, topic):
                ages = [lag.age_ms for lag in block if lag.records and lag.age_ms is not None]
                if ages:
                    since_ms.append(self.sources.time.now().wall_ms - max(ages))
                if slices.over:
                    await slices.pause()
        is_known = lags.times.unknown == unknown
        oldest_ms = steady(min(since_ms)) if since_ms else None
        self._unread[group_id] = (stamp if is_known else None, oldest_ms)

    def head(self) -> View:
        """Returns two facts about the shards of groups: whether any shard is being loaded, and
        which partitions of `__consumer_offsets` can't be read. The list of groups lacks the groups
        of these shards and partitions."""
        runtime = self.sources.groups
        return {"loading": runtime.life.loading, "unreadable": runtime.life.unreadable()}

    def rows(self) -> Iterator[Row | None]:
        sources = self.sources
        trends = sources.trends
        before, self._unread = self._unread, {}
        stale = self._stale = self._stale or {}
        for hosted in readable(sources.groups):
            for group in list(hosted.core.view.groups.values()):
                lag = sources.lags.records_of(hosted, group)
                stamp = (lag, trends.taken)
                found = before.get(group.group_id)
                if lag and (found is None or found[0] != stamp):
                    stale[group.group_id] = (hosted, stamp)
                if lag and found is not None:
                    self._unread[group.group_id] = found
                since_ms = found[1] if lag and found is not None else None
                journal = sources.journal.get(group.group_id)
                held = sources.verdicts.of(hosted, group)
                token = (
                    held,
                    group.state,
                    group.generation_id,
                    tuple(group.members),  # a static member's id changes with its client
                    tuple(hosted.core.view.offsets.topics(group.group_id)),
                    lag,
                    0 if journal is None else journal.rebalances.number,
                    trends.taken,
                    since_ms,
                )
                make = partial(self._row, hosted, group, lag, since_ms)
                yield Row("group", group.group_id, token, make)

    def topics_named(self, row: Row | None) -> Iterable[str]:
        return () if row is None else _topics_named(self.sources, row.key)

    def _row(
        self, hosted: HostedGroups, group: GroupView, lag: int | None, since_ms: int | None
    ) -> View:
        row = summary(self.sources, hosted, group, lag)
        row["unread_since_ms"] = since_ms
        row["trend"] = self.sources.trends.of_group(group.group_id)
        return row | search_names(group, hosted.core.view.offsets.topics(group.group_id))


class OneGroup(Source):
    """The live data about one group, with the tables ``member``, ``offset`` and ``rebalance``, and
    ``share`` for a share group. The table ``journal`` has one row."""

    def __init__(self, sources: Sources, group_id: str) -> None:
        self.sources = sources
        self.group_id = group_id
        self._judgement: Judgement | None = None
        self._judged_s = 0.0
        self._judged_in: tuple[object, int] | None = None
        """The state and generation of the group at its last verdict. If either changes, the verdict
        is obsolete."""

    async def prepare(self, slices: Slices) -> None:
        """Looks up the age of the first unread record of each partition, and determines the verdict
        of the group. In a busy group these ages always change. So the verdict is determined only
        every few seconds, and after a change of the group's state or generation."""
        found = self._group()
        if found is None:
            self._judgement = None
        else:
            now_s = self.sources.time.real.monotonic_s()
            group_is = (found[1].state, found[1].generation_id)
            is_due = now_s - self._judged_s >= JUDGED_EVERY_S or group_is != self._judged_in
            if self._judgement is None or is_due:
                self._judged_s, self._judged_in = now_s, group_is
                self._judgement = await self.sources.verdicts.judged(*found, slices)
            await slices.through(self.sources.lags.ask(found[0], self.group_id))
            await slices.wait_for(self.sources.lags.times.settled(), LOOKUP_S_MAX)

    def _hosted(self) -> HostedGroups | None:
        return self.sources.groups.hosted_for(self.group_id)

    def _group(self) -> tuple[HostedGroups, GroupView] | None:
        hosted = self._hosted()
        group = None if hosted is None else hosted.core.view.groups.get(self.group_id)
        return None if hosted is None or group is None else (hosted, group)

    def head(self) -> View:
        """Returns the data about the group that is not in one of the tables. ``exists`` is False if
        the group does not exist."""
        found, hosted = self._group(), self._hosted()
        head: View = {
            "group": self.group_id,
            "exists": found is not None,
            "loading": hosted is not None and hosted.phase is Phase.LOADING,
            "unreadable": None if hosted is None else hosted.log.unreadable,
        }
        if found is not None:
            awaited = group_head(self.sources, *found)
            if awaited["awaits"] is not None:  # a duration, which would change with every update
                awaited["awaits"].pop("remaining_ms")
                awaited["awaits"]["ends_ms"] = steady(awaited["awaits"]["ends_ms"])
                _without_spans(awaited["awaits"]["members"])
            head |= awaited | verdict_of(self.sources, *found) | findings_of(self._judgement)
            head["state_since_ms"] = steady(awaited["state_since_ms"])
            head["lag"] = self.sources.lags.records_of(*found)
            head["pending_members"] = list(found[1].pending)
            head["trend"] = self.sources.trends.of_group(self.group_id)
            head["share"] = share_settings(self.sources, found[1])
        return head

    def rows(self) -> Iterator[Row | None]:
        """Yields a row for each member, each offset and each rebalance of the group. One more row
        contains the group's journal without the rebalances."""
        found = self._group()
        journal = journal_head(self.sources, self._hosted(), self.group_id)
        if journal is not None:
            yield Row("journal", "", None, _given(journal))
        if found is not None:
            yield from self._members(found[1])
            yield from self._offsets(found[0])
            yield from share_rows(self.sources, found[1])
        for entry, make in rebalances(
            self.sources, self._hosted(), self.group_id, REBALANCES_SHOWN
        ):
            ended = entry.ended_ms or None
            token = ended and (ended, entry.outcome)
            yield Row("rebalance", str(entry.number), token, partial(_rebalance, make))

    def topics_named(self, row: Row | None) -> Iterable[str]:
        del row
        return _topics_named(self.sources, self.group_id)

    def _members(self, group: GroupView) -> Iterator[Row]:
        for member in list(group.members.values()):
            token = (
                member.session.due_ms,
                member.waits,
                member.assignment,
                member.client_id,
                group.protocol_type,
            )
            make = partial(self._member, group, member)
            yield Row("member", member.member_id, token, make)

    def _member(self, group: GroupView, member: MemberView) -> View:
        now = self.sources.time.now()
        row = member_view(group, member, now)
        silent_ms = row.pop("last_heard_ms_ago")
        row["last_heard_ms"] = None if silent_ms is None else now.wall_ms - silent_ms
        return row

    def _offsets(self, hosted: HostedGroups) -> Iterator[Row]:
        cache = hosted.core.view.offsets
        judgement = self._judgement
        wall_ms = self.sources.time.now().wall_ms
        for lag in self.sources.lags.of_group(hosted, self.group_id):
            since_ms = None
            if lag.records and lag.seconds is not None:
                since_ms = steady(wall_ms - round(lag.seconds * 1000))
            ends = (lag.log_start_offset, lag.log_end_offset)
            verdict = Verdict.OK
            if judgement is not None:
                verdict = judgement.of_partition(lag.topic, lag.partition)
            token = (lag.offset, lag.committed_ms, ends, since_ms, verdict)
            entry = cache.get(self.group_id, lag.topic, lag.partition)
            make = partial(_offset, lag, entry, verdict, since_ms)
            yield Row("offset", f"{lag.topic}-{lag.partition}", token, make)
        for facts, row in () if judgement is None else never_committed(judgement):
            place = f"{facts.topic}-{facts.partition}"
            yield Row("offset", place, None, partial(_with_point, row, None))


def _topics_named(sources: Sources, group_id: str) -> Iterable[str]:
    hosted = sources.groups.hosted_for(group_id)
    group = None if hosted is None else hosted.core.view.groups.get(group_id)
    return () if hosted is None or group is None else topics_named(hosted, group)


def _rebalance(make: Callable[[], View]) -> View:
    row = make()
    _without_spans(row["awaited"])
    return row


def _without_spans(awaited: list[View]) -> None:
    """Removes the texts about awaited members, since they contain durations."""
    for each in awaited:
        del each["words"]
        if each["last_heard_ms"] is not None:
            each["last_heard_ms"] = steady(each["last_heard_ms"])


def _offset(
    lag: PartitionLag, entry: CachedOffset | None, verdict: Verdict, since_ms: int | None
) -> View:
    return _with_point(offset_view(lag, entry, verdict), since_ms)


def _with_point(row: View, since_ms: int | None) -> View:
    """Replaces the age of the oldest unread record in ``row`` by the time of this record. Unlike
    the age, the time does not change while nothing happens."""
    del row["lag_seconds"]
    row["unread_since_ms"] = since_ms
    return row


class Topics(Source):
    """The live data about all topics. The table ``topic`` contains the summary of each topic."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def head(self) -> View:
        return {}

    def rows(self) -> Iterator[Row | None]:
        for name, entry in list(self.sources.logs.topics.items()):
            yield Row("topic", name, None, partial(topic_summary, entry))


class OneTopic(Source):
    """The live data about one topic, with the tables ``partition``, ``setting`` and ``group``
    (groups with committed offsets in the topic)."""

    def __init__(self, sources: Sources, name: str) -> None:
        self.sources = sources
        self.name = name

    def head(self) -> View:
        """Returns the summary of the topic. ``exists`` is False if the topic does not exist."""
        entry = self.sources.logs.topics.get(self.name)
        if entry is None:
            return {"topic": self.name, "exists": False}
        return {**topic_summary(entry), "exists": True}

    def rows(self) -> Iterator[Row | None]:
        entry = self.sources.logs.topics.get(self.name)
        if entry is None:
            return
        for each in list(entry.partitions):
            yield Row("partition", str(each.index), None, partial(partition_view, each))
        for setting in setting_rows(self.sources, self.name):
            token = (setting["value"], setting["source"])
            yield Row("setting", setting["name"], token, partial(dict, setting))
        for reader in readers(self.sources, self.name):
            yield None if reader is None else Row("group", reader["group"], None, _given(reader))


def _given(row: View) -> Any:
    return lambda: row
