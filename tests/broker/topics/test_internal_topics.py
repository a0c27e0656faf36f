"""The broker creates the internal topics of streams groups once, and keeps the reason if a creation
fails."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, cast

import pytest

from broker.topics import internal_topics
from broker.topics.internal_topics import InternalTopics
from broker.topics.registry import Registry, Topic
from broker.topics.topic_changes import BadFactor, TopicChanges, TopicExists
from offsets.streams_records import InternalTopic

LOG = InternalTopic("log", 2, -1, (("cleanup.policy", "compact"),))


class Topics:
    """A fake of `TopicChanges` and `Registry` that creates topics in memory."""

    def __init__(self) -> None:
        self.created: list[tuple[str, int, dict[str, str], Sequence[Sequence[int]] | None]] = []
        self.known: dict[str, Topic] = {}
        self.error: Exception | None = None
        self.same: list[str] = []

    def topic(self, name: str) -> Topic | None:
        return self.known.get(name)

    def check_new(self, name: str) -> None:
        if name in self.known:
            raise TopicExists(name)

    def collisions(self, name: str) -> list[str]:
        return self.same

    def placed(self, partitions: int, factor: int) -> list[tuple[int, ...]]:
        if factor > 1:
            raise BadFactor(f"replication factor {factor} is larger than available brokers: 1")
        return [(1,)] * partitions

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> Topic:
        if self.error is not None:
            raise self.error
        self.created.append((name, partitions, dict(configs), assignment))
        topic = self.known[name] = Topic(name, b"t" * 16, partitions)
        return topic


class Creation:
    """An `InternalTopics` whose background work runs only when the test calls `run`."""

    def __init__(self) -> None:
        self.topics = Topics()
        self.works: list[Coroutine[Any, Any, None]] = []
        self.internal = InternalTopics(
            cast(Registry, self.topics),
            cast(TopicChanges, self.topics),
            lambda: 1,
            lambda work, _: self.works.append(work),
        )

    def create(self, *topics: InternalTopic) -> None:
        self.internal.create(topics)
        self.run()

    def run(self) -> None:
        works, self.works = self.works, []
        for work in works:
            asyncio.run(work)


@pytest.fixture
def creation() -> Creation:
    return Creation()


def test_missing_internal_topic_is_created_with_its_partitions_and_settings(
    creation: Creation,
) -> None:
    creation.create(LOG)
    assert creation.topics.created == [("log", 2, {"cleanup.policy": "compact"}, [(1,), (1,)])]
    assert creation.internal.faults([LOG]) == {}


def test_internal_topic_that_exists_or_is_being_created_is_not_created_again(
    creation: Creation,
) -> None:
    creation.internal.create([LOG])
    creation.internal.create([LOG])
    assert len(creation.works) == 1
    creation.run()
    creation.internal.create([LOG])
    assert creation.works == []
    assert len(creation.topics.created) == 1


def test_no_error_is_reported_when_another_request_creates_the_internal_topic_first(
    creation: Creation,
) -> None:
    creation.internal.create([LOG])
    creation.topics.known["log"] = Topic("log", b"t" * 16, 2)
    creation.run()
    assert creation.topics.created == []
    assert creation.internal.faults([LOG]) == {}


@pytest.mark.parametrize(
    ("topic", "error", "same", "reason"),
    [
        (LOG, OSError(28, "No space left on device"), [], "No space left on device"),
        (LOG, None, ["l.g"], "Topic 'log' collides with existing topic: l.g"),
        (InternalTopic("log", 2, 3), None, [], "replication factor 3 is larger"),
        (
            InternalTopic("log", 10_001, 1),
            None,
            [],
            "at most 10000 partitions can be created at once",
        ),
    ],
)
def test_error_of_an_internal_topic_creation_is_reported_until_a_creation_succeeds(
    creation: Creation,
    topic: InternalTopic,
    error: Exception | None,
    same: list[str],
    reason: str,
) -> None:
    creation.topics.error, creation.topics.same = error, same
    creation.create(topic)
    assert reason in creation.internal.faults([topic])["log"]
    creation.topics.error, creation.topics.same = None, []
    creation.create(LOG)
    assert creation.internal.faults([LOG]) == {}
    assert len(creation.topics.created) == 1


def test_next_internal_topic_is_created_after_the_creation_of_another_one_failed(
    creation: Creation,
) -> None:
    creation.create(InternalTopic("bad", 2, 3), LOG)
    assert [name for name, *_ in creation.topics.created] == ["log"]


def test_number_of_stored_reasons_for_failed_internal_topics_is_bounded(
    creation: Creation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_topics, "_FAULTS_KEPT", 2)
    topics = [InternalTopic(name, 1, 3) for name in ("a", "b", "c")]
    creation.create(*topics)
    assert list(creation.internal.faults(topics)) == ["b", "c"]
