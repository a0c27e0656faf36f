"""Topics, partitions and the broker itself as plain values for JSON; fields: docs/http-api.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from time import process_time
from typing import TYPE_CHECKING, Any

from broker.cores.loading import progress
from broker.topics.logs import TopicLogs
from broker.topics.registry import OFFSETS_TOPIC
from broker.web.group_views import View, lag_in_topic, readable
from broker.web.trends import memory_bytes
from log.partition_log import PartitionLog
from protocol.errors import NAMES
from protocol.messages import BY_KEY

if TYPE_CHECKING:
    from broker.broker import Broker


def topic_summary(entry: TopicLogs) -> View:
    """A topic in a line."""
    logs = list(entry.logs)
    return {
        "topic": entry.topic.name,
        "partitions": len(logs),
        "internal": entry.topic.name == OFFSETS_TOPIC,
        "cleanup_policy": str(entry.settings["cleanup.policy"]),
        "records": sum(log.high_watermark - log.log_start_offset for log in logs),
        "end_offsets": sum(log.high_watermark for log in logs),
        "size_bytes": sum(log.size_bytes for log in logs),
        "segments": sum(len(log.segments) for log in logs),
        "poisoned": sum(log.poisoned is not None for log in logs),
        "unreadable": sum(log.unreadable is not None for log in logs),
    }


def partition_view(log: PartitionLog) -> View:
    """A partition in a line."""
    return {
        "partition": log.partition,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.high_watermark,
        "size_bytes": log.size_bytes,
        "segments": len(log.segments),
        "poisoned": log.poisoned,
        "unreadable": log.unreadable,
    }


def readers(broker: Broker, topic: str) -> Iterator[View | None]:
    """The groups that have committed offsets in ``topic``; None for each that has not."""
    for hosted in readable(broker):
        for group in list(hosted.core.view.groups.values()):
            found = lag_in_topic(broker, hosted, group.group_id, topic)
            if found is None:
                yield None
                continue
            partitions, lag = found
            yield {
                "group": group.group_id,
                "state": group.state.value,
                "members": len(group.members),
                "partitions": partitions,
                "lag": lag,
            }


def broker_view(broker: Broker) -> View:
    """The broker as it is now."""
    hosted_shards = broker.runtime.hosted_shards
    host, port = broker.advertised.first
    server, trends = broker.server, broker.trends
    health = broker.health()
    return {
        "broker": broker.registry.node_id,
        "cluster": broker.registry.cluster_id,
        "address": f"{host}:{port}",
        "state": health["state"],
        "reason": health.get("reason"),
        "unreadable": health.get("unreadable", {}),
        "load": progress(hosted_shards) if broker.runtime.loading else None,
        "load_ms": sum(max(0, each.load_ms) for each in hosted_shards),
        "shards": dict(Counter(each.phase.value for each in hosted_shards)),
        "connections": len(server.connections),
        "connections_refused": server.refused,
        "protocol_errors": server.protocol_errors,
        "requests": server.answered(),
        "commits": broker.runtime.commits,
        "rebalances": dict(broker.metrics.rebalances),
        "groups": sum(len(each.core.view.groups) for each in hosted_shards),
        "members": trends.members,
        "lag": trends.lag,
        "offsets": sum(each.core.view.offsets.count() for each in hosted_shards),
        "topics": len(broker.logs.topics),
        "memory_bytes": memory_bytes(),
        "cpu_ms": int(process_time() * 1000),
        "trends": {name: list(ring.values) for name, ring in trends.rates.items()},
    }


def api_rows(broker: Broker) -> Iterator[View]:
    """How often each API was answered, and with which errors."""
    for key, errors in broker.server.errors.items():
        if errors:
            yield {
                "api": BY_KEY[key].name,
                "requests": sum(errors.values()),
                "errors": {
                    NAMES.get(code, str(code)): count for code, count in errors.items() if code
                },
            }


def client_rows(broker: Broker) -> list[View]:
    """What each client sent and got, those without a connection too."""
    server = broker.server
    return [
        {"client": client, "host": host, **asdict(traffic)}
        for (client, host), traffic in server.clients.by_client(server.connections).items()
    ]


def topic_view(broker: Broker, name: str) -> View | None:
    """A topic without its partitions and readers; None if there is none."""
    entry = broker.logs.topics.get(name)
    return None if entry is None else topic_summary(entry)


def partition_rows(broker: Broker, name: str) -> Iterator[View]:
    """The partitions of a topic."""
    entry: Any = broker.logs.topics.get(name)
    for log in [] if entry is None else list(entry.logs):
        yield partition_view(log)
