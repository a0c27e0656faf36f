"""Commits offsets with a real client, and returns when the coordinator has stored them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition

from tests.waiting import until


def commit(consumer: Consumer, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commits offsets by topic and partition. Retries, because librdkafka returns an error until it
    has found the coordinator."""
    places = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
    answers = until(
        "offsets are committed", lambda: consumer.commit(offsets=places, asynchronous=False)
    )
    for each in answers:
        assert each.error is None, each
