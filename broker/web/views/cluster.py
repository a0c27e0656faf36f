"""The content of `/api/cluster`: leaders, out-of-sync replicas, and the operations for which the
controller waits, each with its cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker.cluster.replicas.fetchers import Fetchers
from broker.cluster.replicas.missing_logs import MissingLogs
from broker.topics.cluster_view import PartitionView
from broker.topics.replicas.replica import Replica
from journal.happened import (
    CONTROLLER,
    NOBODY,
    SESSION,
    Happened,
    Kind,
    of_broker,
    of_partition,
    of_topic,
)
from replication.in_sync import behind

if TYPE_CHECKING:
    from broker.cluster.cluster_broker import ClusterBroker
    from broker.metrics.sources import Sources

View = dict[str, Any]

WAITS_MAX = 100
"""The maximum number of pending operations of the controller that are listed. Further pending
operations are only counted."""


def cluster_view(sources: Sources, member: ClusterBroker) -> View:
    """Returns the cluster as this broker knows it, without partitions."""
    journal, cache = member.keeper.journal, member.cache
    elected = journal.last(CONTROLLER, Kind.CONTROLLER)
    return {
        "cluster": member.joined.cluster_id,
        "broker": member.joined.node_id,
        "now_ms": sources.time.now().wall_ms,
        "zookeeper": {
            "connect": member.settings.zookeeper.hosts,
            "state": member.joined.zookeeper.connection.value,
            "journal": [entry_view(each) for each in journal.of(SESSION)],
        },
        "epoch": known_or_none(member.broker_epoch()),
        "controller": known_or_none(cache.controller_id),
        "controller_epoch": known_or_none(cache.controller_epoch),
        "controller_since_ms": None if elected is None else elected.at_ms,
        "brokers": list(_brokers(member)),
        "journal": [entry_view(each) for each in journal.of(CONTROLLER)],
    }


def _brokers(member: ClusterBroker) -> Iterator[View]:
    """Yields the live brokers that the controller has announced."""
    cache, racks = member.cache, member.cache.racks()
    for node in cache.brokers(member.settings.listener):
        last = member.keeper.journal.last(of_broker(node.node_id), Kind.BROKER)
        yield {
            "broker": node.node_id,
            "address": f"{node.host}:{node.port}",
            "rack": racks.get(node.node_id),
            "last": None if last is None else entry_view(last),
        }


def doing_view(member: ClusterBroker) -> View | None:
    """Returns the controller's pending work; None if this broker is not the controller."""
    term = member.host.term
    if term is None:
        return None
    doing = term.doing()
    return {
        "epoch": term.epoch,
        "partitions_left": doing.partitions,
        "writes": doing.writes,
        "retries": doing.retries,
        "calls": doing.calls,
        "shutdowns": [
            {"broker": broker, "partitions": left} for broker, left in doing.shutdowns.items()
        ],
        "unanswered": [
            {
                "broker": each.broker_id,
                "requests": each.requests,
                "request": each.request,
                "since_ms": each.since_ms,
                "attempts": each.attempts,
                "reason": each.reason,
            }
            for each in term.channels.unanswered()
        ],
    }


def waits_rows(member: ClusterBroker, only: str | None = None) -> Iterator[View | None]:
    """Yields the operations for which the controller waits, for all topics or for the topic
    ``only``. Yields None where a slice may end."""
    term = member.host.term
    if term is None:
        return
    journal = member.keeper.journal
    for found in term.waits(only):
        for each in found:
            if each.partition == NOBODY:
                since = journal.last(of_topic(each.topic), Kind.TOPIC)
            else:
                kind = Kind.MOVE if each.what == "reassignment" else Kind.LEADER
                since = journal.last(of_partition(each.topic, each.partition), kind)
            yield {
                "what": each.what,
                "topic": each.topic,
                "partition": None if each.partition == NOBODY else each.partition,
                "brokers": list(each.brokers),
                "since_ms": None if since is None else since.at_ms,
            }
        yield None


def troubled_rows(sources: Sources, member: ClusterBroker) -> Iterator[View | None]:
    """Yields the view of each partition that has no leader or an out-of-sync replica. Yields None
    for each other partition."""
    for name, topic in list(member.cache.topics.items()):
        for index in sorted(topic.partitions):
            shown = member.cache.partition(name, index)
            if shown is None or (shown.leader >= 0 and not _out(shown)):
                yield None
            else:
                yield partition_view(sources, member, name, index, shown)


def partition_view(
    sources: Sources, member: ClusterBroker, topic: str, index: int, shown: PartitionView
) -> View:
    """Returns a partition: its leader, the time and the reason of its election, and the out-of-sync
    replicas."""
    moved = member.keeper.journal.last(of_partition(topic, index), Kind.LEADER)
    if moved is not None and moved.leader != shown.leader:
        moved = None  # this broker has no replica, and was not notified of a later change
    return {
        "topic": topic,
        "partition": index,
        "leader": known_or_none(shown.leader),
        "leader_epoch": shown.leader_epoch,
        "replicas": list(shown.replicas),
        "isr": list(shown.isr),
        "since_ms": None if moved is None else moved.at_ms,
        "why": None if moved is None else moved.why,
        "out": [_out_view(sources, member, topic, index, each) for each in _out(shown)],
        "held_up": held_up(member.replicas.missing, member.fetchers, topic, index),
    }


def _out(shown: PartitionView) -> list[int]:
    return [each for each in shown.replicas if each not in shown.isr]


def _out_view(
    sources: Sources, member: ClusterBroker, topic: str, index: int, replica: int
) -> View:
    """Returns an out-of-sync replica: the time and the reason of its removal from the ISR, and its
    current lag."""
    known = _left(member, of_partition(topic, index), replica)
    view: View = {
        "broker": replica,
        "alive": member.cache.is_alive(replica),
        "since_ms": None if known is None else known.at_ms,
        "cause": None if known is None else known.cause,
        "why": None if known is None else known.why,
        "records": None,
        "fetched_ms": None,
        "caught_up_ms": None,
    }
    entry = sources.logs.topics.get(topic)
    partition = None if entry is None else entry.partition(index)
    if isinstance(partition, Replica) and partition.led is not None:
        now = sources.time.now()
        how = behind(partition.led, replica, now.mono_ms)
        view["records"] = known_or_none(how.records)
        for field, ago_ms in (
            ("fetched_ms", how.fetched_ago_ms),
            ("caught_up_ms", how.caught_up_ago_ms),
        ):
            view[field] = None if ago_ms < 0 else now.wall_ms - ago_ms
    return view


def _left(member: ClusterBroker, name: str, replica: int) -> Happened | None:
    """Returns the journal entry of the ISR or leader change that removed the replica from the ISR;
    None if unknown."""
    last = member.keeper.journal.last(name, Kind.ISR, replica)
    moved = member.keeper.journal.last(name, Kind.LEADER)
    if (
        moved is not None
        and (last is None or last.at_ms < moved.at_ms)
        and replica in moved.isr_before
        and replica not in moved.isr
    ):
        return moved
    return None if last is None or last.cause == "in" else last


def entry_view(entry: Happened) -> View:
    return {
        "at_ms": entry.at_ms,
        "kind": entry.kind.value,
        "cause": entry.cause,
        "why": entry.why,
        "broker": known_or_none(entry.broker),
        "controller_epoch": known_or_none(entry.controller_epoch),
        "leader": known_or_none(entry.leader),
        "leader_before": known_or_none(entry.leader_before),
        "leader_epoch": known_or_none(entry.leader_epoch),
        "isr": list(entry.isr),
        "isr_before": list(entry.isr_before),
        "records": known_or_none(entry.records),
        "source": entry.source.value,
    }


def known_or_none(number: int) -> int | None:
    """Returns ``number``, a broker id or an epoch; None if it is -1, which means unknown."""
    return None if number < 0 else number


def held_up(missing: MissingLogs, fetchers: Fetchers, topic: str, index: int) -> str | None:
    """Returns the reason why this broker's follower replica does not advance, in cases in which the
    partition's leader does not know the reason. Returns None if no reason is known, or if this
    broker is not a follower of the partition."""
    why_missing = missing.why_missing(topic, index)
    if why_missing is not None:
        return f"can't create the replica's log, retrying: {why_missing}"
    fetcher, followed = fetchers.fetcher(topic, index), fetchers.followed(topic, index)
    if fetcher is None or followed is None:
        return None
    if followed.is_stopped:
        why = followed.trouble or "the replica's log has failed"
        return f"fetching is stopped until the leader changes or this broker restarts: {why}"
    if fetcher.lost is not None:
        return f"can't fetch from the leader, broker {fetcher.leader}: {fetcher.lost}"
    if followed.trouble is not None:
        return f"can't append the leader's records, retrying: {followed.trouble}"
    if followed.is_held_back:
        return "replication is throttled (follower.replication.throttled.rate)"
    return None
