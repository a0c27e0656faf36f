"""Clients that create and delete topics, and check that a deleted topic leaves no committed
offsets."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import (
    NONE,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.simulation.clients import PARTITIONS, TOPICS
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Client, Sent, WireRequest
from tests.simulation.whole.record_clients import LEDGER, RECORD_PARTITIONS, STREAM

if TYPE_CHECKING:
    from tests.simulation.whole.world import World

MADE = TOPICS[:2]
"""Topics that exist. The third name in TOPICS is invalid, so the broker rejects commits for this
topic."""


def _created(name: str, partitions: int, flushed: bool = False) -> dict[str, Any]:
    configs = [{"name": "flush.messages", "value": "1"}] if flushed else []
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": configs,
    }


class TopicAdmin(Client):
    """Creates the topics that all clients need. Also makes the broker create __consumer_offsets."""

    def act(self) -> None:
        topics = [
            *(_created(name, PARTITIONS) for name in MADE),
            _created(LEDGER, RECORD_PARTITIONS, flushed=True),
            _created(STREAM, RECORD_PARTITIONS),
        ]
        if not self.world.topics_made:
            value = {"topics": topics, "timeout_ms": 30_000, "validate_only": False}
            self.send(WireRequest("CreateTopics", self.chance.randint(2, 6), value))
        else:
            value = {"key": "anything", "key_type": 0}
            self.send(WireRequest("FindCoordinator", self.chance.randint(1, 3), value))

    def hear(self, sent: Sent, frame: bytes) -> None:
        answer = sent.answer_in(frame)
        if sent.request.name == "CreateTopics":
            codes = {topic["error_code"] for topic in answer["topics"]}
            self.world.topics_made = codes <= {NONE, TOPIC_ALREADY_EXISTS}
            self.think_after(100 * MS)
        else:
            made = answer["error_code"] == NONE
            self.think_after((30 if made else 1) * S)


class TopicLife(Client):
    """Repeatedly creates a topic, commits offsets for it and deletes it. Asserts that the deletion
    removes all offsets."""

    def __init__(self, world: World, name: str, host: str, chance: Random) -> None:
        super().__init__(world, name, host, chance)
        self.lives = 0
        self._group_id = f"committed for {name}"
        self._stage = self._create
        self._surely_new = True
        """True if no committed offset of an earlier topic with this name can exist."""
        self._surely_deleted = True
        """True if the deletion has certainly ended. A deletion whose response was lost may still be
        in progress."""

    def power_fails(self) -> None:
        """Called after a power failure. If the records of __consumer_offsets are not fsynced at
        once, the failure can remove tombstones of offsets, so that deleted offsets exist again.
        From now on, the client accepts this."""
        self._stage = self._create
        self._surely_new = False

    def act(self) -> None:
        self._stage()

    def hear(self, sent: Sent, frame: bytes) -> None:
        sent.about(sent.answer_in(frame))
        self.think_after(self.chance.choice((10, 300, 2_000)) * MS)

    def _create(self) -> None:
        value = {"topics": [_created(self.name, 2)], "timeout_ms": 30_000, "validate_only": False}
        self.send(WireRequest("CreateTopics", self.chance.randint(2, 6), value), self._created)

    def _created(self, answer: dict[str, Any]) -> None:
        if answer["topics"][0]["error_code"] in (NONE, TOPIC_ALREADY_EXISTS):
            self._stage = self._look_for_old_offsets if self._surely_new else self._commit

    def _look_for_old_offsets(self) -> None:
        """Fetches the offsets of the recreated topic before the first commit for it."""
        self._fetch(self._commit)

    def _commit(self) -> None:
        partitions = [
            {"partition_index": i, "committed_offset": 7, "committed_metadata": "of a life"}
            for i in range(2)
        ]
        value = {
            "group_id": self._group_id,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": self.name, "partitions": partitions}],
        }
        request = WireRequest("OffsetCommit", self.chance.randint(2, 8), value)
        self.send(request, self._committed)

    def _committed(self, answer: dict[str, Any]) -> None:
        if {each["error_code"] for each in answer["topics"][0]["partitions"]} == {NONE}:
            self._stage, self._surely_new = self._delete, True

    def _delete(self) -> None:
        value = {"topic_names": [self.name], "timeout_ms": 30_000}
        self.send(WireRequest("DeleteTopics", self.chance.randint(1, 5), value), self._deleted)

    def _deleted(self, answer: dict[str, Any]) -> None:
        """Processes the response to a deletion.

        UNKNOWN_TOPIC_OR_PARTITION counts as success, because an earlier request may have deleted
        the topic before its response was lost.
        """
        code = answer["responses"][0]["error_code"]
        if code in (NONE, UNKNOWN_TOPIC_OR_PARTITION):
            self._surely_deleted = code == NONE
            self._stage = self._look_for_topic

    def _look_for_topic(self) -> None:
        value = {"topics": [{"name": self.name}], "allow_auto_topic_creation": False}
        self.send(WireRequest("Metadata", self.chance.randint(4, 8), value), self._looked)

    def _looked(self, answer: dict[str, Any]) -> None:
        code = answer["topics"][0]["error_code"]
        assert code == UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} was deleted, and has {code}"
        self._stage = self._look_for_offsets

    def _look_for_offsets(self) -> None:
        dice = self.chance.random()
        again = dice < 0.4
        self._fetch(self._look_for_topic if again else self._create)

    def _fetch(self, then: Any) -> None:
        topics = [{"name": self.name, "partition_indexes": [0, 1]}]
        value = {"group_id": self._group_id, "topics": topics}

        def fetched(answer: dict[str, Any]) -> None:
            if answer["error_code"]:
                return
            partitions = answer["topics"][0]["partitions"]
            if self.world.drops_offsets_later():
                return
            offsets = {each["committed_offset"] for each in partitions}
            if offsets != {-1} and not self._surely_deleted:
                return  # the client checks again later
            assert offsets == {-1}, f"of {self.name}, which was deleted, {offsets} are left"
            self._surely_deleted = True
            self.lives += then == self._create
            self._stage = then

        self.send(WireRequest("OffsetFetch", self.chance.randint(2, 5), value), fetched)
