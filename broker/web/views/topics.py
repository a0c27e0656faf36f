"""Topics, partitions and the broker as plain values for JSON. docs/use/http-api.md describes the
fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from broker.config.described_configs import DEFAULT_SOURCE, TOPIC_SOURCE, topic_entries
from broker.metrics.lag import readable
from broker.metrics.sources import Sources
from broker.metrics.trends import memory_bytes
from broker.topics.partition import Partition
from broker.topics.registry import OFFSETS_TOPIC
from broker.topics.topic_logs import TopicLogs
from broker.web.health import health, is_loading, load_progress
from broker.web.views.groups import View
from broker.web.views.security import session_views, sessions
from protocol.errors import NAMES
from protocol.messages import BY_KEY
from verdicts.spelling import plain_host

UNSUPPORTED_MAX = 100


def topic_summary(entry: TopicLogs) -> View:
    partitions = list(entry.partitions)
    logs = [partition.log for partition in partitions]
    high_watermarks = sum(partition.high_watermark for partition in partitions)
    return {
        "topic": entry.topic.name,
        "partitions": entry.topic.partitions,
        "internal": entry.topic.name == OFFSETS_TOPIC,
        "cleanup_policy": str(entry.settings["cleanup.policy"]),
        "records": high_watermarks - sum(log.log_start_offset for log in logs),
        "end_offsets": high_watermarks,
        "size_bytes": sum(log.size_bytes for log in logs),
        "segments": sum(len(log.segments) for log in logs),
        "poisoned": sum(log.poisoned is not None for log in logs),
        "unreadable": sum(log.unreadable is not None for log in logs),
    }


def partition_view(partition: Partition) -> View:
    log = partition.log
    return {
        "partition": partition.index,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": partition.high_watermark,
        "size_bytes": log.size_bytes,
        "segments": len(log.segments),
        "poisoned": log.poisoned,
        "unreadable": log.unreadable,
    }


def not_here(sources: Sources, entry: TopicLogs, asked: str, number: int | None) -> str:
    """Returns the sentence that says why this broker can't show the partition ``asked``: the topic
    does not have this partition, or the broker does not have a replica of it."""
    name, count = entry.topic.name, entry.topic.partitions
    if number is None or number >= count:
        return f"{name} does not have partition {asked[:32]}, only 0 to {count - 1}"
    view = sources.cluster.partition(name, number)
    replicas = [] if view is None else list(view.replicas)
    return f"this broker has no replica of {name}-{number}; ask one of the brokers {replicas}"


def readers(sources: Sources, topic: str) -> Iterator[View | None]:
    """Yields a view of each group that has committed offsets in ``topic``. Yields None for every
    other group, so that each step is short."""
    for hosted in readable(sources.groups):
        for group in list(hosted.core.view.groups.values()):
            found = sources.lags.in_topic(hosted, group.group_id, topic)
            if found is None:
                yield None
                continue
            partitions, lag = found
            yield {
                "group": group.group_id,
                "state": group.state.value,
                "verdict": sources.verdicts.of(hosted, group).verdict,
                "members": len(group.members),
                "partitions": partitions,
                "lag": lag,
            }


def which_broker(sources: Sources) -> View:
    """Returns the broker's identity, which the Metadata API shows to every client."""
    host, port = sources.advertised.first
    return {
        "broker": sources.registry.node_id,
        "cluster": sources.registry.cluster_id,
        "in_cluster": sources.member is not None,
        "address": f"{host}:{port}",
        "state": health(sources)["state"],
    }


def broker_view(sources: Sources) -> View:
    hosted_shards = sources.groups.hosted_shards
    server, trends = sources.server, sources.trends
    state = health(sources)
    return {
        **which_broker(sources),
        "reason": state.get("reason"),
        "unreadable": state.get("unreadable", {}),
        "load": load_progress(sources) if is_loading(sources) else None,
        "load_ms": sum(max(0, each.load_ms) for each in hosted_shards),
        "shards": dict(Counter(each.phase.value for each in hosted_shards)),
        "connections": len(server.connections),
        "connections_refused": server.refused,
        "protocol_errors": server.protocol_errors,
        "requests": server.answered(),
        "commits": sources.groups.counted,
        "rebalances": dict(sources.totals.rebalances),
        "groups": sum(len(each.core.view.groups) for each in hosted_shards),
        "members": trends.members,
        "lag": trends.lag,
        "offsets": sum(each.core.view.offsets.count() for each in hosted_shards),
        "topics": len(sources.logs.topics),
        "memory_bytes": memory_bytes(),
        "cpu_ms": int(sources.time.cpu_s() * 1000),
        "trends": {name: list(ring.values) for name, ring in trends.rates.items()},
    }


def unsupported_rows(sources: Sources) -> Iterator[View]:
    for wanted in sources.server.unsupported.wanted()[:UNSUPPORTED_MAX]:
        yield {
            "api": wanted.api,
            "client_id": wanted.client_id,
            "host": plain_host(wanted.host),
            "software": wanted.software,
            "advice": wanted.advice,
            "count": wanted.count,
            "last_ms": wanted.last_ms,
        }


def api_rows(sources: Sources) -> Iterator[View]:
    """Yields a row for each API: the number of answered requests, and the number of responses with
    each error."""
    for key, errors in sources.server.errors.items():
        if errors:
            yield {
                "api": BY_KEY[key].name,
                "requests": sum(errors.values()),
                "errors": {
                    NAMES.get(code, str(code)): count for code, count in errors.items() if code
                },
            }


def client_rows(sources: Sources) -> list[View]:
    """Returns the traffic of each client, including clients that have disconnected."""
    server, open_now = sources.server, sessions(sources)
    return [
        {
            "client": client,
            "host": plain_host(host),
            **asdict(traffic),
            "sessions": session_views(open_now.get((client, host), Counter())),
        }
        for (client, host), traffic in server.clients.by_client(server.connections).items()
    ]


def topic_view(sources: Sources, name: str) -> View | None:
    """Returns a topic without its partitions and groups; None if the topic does not exist."""
    entry = sources.logs.topics.get(name)
    return None if entry is None else topic_summary(entry)


_SOURCES = {TOPIC_SOURCE: "topic", DEFAULT_SOURCE: "default"}


def setting_rows(sources: Sources, name: str) -> Iterator[View]:
    """Yields the settings of a topic, as in DescribeConfigs. ``source`` names the origin of each
    value."""
    topic = sources.registry.topic(name)
    for entry in () if topic is None else topic_entries(sources.config, topic.configs):
        yield {
            "name": entry["name"],
            "value": entry["value"],
            "source": _SOURCES.get(entry["config_source"], "broker"),
            "documentation": entry["documentation"],
        }


def partition_rows(sources: Sources, name: str) -> Iterator[View]:
    entry: Any = sources.logs.topics.get(name)
    for partition in [] if entry is None else list(entry.partitions):
        yield partition_view(partition)
