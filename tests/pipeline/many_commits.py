"""Commits many offsets on a running broker with the Kafka protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests import waiting
from tests.brokers import Broker
from tests.interop.cluster import Cluster
from tests.raw_connection import RawConnection

TOPIC = "streamed"
PARTITIONS = 50


def prepare(broker: Broker) -> None:
    """Creates the topic, and waits until the group coordinator accepts commits."""
    Cluster(broker.bootstrap).create_topic(TOPIC, PARTITIONS)
    with RawConnection(broker.port) as connection:
        waiting.until(
            "a coordinator is found",
            lambda: connection.call("FindCoordinator", 1, key="x", key_type=0)["error_code"] == 0,
        )


def commit(broker: Broker, groups: range) -> None:
    """Commits the offsets of 50 partitions of one topic for each group in ``groups``."""
    with RawConnection(broker.port) as connection:
        for group in groups:
            waiting.until(f"the commit of group {group} is taken", _committing(connection, group))


def _committing(connection: RawConnection, group: int) -> Callable[[], bool]:
    part: dict[str, Any] = {
        "committed_offset": group,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    partitions = [{"partition_index": p, **part} for p in range(PARTITIONS)]

    def answered() -> bool:
        answer = connection.call(
            "OffsetCommit",
            7,
            group_id=f"streamed-{group}",
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": TOPIC, "partitions": partitions}],
        )
        [topic] = answer["topics"]
        return {p["error_code"] for p in topic["partitions"]} == {0}

    return answered
