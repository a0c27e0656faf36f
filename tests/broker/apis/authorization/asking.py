"""Starts a broker with an authorizer, topics and a group, and builds requests. Tests can send the
requests as any user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from broker.broker import Broker
from tests.broker.apis.authorization.rules import ADMIN, Rules
from tests.broker.serving import asked, serving
from tests.waiting import until
from tests.wire import Wire, batch

T = TypeVar("T")
Value = dict[str, Any]

TOPICS = ("orders", "payments")
GROUP = "billing"
SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


class Asking:
    """Sends requests to one broker as any user."""

    def __init__(self, broker: Broker, rules: Rules) -> None:
        self.broker = broker
        self.rules = rules
        self.ids: dict[str, bytes] = {}

    async def ask(self, user: str, api: str, version: int, value: Value) -> Value:
        return await self.talk(user, lambda wire: wire.call(api, version, value))

    async def talk(self, user: str, work: Callable[[Wire], T]) -> T:
        """Runs ``work`` on a connection of the user. Returns the result of ``work``."""
        return await asked(self.broker, work, user)

    def id(self, topic: str) -> bytes:
        found = self.broker.registry.topic(topic)
        assert found is not None
        return found.topic_id


@asynccontextmanager
async def guarded_broker(
    directory: Path, *rules: str, allow_everyone: bool = False, topics: tuple[str, ...] = TOPICS
) -> AsyncIterator[Asking]:
    """Yields an Asking for a broker with these topics. Each topic has one record, and `GROUP` has
    committed an offset for it."""
    judge = Rules(allow_everyone=allow_everyone)
    async with serving(directory, SETTINGS, authorizer=judge) as broker:
        asking = Asking(broker, judge)
        await asking.talk(ADMIN, lambda wire: _fill(wire, topics))
        for rule in rules:
            judge.add(rule)
        judge.asked.clear()
        yield asking


def _fill(wire: Wire, topics: tuple[str, ...]) -> None:
    new = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in topics]
    wire.call("CreateTopics", 5, {"topics": new, "timeout_ms": 10_000})
    for kind in (0, 1):
        key = {"key": GROUP, "key_type": kind}
        until("led", lambda key=key: wire.call("FindCoordinator", 3, key)["error_code"] == 0)
    until("served", lambda: codes(wire.call("Produce", 7, produce(*topics))) <= {0})
    until("committed", lambda: codes(wire.call("OffsetCommit", 8, commit(*topics))) <= {0})


def codes(answer: Any) -> set[int]:
    """Returns the error codes of a response's elements, or the response's own code if it has no
    elements."""
    found = {code for each in _elements(answer) for code in codes(each)}
    if isinstance(answer, dict) and not found:
        return {answer[name] for name in ("error_code", "partition_error_code") if name in answer}
    return found


def _elements(answer: Any) -> list[Any]:
    parts = answer.values() if isinstance(answer, dict) else ()
    return [each for part in parts if isinstance(part, list) for each in part]


def by_name(answer: Value, array: str = "topics") -> dict[str, set[int]]:
    """Returns the error codes of each element of a response, by the element's name or id."""
    found = {}
    for each in answer[array]:
        name = next(
            each[key] for key in ("name", "topic", "topic_id", "group_id", "key") if each.get(key)
        )
        found[name] = codes(each) or {each["error_code"]}
    return found


def produce(*topics: str, transactional: bool = False, **fields: Any) -> Value:
    more = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True, "base_sequence": 0}
    records = batch(b"x", **(more if transactional else {}))
    data = [{"name": name, "partition_data": [{"index": 0, "records": records}]} for name in topics]
    return {
        "transactional_id": None, "acks": 1, "timeout_ms": 10_000, "topic_data": data, **fields,
    }  # fmt: skip


def commit(*topics: str, group: str = GROUP) -> Value:
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    return {
        "group_id": group, "topics": [{"name": name, "partitions": partitions} for name in topics],
    }  # fmt: skip


def fetch(*topics: Any, key: str = "topic", **fields: Any) -> Value:
    """Returns a Fetch request for partition 0 of each topic from offset 0. ``key`` is the field
    that contains the name or id of the topic."""
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    return {
        "max_wait_ms": 0, "min_bytes": 0, "session_epoch": -1, "forgotten_topics_data": [],
        "topics": [{key: name, "partitions": partitions} for name in topics], **fields,
    }  # fmt: skip


def list_offsets(*topics: str) -> Value:
    partitions = [{"partition_index": 0, "timestamp": -1}]
    return {"topics": [{"name": name, "partitions": partitions} for name in topics]}


def metadata(*topics: str) -> Value:
    """Returns a Metadata request that does not create missing topics."""
    return {"topics": [{"name": name} for name in topics], "allow_auto_topic_creation": False}


def join(group: str) -> Value:
    """Returns a JoinGroup request of a static member. (A new dynamic member would get
    MEMBER_ID_REQUIRED first.)"""
    return {
        "group_id": group, "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000,
        "member_id": "", "group_instance_id": "static", "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
