"""Commits of a real client, sent when the group has a coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests import waiting


def commit(
    settings: Mapping[str, str], group: str, *commits: Sequence[tuple[str, int, int]]
) -> None:
    """Commits each (topic, partition, offset) with its own request, without joining the group."""
    consumer = Consumer({**settings, "group.id": group})
    for some in commits:
        places = [TopicPartition(*each) for each in some]
        waiting.until(
            f"{group} commits",
            lambda places=places: consumer.commit(offsets=places, asynchronous=False),
            tolerate=KafkaException,
        )
    consumer.close()
