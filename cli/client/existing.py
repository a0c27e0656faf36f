"""Finds the existing topics and partitions for names and patterns."""

from __future__ import annotations

from collections.abc import Sequence

from cli.client.cluster import Cluster, Connection
from cli.client.offsets_at import Partition
from cli.errors import REFUSED, CommandError, refused
from cli.names import parse_partitions
from cli.patterns import chosen, nearest, spelled
from client.connection import Value
from protocol.errors import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION


def existing(
    cluster: Cluster,
    wanted: Sequence[str],
    done: str = "",
    *,
    internal: bool = False,
    fine: bool = False,
) -> Value:
    """Returns a Metadata response with only the topics that match ``wanted``, in the order of
    ``wanted``.

    Raises CommandError for topics that do not exist, unless ``fine`` is True. The error says
    "nothing was ``done``", where ``done`` is a participle such as "deleted". A pattern matches
    internal topics only if ``internal`` is True. The function requests all topics, because before
    Kafka 0.11 a request that names a topic creates the topic.
    """
    answer = cluster.metadata(None)
    found = {topic["name"]: topic for topic in answer["topics"]}
    hidden = () if internal else [name for name, topic in found.items() if topic["is_internal"]]
    names, missing = chosen(wanted, found, hidden)
    if missing and not fine:
        nothing = f"; nothing was {done}" if done and len(wanted) > 1 else ""
        what, meant = spelled(missing, "topic"), nearest(missing, found)
        raise refused(what, UNKNOWN_TOPIC_OR_PARTITION, f"not found{nothing}", meant)
    return {**answer, "topics": [found[name] for name in names]}


def existing_partitions(
    cluster: Cluster, wanted: Sequence[str], done: str = ""
) -> dict[Partition, Connection]:
    """Returns the partitions that match ``TOPIC`` or ``TOPIC:0-1,5``, each with the connection to
    its leader. Raises CommandError for a topic or partition that does not exist or has no leader.
    """
    parsed = [parse_partitions(text) for text in wanted]
    answer = existing(cluster, [topic for topic, _ in parsed], done)
    topics = {topic["name"]: topic for topic in answer["topics"]}
    internal = [name for name, topic in topics.items() if topic["is_internal"]]
    leaders = cluster.leaders_in(answer)
    found: dict[Partition, Connection] = {}
    for text, numbers in parsed:
        for name in chosen([text], topics, internal).names:
            present = {each["partition_index"] for each in topics[name]["partitions"]}
            if missing := sorted(set(numbers or ()) - present):
                raise no_partition(f"{name}:{missing[0]}", name)
            for number in sorted(numbers or present):
                if (name, number) not in leaders:
                    raise refused(f"{name}:{number}", LEADER_NOT_AVAILABLE)
                found[name, number] = leaders[name, number]
    return found


def no_partition(partition: str, topic: str) -> CommandError:
    return CommandError(
        f"partition {partition} does not exist; `muster topics describe {topic}` lists the"
        " partitions",
        REFUSED,
    )
