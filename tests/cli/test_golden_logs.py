"""`muster logs dump` reads data directories of Kafka 0.10 and 4.3, and files that the test
writes."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.logs.entries import Content
from cli.logs.files import read_file
from log.producers.producer_state import ProducerStates
from protocol import log_records
from protocol.consumer_protocol import encode_assignment, encode_subscription
from protocol.records.batch import encode_batch, read_header
from protocol.records.message_set import encode
from protocol.records.section import Record
from tests.cli import sessions
from tests.log.log_tools import snapshot_of, unpack_kafka_directory

NOW_MS = 1_700_000_000_000
GZIP, LZ4 = 1, 3
FIRST = "00000000000000000000.log"


def records(first: int, last: int) -> list[Record]:
    return [Record(n, NOW_MS + n, b"k", b"%d" % n) for n in range(first, last + 1)]


def internal(name: str, key: dict, version: int, value: dict | None, offset: int) -> Record:
    record = log_records.BY_NAME[f"{name}Key"]
    key_bytes = struct.pack(">h", record.record_type) + log_records.encode(f"{name}Key", 0, key)
    value_bytes = None
    if value is not None:
        encoded = log_records.encode(f"{name}Value", version, value)
        value_bytes = struct.pack(">h", version) + encoded
    return Record(offset, NOW_MS, key_bytes, value_bytes)


def group_records() -> list[Record]:
    member = {
        "member_id": "app-1",
        "group_instance_id": None,
        "client_id": "app",
        "client_host": "/10.0.0.1",
        "rebalance_timeout": 60_000,
        "session_timeout": 10_000,
        "subscription": encode_subscription(["orders"]),
        "assignment": encode_assignment({"orders": [0, 2]}),
    }
    group = {
        "protocol_type": "consumer",
        "generation": 3,
        "protocol": "range",
        "leader": "app-1",
        "current_state_timestamp": NOW_MS,
        "members": [member],
    }
    at_5 = {"offset": 5, "metadata": "noted", "commit_timestamp": NOW_MS}
    commit = {"group": "billing", "topic": "orders", "partition": 0}
    return [
        internal("GroupMetadata", {"group": "billing"}, 3, group, 0),
        internal("OffsetCommit", commit, 3, at_5, 1),
        internal("OffsetCommit", commit, 3, None, 2),
        internal("ConsumerGroupMetadata", {"group_id": "new"}, 0, {"epoch": 4}, 3),
        Record(4, NOW_MS, b"\x00\x63???", b"?"),
    ]  # fmt: skip


TOPIC = bytes(range(1, 17))


def share_group_records() -> list[Record]:
    group, member = {"group_id": "shared"}, {"group_id": "shared", "member_id": "m-1"}
    metadata = {
        "rack_id": None,
        "client_id": "app",
        "client_host": "/10.0.0.1",
        "subscribed_topic_names": ["orders"],
    }
    partitions = [{"topic_id": TOPIC, "partitions": [0, 2]}]
    current = {
        "member_epoch": 2,
        "previous_member_epoch": 1,
        "state": 0,
        "assigned_partitions": partitions,
    }
    topic = {"topic_id": TOPIC, "topic_name": "orders"}
    states = {
        "initializing_topics": [],
        "initialized_topics": [{**topic, "partitions": [0, 2]}],
        "deleting_topics": [],
    }
    kinds = [
        ("ShareGroupMemberMetadata", member, metadata),
        ("ShareGroupMetadata", group, {"epoch": 2, "metadata_hash": 5}),
        ("ShareGroupTargetAssignmentMetadata", group, {"assignment_epoch": 2}),
        ("ShareGroupTargetAssignmentMember", member, {"topic_partitions": partitions}),
        ("ShareGroupCurrentMemberAssignment", member, current),
        ("ShareGroupStatePartitionMetadata", group, states),
    ]
    return [internal(name, key, 0, value, at) for at, (name, key, value) in enumerate(kinds)]


def share_state_records() -> list[Record]:
    key = {"group_id": "shared", "topic_id": TOPIC, "partition": 2}
    rejected = {"first_offset": 7, "last_offset": 7, "delivery_state": 4, "delivery_count": 5}
    update = {
        "snapshot_epoch": 1,
        "leader_epoch": 0,
        "start_offset": 7,
        "state_batches": [rejected],
        "delivery_complete_count": 1,
    }
    snapshot = {
        **update,
        "state_epoch": 1,
        "create_timestamp": NOW_MS,
        "write_timestamp": NOW_MS + 1,
    }
    return [
        internal("ShareSnapshot", key, 0, snapshot, 0),
        internal("ShareUpdate", key, 0, update, 1),
        internal("ShareSnapshot", key, 0, None, 2),
    ]


TRANSACTION = {
    "producer_id": 7,
    "producer_epoch": 1,
    "transaction_timeout_ms": 60_000,
    "transaction_status": 1,
    "transaction_partitions": [{"topic": "orders", "partition_ids": [0]}],
    "transaction_last_update_timestamp_ms": NOW_MS,
    "transaction_start_timestamp_ms": NOW_MS,
}


def make(folder: Path) -> None:
    """Writes one file of each kind that `logs dump` reads, and one file of an unknown kind."""
    made = {
        name: folder / "made" / name
        for name in (
            "mixed-0",
            "__consumer_offsets-1",
            "__consumer_offsets-2",
            "__transaction_state-0",
            "__share_group_state-0",
        )
    }
    for each in made.values():
        each.mkdir(parents=True)
    idempotent = encode_batch(
        records(10, 11), compression=LZ4, producer_id=7, producer_epoch=1, base_sequence=4
    )
    marker = Record(12, NOW_MS, struct.pack(">hh", 0, 1), b"\0" * 6)
    control = encode_batch(
        [marker], producer_id=7, producer_epoch=1, is_control=True, is_transactional=True
    )
    mixed = encode(records(0, 1), 0) + encode(records(2, 4), 0, GZIP) + encode(records(5, 6), 1)
    mixed += encode(records(7, 9), 1, GZIP) + idempotent + control + bytes(100)
    (made["mixed-0"] / FIRST).write_bytes(mixed)
    (made["mixed-0"] / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 10\n")
    (made["mixed-0"] / "00000000000000000000.txnindex").write_bytes(
        struct.pack(">hqqqq", 0, 7, 10, 12, 10)
    )
    producers = ProducerStates()
    producers.note(read_header(idempotent))
    (made["mixed-0"] / "00000000000000000012.snapshot").write_bytes(snapshot_of(producers))
    (made["__consumer_offsets-1"] / FIRST).write_bytes(encode_batch(group_records()))
    transaction = internal("TransactionLog", {"transactional_id": "tx"}, 0, TRANSACTION, 0)
    (made["__consumer_offsets-2"] / FIRST).write_bytes(encode_batch(share_group_records()))
    (made["__share_group_state-0"] / FIRST).write_bytes(encode_batch(share_state_records()))
    (made["__transaction_state-0"] / FIRST).write_bytes(encode_batch([transaction]))
    (folder / "made" / "groups.image").write_bytes(image_of_the_page())
    (folder / "made" / "stranger.txt").write_text("hello")


def image_of_the_page() -> bytes:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "groups-image.md").read_text()
    block = re.search(r"```hex\n(.*?)```", page, re.DOTALL)
    assert block
    return bytes.fromhex(re.sub(r"#.*", "", block[1]))


def damage(folder: Path) -> None:
    """Writes damaged log segments, a damaged producer snapshot and a damaged checkpoint into
    ``folder``."""
    folder.mkdir()
    batches = [encode_batch(records(n, n)) for n in range(3)]
    flipped = bytearray(batches[1])
    flipped[-2] ^= 1
    (folder / FIRST).write_bytes(batches[0] + flipped + batches[2])
    (folder / "00000000000000000002.log").write_bytes(batches[2] + batches[2][:30])
    (folder / "00000000000000000000.snapshot").write_bytes(b"\0\1" + bytes(8))
    (folder / "broken-checkpoint").write_text("0\n3\norders 0 5\nwhat\n")


def test_logs_dump_prints_the_golden_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for target, name in (("new", "kafka-4.3.1-killed"), ("old", "kafka-0.10.2.2-clean")):
        unpack_kafka_directory(name, tmp_path).rename(tmp_path / target)
    make(tmp_path)
    damage(tmp_path / "damaged-0")
    monkeypatch.setattr(sessions, "FOLDER", str(tmp_path))

    sessions.check("logs")


SMALL = encode_batch(records(0, 2)) + encode(records(3, 4), 1, GZIP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytes")


@pytest.mark.parametrize(
    "name",
    [FIRST, "0.index", "0.timeindex", "0.txnindex", "0.snapshot", "a-checkpoint", "groups.image"],
)
@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.integers(0, len(SMALL)).map(lambda size: SMALL[:size]),
        st.tuples(st.integers(0, len(SMALL) - 1), st.integers(1, 255)).map(
            lambda at: SMALL[: at[0]] + bytes([SMALL[at[0]] ^ at[1]]) + SMALL[at[0] + 1 :]
        ),
    )
)
def test_logs_dump_reads_random_and_damaged_files_without_an_exception(
    folder: Path, name: str, data: bytes
) -> None:
    path = folder / name
    path.write_bytes(data)
    kinds = [entry["kind"] for entry in read_file(path, True, Content.OFFSETS, 0)]

    assert kinds or not data.strip(b"\0") or name.endswith("checkpoint")
