"""The topics that names and patterns mean."""

from __future__ import annotations

from collections.abc import Sequence

from cli.client.cluster import Cluster
from cli.errors import refused
from cli.patterns import chosen, is_pattern
from protocol.errors import UNKNOWN_TOPIC_OR_PARTITION


def existing(cluster: Cluster, wanted: Sequence[str], done: str) -> list[str]:
    """The topics that names and patterns mean; CommandError names those that are not there.

    A pattern means no internal topic. All topics are asked for, since before Kafka 0.11 to name one
    is to create it.
    """
    found = {topic["name"]: topic for topic in cluster.metadata(None)["topics"]}
    internal = {name for name, topic in found.items() if topic["is_internal"]}
    names, missing = chosen(wanted, found, internal)
    if missing:
        plain = ", ".join(name for name in missing if not is_pattern(name))
        patterns = ", ".join(name for name in missing if is_pattern(name))
        parts = [f"topic {plain}" if plain else "", f"topics like {patterns}" if patterns else ""]
        nothing = f"; nothing was {done}" if len(wanted) > 1 else ""
        what = " and ".join(filter(None, parts))
        raise refused(what, UNKNOWN_TOPIC_OR_PARTITION, f"not there{nothing}")
    return names
