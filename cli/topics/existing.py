"""The topics that names and patterns mean."""

from __future__ import annotations

from collections.abc import Sequence

from cli.client.cluster import Cluster, Value
from cli.errors import refused
from cli.patterns import chosen, is_pattern
from protocol.errors import UNKNOWN_TOPIC_OR_PARTITION


def existing(
    cluster: Cluster,
    wanted: Sequence[str],
    done: str = "",
    *,
    internal: bool = False,
    fine: bool = False,
) -> Value:
    """An answer to Metadata with the topics that names and patterns mean, in that order.

    A pattern means internal topics only where ``internal`` says so. CommandError names those that
    are not there, unless that is fine, and says that nothing was ``done``. All topics are asked
    for, since before Kafka 0.11 to name one is to create it.
    """
    answer = cluster.metadata(None)
    found = {topic["name"]: topic for topic in answer["topics"]}
    hidden = () if internal else [name for name, topic in found.items() if topic["is_internal"]]
    names, missing = chosen(wanted, found, hidden)
    if missing and not fine:
        plain = ", ".join(name for name in missing if not is_pattern(name))
        patterns = ", ".join(name for name in missing if is_pattern(name))
        parts = [f"topic {plain}" if plain else "", f"topics like {patterns}" if patterns else ""]
        nothing = f"; nothing was {done}" if done and len(wanted) > 1 else ""
        what = " and ".join(filter(None, parts))
        raise refused(what, UNKNOWN_TOPIC_OR_PARTITION, f"not there{nothing}")
    return {**answer, "topics": [found[name] for name in names]}
