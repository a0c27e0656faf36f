"""The share coordinator writes the same records and sends the same replies as Apache Kafka 4.3.1,
and can load Kafka's directory. ``MUSTER_GOLDEN=write`` rewrites the golden file of
tests/share/persister."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from broker.cores.hosted_shard import Phase
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, NONE, NOT_COORDINATOR
from protocol.records.batch import records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from share.values import SharePartitionKey, StoredState
from tests.broker.serving import eventually, serving
from tests.brokers import KafkaBroker, running
from tests.java import RELEASES
from tests.share.persister.driver import replayed
from tests.share.persister.kafka_records import (
    CONFIG,
    PARTITIONS,
    STEPS,
    UPDATES_PER_SNAPSHOT,
    Reply,
    Step,
    StoredRecord,
    core_answers,
    write_golden,
)
from tests.waiting import until
from tests.wire import Wire

pytestmark = pytest.mark.interop

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": str(UPDATES_PER_SNAPSHOT),
    "auto.create.topics.enable": "false",
}
SHARE = 2
APIS = {
    "initialize": ("InitializeShareGroupState", 0),
    "read": ("ReadShareGroupState", 0),
    "summarize": ("ReadShareGroupStateSummary", 1),
    "write": ("WriteShareGroupState", 1),
    "delete": ("DeleteShareGroupState", 0),
}
_NOT_YET = (COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR)


def asked(wire: Wire, step: Step, topic_id: bytes) -> Reply:
    """Sends the request of a step. Repeats it while the coordinator is loading."""
    partition: dict[str, Any] = {"partition": step.partition}
    if step.verb in ("initialize", "write"):
        partition |= {"state_epoch": step.state_epoch, "start_offset": step.start_offset}
    if step.verb in ("read", "write", "summarize"):
        partition["leader_epoch"] = step.leader_epoch
    if step.verb == "write":
        partition["delivery_complete_count"] = step.complete_count
        partition["state_batches"] = [
            dict(zip(("first_offset", "last_offset", "delivery_state", "delivery_count"), each,
                     strict=True))
            for each in step.batches
        ]  # fmt: skip
    topics = [{"topic_id": topic_id, "partitions": [partition]}]
    name, version = APIS[step.verb]

    def answer() -> Any:
        answered = wire.call(name, version, {"group_id": step.group_id, "topics": topics})
        found: dict[str, Any] = answered["results"][0]["partitions"][0]
        return None if found["error_code"] in _NOT_YET else found

    found = until(f"{step} is answered", answer, tolerate=())
    state: tuple[int, ...] | None = None
    batches: tuple[tuple[int, ...], ...] = ()
    if step.verb == "summarize":
        names = ("state_epoch", "start_offset", "leader_epoch", "delivery_complete_count")
        state = tuple(found[each] for each in names)
    elif step.verb == "read" and found["error_code"] == NONE:
        state = found["state_epoch"], found["start_offset"]
        batches = tuple(tuple(each.values()) for each in found["state_batches"])
    return Reply(found["error_code"], found["error_message"], state, batches)


def stored(folder: Path) -> list[StoredRecord]:
    """Returns all records in the log of a partition directory."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    return [
        (record.key or b"", record.value)
        for header, _ in iter_stored(data, partial=True)
        for record in records_of(data, header)
    ]


@pytest.mark.proves("share 8")
def test_share_records_and_replies_of_the_core_equal_those_of_kafka(tmp_path: Path) -> None:
    # Kafka 4.4.0 refuses negative leader epochs, writes the start offset in each update, and has
    # another text for FENCED_STATE_EPOCH.
    kafka = KafkaBroker(tmp_path / "data", SETTINGS, f"kafka-{RELEASES[0]}")
    with running(kafka), Wire(kafka.port) as wire:
        made = [{"name": "t", "num_partitions": PARTITIONS, "replication_factor": 1}]
        answer = wire.call("CreateTopics", 7, {"topics": made, "timeout_ms": 20_000})
        topic_id = answer["topics"][0]["topic_id"]
        key = {"key_type": SHARE, "coordinator_keys": [f"g:{'A' * 22}:0"]}

        def coordinated() -> bool:
            (each,) = wire.call("FindCoordinator", 6, key)["coordinators"]
            return bool(each["error_code"] == NONE)

        until("there is a coordinator", coordinated)
        replies = [asked(wire, step, topic_id) for step in STEPS]
        records = stored(kafka.partition_folder("__share_group_state", 0))
    if os.environ.get("MUSTER_GOLDEN") == "write":
        write_golden(records, replies)
    assert core_answers(records) == (records, replies)
    found = asyncio.run(loaded(tmp_path / "data"))
    wanted = replayed([Record(0, 0, *each) for each in records], CONFIG).view
    assert found == {key: wanted.state(key) for key in wanted.known_keys}


async def loaded(directory: Path) -> dict[SharePartitionKey, StoredState | None]:
    """Returns the states that Muster loads from Kafka's data directory."""
    async with serving(directory, {}) as broker:
        (hosted,) = broker.share_states.hosted_shards
        await eventually("the load", lambda: hosted.phase is Phase.ACTIVE)
        return {key: hosted.core.view.state(key) for key in hosted.core.view.known_keys}
