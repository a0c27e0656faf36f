"""Deletion of topics on full or failing disks. A topic is deleted as soon as its deletion mark is
written. Two logs never share a file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from broker.topics import deletions, partition
from broker.topics.registry import OFFSETS_TOPIC
from log.errors import LogPoisoned
from protocol.errors import (
    KAFKA_STORAGE_ERROR,
    NONE,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.partitions import partition_of
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import create_topic, fetch, metadata, produce, topic_id
from tests.broker.topics.test_broken_disks import commit, until_done
from tests.simulated_files import SimulatedFiles
from tests.wire import Wire, batch, values_of

SETTINGS = {"offsets.topic.num.partitions": "1", "log.cleaner.enable": "false"}
DATA = "/data"


def delete(wire: Wire, *names: str) -> dict[str, int]:
    answer = wire.call("DeleteTopics", 5, {"topic_names": list(names), "timeout_ms": 10_000})
    return {entry["name"]: entry["error_code"] for entry in answer["responses"]}


def read(wire: Wire, name: str) -> list[bytes | None]:
    """Returns the values of all records in the first partition of the topic."""
    found: list[bytes | None] = []
    while values := values_of(fetch(wire, name, len(found))["records"]):
        found += values
    return found


def send(wire: Wire, name: str, *values: bytes) -> int:
    code: int = produce(wire, name, batch(*values))["error_code"]
    return code


def make_with_records(wire: Wire, *names: str) -> None:
    for name in names:
        assert create_topic(wire, name)["error_code"] == NONE
        assert send(wire, name, name.encode()) == NONE


async def test_failed_write_of_the_topic_list_cancels_a_topic_deletion() -> None:
    """After the failed deletion the producer continues, and the next write of the topic list does
    not delete the topic."""
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        before = await asked(broker, lambda wire: topic_id(wire, "t"))
        fs.fail("write", "topics.json.spare")

        def refused_and_on(wire: Wire) -> None:
            assert delete(wire, "t") == {"t": KAFKA_STORAGE_ERROR}
            assert metadata(wire, "t")["topics"][0]["topic_id"] == before
            assert send(wire, "t", b"later") == NONE
            assert create_topic(wire, "other")["error_code"] == NONE  # also writes the topic list

        await asked(broker, refused_and_on)
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        assert await asked(broker, lambda wire: topic_id(wire, "t")) == before
        assert await asked(broker, lambda wire: read(wire, "t")) == [b"t", b"later"]


async def test_failed_deletion_of_one_topic_does_not_affect_other_topics() -> None:
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "a", "b", "c"))
        marked = broker.registry.mark_deleted

        def mark(name: str) -> None:
            if name == "b":
                fs.fail("fsync", "topics.json.spare")
            marked(name)

        broker.registry.mark_deleted = mark  # type: ignore[method-assign]
        codes = await asked(broker, lambda wire: delete(wire, "a", "b", "c", "none"))
        assert codes == {
            "a": NONE, "b": KAFKA_STORAGE_ERROR, "c": NONE, "none": UNKNOWN_TOPIC_OR_PARTITION,
        }  # fmt: skip
        assert await asked(broker, lambda wire: read(wire, "b")) == [b"b"]
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        assert list(broker.registry.topics) == ["b"]


@pytest.mark.parametrize("restart", [False, True])
async def test_topics_are_deleted_on_a_full_disk(restart: bool) -> None:
    """The disk has no free byte, and one request deletes several topics."""
    fs = SimulatedFiles()
    names = [f"t{number}" for number in range(5)]
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "kept", *names))
        fs.capacity_bytes -= fs.room(0)

        codes = await asked(broker, lambda wire: delete(wire, *names))

        assert codes == dict.fromkeys(names, NONE)
        if not restart:
            fs.capacity_bytes += 1 << 20
            await asked(broker, lambda wire: make_with_records(wire, "t1"))
    fs.capacity_bytes += 1 << 20
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        expected = {"kept"} if restart else {"kept", "t1"}
        assert set(broker.registry.topics) == expected
        if restart:
            await asked(broker, lambda wire: make_with_records(wire, "t1"))
        assert await asked(broker, lambda wire: read(wire, "t1")) == [b"t1"]
        assert await asked(broker, lambda wire: read(wire, "kept")) == [b"kept"]


async def test_topic_and_broker_settings_can_be_altered_on_a_full_disk() -> None:
    """An operator must be able to shorten the retention in order to free space on the disk."""

    def alter(wire: Wire, kind: int, name: str, key: str, value: str) -> int:
        changed = {"name": key, "config_operation": 0, "value": value}
        resource = {"resource_type": kind, "resource_name": name, "configs": [changed]}
        answer = wire.call("IncrementalAlterConfigs", 1, {"resources": [resource]})
        code: int = answer["responses"][0]["error_code"]
        return code

    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        assert await asked(broker, lambda wire: alter(wire, 4, "", "log.retention.ms", "9")) == NONE
        fs.capacity_bytes -= fs.room(0)

        assert await asked(broker, lambda wire: alter(wire, 2, "t", "retention.ms", "1")) == NONE
        assert await asked(broker, lambda wire: alter(wire, 4, "", "log.retention.ms", "2")) == NONE
        assert broker.config["log.retention.ms"] == 2
    fs.capacity_bytes += 1 << 20
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        assert broker.registry.topics["t"].configs == {"retention.ms": "1"}
        assert broker.config["log.retention.ms"] == 2


@pytest.mark.parametrize("operation", ["rename", "fsync_directory"])
async def test_failed_removal_of_a_deleted_topics_files_is_repeated(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new topic can have the same name as soon as the directory of the deleted topic has been
    renamed."""
    monkeypatch.setattr(deletions, "RETRY_MS_FIRST", 1)
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        retire = broker.logs.retire

        def failing(*args: Any) -> list[str]:
            fs.fail(operation, "-delete" if operation == "rename" else DATA)
            return retire(*args)

        broker.logs.retire = failing  # type: ignore[method-assign]

        def deleted_and_not_free(wire: Wire) -> None:
            assert delete(wire, "t") == {"t": NONE}
            assert create_topic(wire, "t")["error_code"] == TOPIC_ALREADY_EXISTS
            assert send(wire, "t", b"lost") == UNKNOWN_TOPIC_OR_PARTITION
            assert delete(wire, "t") == {"t": UNKNOWN_TOPIC_OR_PARTITION}

        await asked(broker, deleted_and_not_free)
        broker.logs.retire = retire  # type: ignore[method-assign]
        await eventually("the name is free", lambda: "t" not in broker.mode.deletions)
        await asked(broker, lambda wire: create_topic(wire, "t"))
        assert await asked(broker, lambda wire: read(wire, "t")) == []


@pytest.mark.parametrize("heals", ["while it runs", "before the next start", "after it"])
async def test_start_completes_a_topic_deletion_that_a_stop_interrupted(
    heals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "RETRY_MS_FIRST", 5)
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        fs.fail("rename", "-delete", count=1 << 30)
        assert await asked(broker, lambda wire: delete(wire, "t")) == {"t": NONE}
        if heals == "while it runs":
            fs.heal()
            await eventually("the name is free", lambda: "t" not in broker.mode.deletions)
    if heals == "before the next start":
        fs.heal()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        assert "t" not in broker.registry.topics
        fs.heal()
        await eventually("the name is free", lambda: "t" not in broker.mode.deletions)
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        assert await asked(broker, lambda wire: read(wire, "t")) == [b"t"]


@pytest.mark.parametrize("fails", [False, True])
async def test_requests_are_answered_while_the_deletion_of_a_topic_is_written_to_disk(
    fails: bool,
) -> None:
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        await asked(broker, lambda wire: until_done(lambda: commit(wire, 0)))
        began, go_on = threading.Event(), threading.Event()
        marked = broker.registry.mark_deleted

        def mark(name: str) -> None:
            began.set()
            assert go_on.wait(10)
            if fails:
                fs.fail("write", "topics.json.spare")
            marked(name)

        broker.registry.mark_deleted = mark  # type: ignore[method-assign]
        deleting = asyncio.ensure_future(asked(broker, lambda wire: delete(wire, "t")))
        await eventually("the mark is being written", began.is_set)

        def meanwhile(wire: Wire) -> None:
            assert send(wire, "t", b"meanwhile") == NONE
            assert read(wire, "t") == [b"t", b"meanwhile"]
            assert commit(wire, 1) == NONE
            assert create_topic(wire, "t")["error_code"] == TOPIC_ALREADY_EXISTS
            assert metadata(wire, "t")["topics"][0]["error_code"] == NONE

        await asked(broker, meanwhile)
        go_on.set()
        assert await deleting == {"t": KAFKA_STORAGE_ERROR if fails else NONE}
        broker.registry.mark_deleted = marked  # type: ignore[method-assign]
        if fails:
            found = await asked(broker, lambda wire: read(wire, "t"))
            assert found == [b"t", b"meanwhile"]
        else:
            await asked(broker, lambda wire: create_topic(wire, "t"))
            assert await asked(broker, lambda wire: read(wire, "t")) == []


async def test_failed_fsync_of_the_registry_directory_stops_the_broker() -> None:
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        fs.fail("fsync_directory", DATA)

        assert await asked(broker, lambda wire: delete(wire, "t")) == {"t": KAFKA_STORAGE_ERROR}

        assert broker.stopped.is_set()
        assert "the topic list may not be on the disk" in str(broker.fatal)
    fs.kill()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        assert await asked(broker, lambda wire: read(wire, "t")) == [b"t"]


# -- two logs never share a file


async def test_create_topic_is_refused_when_its_directory_has_an_unknown_log() -> None:
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        theirs = f"{DATA}/t-1/00000000000000000042.log"
        fs.put(theirs, b"what nobody knows")

        answer = await asked(broker, lambda wire: create_topic(wire, "t", 3))

        assert answer["error_code"] == KAFKA_STORAGE_ERROR
        assert "t-1 has the log of an unknown topic" in answer["error_message"]
        assert fs.written(theirs) == b"what nobody knows"
        assert not fs.exists(f"{DATA}/t-0")
        assert broker.registry.topic("t") is None
        await asked(broker, lambda wire: make_with_records(wire, "other"))
        assert fs.list(f"{DATA}/t-1") == ["00000000000000000042.log"]


@pytest.mark.parametrize("removing", [True, False])
async def test_failed_topic_creation_leaves_no_directories(
    removing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the broker cannot remove the directories at once, it removes them later."""
    monkeypatch.setattr(deletions, "RETRY_MS_FIRST", 1)
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        fs.fail("open", "t-2/00000000000000000000.log")
        remove = fs.remove_directory

        def failing(path: str) -> None:
            raise OSError(5, "no", path)

        if not removing:
            fs.remove_directory = failing  # type: ignore[method-assign]
        answer = await asked(broker, lambda wire: create_topic(wire, "t", 3))
        assert answer["error_code"] == KAFKA_STORAGE_ERROR
        fs.remove_directory = remove  # type: ignore[method-assign]

        await eventually("the name is free", lambda: "t" not in broker.mode.deletions)
        assert not fs.exists(f"{DATA}/t-0")
        await asked(broker, lambda wire: make_with_records(wire, "t"))
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        assert await asked(broker, lambda wire: read(wire, "t")) == [b"t"]


async def test_log_of_a_deleted_topic_is_not_probed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A probe truncates the log's file. A new topic with the same name may already write to a file
    with the same path."""
    monkeypatch.setattr(partition, "PROBE_MS_FIRST", 1)
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        served = partition_of(broker, "t")
        log = served.log
        fs.fail("write", "t-0/00000000000000000000.log")
        with pytest.raises(LogPoisoned) as poisoned:
            log.append(batch(b"refused"), 0, 1)
        entry = broker.logs.topics.pop("t")
        probes: list[Callable[[], None]] = []
        monkeypatch.setattr(log, "probe", lambda: probes.append(log.probe))
        served.poisoned(poisoned.value)
        assert served.is_probing

        await eventually("it is given up", lambda: not served.is_probing)

        assert not probes
        broker.logs.topics["t"] = entry


async def test_recreated_topic_starts_at_offset_0_when_broker_crashes_before_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the recovery point of the deleted topic, the next start would report missing records."""
    fs = SimulatedFiles()

    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        for log in [each.log for each in broker.logs.all()]:
            log.flush()
        broker.logs.write_checkpoints()
        room = fs.room(0)
        fs.capacity_bytes -= room
        assert await asked(broker, lambda wire: delete(wire, "t")) == {"t": NONE}
        fs.capacity_bytes += room
        await asked(broker, lambda wire: create_topic(wire, "t"))
        assert "t" in broker.registry.topics
        monkeypatch.setattr(broker.logs, "write_checkpoints", lambda: None)  # as after a crash
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        assert await asked(broker, lambda wire: read(wire, "t")) == []


async def test_broker_starts_after_a_kill_during_the_recreation_of_a_topic() -> None:
    """The broker removes the checkpoint entries of the old topic before it adds the new topic to
    the topic list."""
    fs = SimulatedFiles()
    killed: list[SimulatedFiles] = []
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await asked(broker, lambda wire: make_with_records(wire, "t"))
        broker.logs.write_checkpoints()
        room = fs.room(0)
        fs.capacity_bytes -= room
        assert await asked(broker, lambda wire: delete(wire, "t")) == {"t": NONE}
        fs.capacity_bytes += room
        make = broker.logs.make

        def kill_and_make(*args: Any) -> Any:
            killed.append(fs.as_killed())
            return make(*args)

        broker.logs.make = kill_and_make  # type: ignore[method-assign]
        await asked(broker, lambda wire: create_topic(wire, "t"))
    async with serving(DATA, SETTINGS, fs=killed[0]) as broker:
        assert await asked(broker, lambda wire: read(wire, "t")) == []
