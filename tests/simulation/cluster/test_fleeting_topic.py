"""Tests of the checks in `FleetingTopic`, the simulated client that deletes and recreates a topic.

A deletion may be acknowledged before the nodes of the topic are deleted. A new controller may then
restore the topic. Clients can write to the restored topic until it is deleted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.errors import (
    NONE,
    REQUEST_TIMED_OUT,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.simulation.cluster.client import ANYBODY
from tests.simulation.cluster.controller_clients import FleetingTopic
from tests.simulation.whole.agenda import Agenda


class _LastChoice(Random):
    """A fake random source that always chooses the last option. The client therefore reads after
    each write, and deletes the topic after each read."""

    def choice(self, seq: Any) -> Any:
        return seq[-1]


class _Conversation:
    """A `FleetingTopic` client with responses that the test specifies."""

    def __init__(self) -> None:
        cluster = SimpleNamespace(
            agenda=Agenda(), happened=Counter(), leads=lambda node_id, topic, partition: True
        )
        self.client = FleetingTopic(cast("Any", cluster), "fleeting", "client", _LastChoice(1))
        self.client.wire = cast("Any", SimpleNamespace(send=lambda data: None))

    def _answer(self, asked: str, answer: dict[str, Any]) -> None:
        self.client.work()
        sent = self.client.sent.popleft()
        assert sent.request.name == asked
        self.client.heard(sent, answer)

    def creates(self, code: int) -> None:
        self._answer("CreateTopics", {"topics": [{"error_code": code}]})

    def writes(self, code: int, offset: int = -1) -> None:
        partition = {"error_code": code, "base_offset": offset}
        self._answer("Produce", {"responses": [{"partition_responses": [partition]}]})

    def reads(self, log: Sequence[bytes]) -> None:
        records = b"".join(
            encode_batch([Record(offset, 1_000, None, value)], base_offset=offset)
            for offset, value in enumerate(log)
        )
        partition = {"error_code": NONE, "records": records, "high_watermark": len(log)}
        self._answer("Fetch", {"responses": [{"partitions": [partition]}]})

    def deletes(self, code: int) -> None:
        self._answer("DeleteTopics", {"responses": [{"error_code": code}]})

    def finds_no_topic(self) -> None:
        topic = {"error_code": UNKNOWN_TOPIC_OR_PARTITION, "name": "fleeting", "partitions": []}
        assert self.client.found({"topics": [topic]}) == ANYBODY


@pytest.fixture
def gone_late() -> _Conversation:
    """Returns a client that wrote the value 1/1 to a topic while the deletion of the topic was
    pending. The topic was then deleted, and the client created it again."""
    client = _Conversation()
    client.creates(TOPIC_ALREADY_EXISTS)
    client.writes(NONE, offset=0)
    client.finds_no_topic()
    client.creates(NONE)
    return client


def test_checker_accepts_a_record_loss_that_a_late_topic_deletion_can_explain(
    gone_late: _Conversation,
) -> None:
    gone_late.writes(REQUEST_TIMED_OUT)
    gone_late.writes(NONE, offset=1)

    gone_late.reads([b"2/2", b"2/3"])


def test_checker_detects_records_that_reappear_after_a_late_topic_deletion(
    gone_late: _Conversation,
) -> None:
    gone_late.writes(NONE, offset=1)

    with pytest.raises(AssertionError, match="has b'1/1' at 0 in life 2"):
        gone_late.reads([b"1/1", b"2/2"])


def test_checker_detects_records_of_a_deleted_topic_in_the_recreated_topic() -> None:
    client = _Conversation()
    client.creates(NONE)
    client.writes(NONE, offset=0)
    client.reads([b"1/1"])
    client.deletes(NONE)
    client.creates(NONE)
    client.writes(NONE, offset=1)

    with pytest.raises(AssertionError, match="has b'1/1' at 0 in life 2"):
        client.reads([b"1/1", b"2/2"])


def test_checker_expects_an_acknowledged_record_until_its_topic_is_deleted(
    gone_late: _Conversation,
) -> None:
    gone_late.writes(REQUEST_TIMED_OUT)
    gone_late.writes(NONE, offset=0)

    with pytest.raises(AssertionError, match="b'2/3' at 0 is b'2/2'"):
        gone_late.reads([b"2/2"])
