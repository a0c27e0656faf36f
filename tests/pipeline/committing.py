"""Commits offsets with a real client, after waiting for the group's coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests import waiting


def commit(
    settings: Mapping[str, str], group: str, *commits: Sequence[tuple[str, int, int]]
) -> None:
    """Sends one OffsetCommit request for each argument in ``commits``, which lists (topic,
    partition, offset). The client does not join the group."""
    consumer = Consumer({**settings, "group.id": group})
    for some in commits:
        places = [TopicPartition(*each) for each in some]
        waiting.until(
            f"{group} commits",
            lambda places=places: consumer.commit(offsets=places, asynchronous=False),
            tolerate=KafkaException,
        )
    consumer.close()
