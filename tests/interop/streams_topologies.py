"""Topologies of streams groups (KIP-1071), in the form in which StreamsGroupHeartbeat sends
them."""

from __future__ import annotations

from typing import Any

Value = dict[str, Any]
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "52428800"}


def internal_topic(name: str, partitions: int = 0, configs: dict[str, str] | None = None) -> Value:
    """Returns a repartition or changelog topic. With 0 partitions, the coordinator chooses the
    number."""
    pairs = [{"key": key, "value": value} for key, value in (configs or {}).items()]
    return {
        "name": name,
        "partitions": partitions,
        "replication_factor": 0,
        "topic_configs": pairs,
    }


def subtopology(
    subtopology_id: str,
    *sources: str,
    changelogs: tuple[str, ...] = (),
    sinks: tuple[str, ...] = (),
    repartitioned: tuple[Value, ...] = (),
    copartitioned: tuple[int, ...] = (),
) -> Value:
    """Returns a subtopology. ``copartitioned`` contains indexes of source topics."""
    group = {
        "source_topics": list(copartitioned),
        "source_topic_regex": [],
        "repartition_source_topics": [],
    }
    return {
        "subtopology_id": subtopology_id,
        "source_topics": list(sources),
        "source_topic_regex": [],
        "state_changelog_topics": [internal_topic(name, configs=COMPACTED) for name in changelogs],
        "repartition_sink_topics": list(sinks),
        "repartition_source_topics": list(repartitioned),
        "copartition_groups": [group] if copartitioned else [],
    }


def topology(*subtopologies: Value, epoch: int = 1) -> Value:
    return {"epoch": epoch, "subtopologies": list(subtopologies)}


def source_topics(group: str) -> dict[str, int]:
    """Returns the partition counts of the source topics of a group.

    Each topology has an even number of tasks, because with an odd number Kafka's heap order decides
    which of two members gets the last task.
    """
    return {f"{group}-a": 4, f"{group}-b": 2, f"{group}-c": 4}


def shapes(group: str) -> dict[str, Value]:
    """Returns topologies by name. Each topology reads the source topics of the group."""
    a, b, c = source_topics(group)
    between = f"{group}-between-repartition"
    store, join = f"{group}-store-changelog", f"{group}-join-changelog"
    counted = subtopology(
        "1", changelogs=(store,), repartitioned=(internal_topic(between),), sinks=()
    )
    fixed = internal_topic(between, 6, {"cleanup.policy": "delete", "retention.ms": "-1"})
    return {
        "stateless": topology(subtopology("0", a)),
        "stored": topology(subtopology("0", a, changelogs=(store,))),
        "repartitioned": topology(subtopology("0", a, sinks=(between,)), counted),
        "joined": topology(
            subtopology("0", a, c, changelogs=(join,), copartitioned=(0, 1)), subtopology("1", b)
        ),
        "fixed": topology(
            subtopology("0", b, sinks=(between,)),
            subtopology("1", a, changelogs=(store,), repartitioned=(fixed,)),
        ),
        "uneven": topology(subtopology("0", a, b, copartitioned=(0, 1))),
        "absent": topology(subtopology("0", a), subtopology("1", "absent", changelogs=(store,))),
    }


def internal_topics(shape: Value) -> set[str]:
    """Returns the names of the topics that the broker creates for a topology."""
    return {
        each["name"]
        for part in shape["subtopologies"]
        for each in (*part["state_changelog_topics"], *part["repartition_source_topics"])
    }


def invalid(group: str) -> list[Value]:
    """Returns topologies that StreamsGroupHeartbeat refuses."""
    a, _, _ = source_topics(group)
    changelog = subtopology("0", a)
    changelog["state_changelog_topics"] = [internal_topic(f"{group}-store-changelog", 3)]
    regex = {**subtopology("0", a), "source_topic_regex": ["x.*"]}
    return [
        topology(subtopology("0", "a/b")),
        topology(subtopology("0", "__consumer_offsets")),
        topology(subtopology("0", a, sinks=("",))),
        topology(subtopology("0", a, changelogs=("a b",))),
        topology(changelog),
        topology(regex),
        topology(subtopology("0", a, a)),
        topology(),
    ]
