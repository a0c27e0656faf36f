"""Tests that records of `__consumer_offsets` are decoded to rows: every kind and version, and
undecodable bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offsets.runs import GroupRun, OffsetTombstones
from pipeline.sources import decode
from pipeline.sources.decode import add_entry
from pipeline.sources.event_rows import EventRows
from protocol.log_records import encode
from protocol.records import message_set
from protocol.records.batch import LOG_APPEND_TIME, encode_batch
from protocol.records.markers import encode_end_transaction
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests.pipeline.small_logs import NOON, batch_of, commit, generation

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 2")]
AT_NOON = datetime.fromtimestamp(NOON / 1000, UTC)
KEY = b"\0\1\0\1g\0\1t\0\0\0\7"
GROUP_KEY = b"\0\2\0\1g"


def rows_of(data: bytes, **more: Any) -> list[dict[str, Any]]:
    """Returns the rows of the batches in ``data``, without null columns."""
    rows = EventRows(3)
    for header, _ in iter_stored(data):
        add_entry(rows, data, header, **more)
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in rows.take().to_pylist()
    ]


def one_row(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    [row] = rows_of(encode_batch([Record(41, NOON, key, value)]))
    assert (row.pop("log_partition"), row.pop("log_offset")) == (3, 41)
    assert row.pop("written_at") == AT_NOON
    return row


def test_commit_is_decoded_to_one_row() -> None:
    [row] = rows_of(batch_of(5, commit("g", "t", [1234], epochs=[2], metadata=["why"])))
    assert row == {
        "log_partition": 3,
        "log_offset": 5,
        "written_at": AT_NOON,
        "kind": "commit",
        "value_version": 3,
        "group_id": "g",
        "topic": "t",
        "partition": 0,
        "committed_offset": 1234,
        "leader_epoch": 2,
        "metadata": "why",
        "commit_at": AT_NOON,
    }


def test_generation_is_decoded_to_one_row_with_its_members() -> None:
    [row] = rows_of(batch_of(0, generation("g", 7, {"a": {"t": [0, 2]}, "b": {"t": [1]}})))
    assert (row["kind"], row["group_id"], row["generation"]) == ("group", "g", 7)
    assert (row["protocol_type"], row["protocol"], row["leader"]) == ("consumer", "range", "a")
    assert row["state_at"] == AT_NOON
    first, second = row["members"]
    assert first == {
        "member_id": "a",
        "group_instance_id": None,
        "client_id": "client-a",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 300_000,
        "session_timeout_ms": 30_000,
        "subscription": ["t"],
        "assignment": [{"topic": "t", "topic_id": None, "partitions": [0, 2]}],
    }
    assert second["assignment"] == [{"topic": "t", "topic_id": None, "partitions": [1]}]


def test_members_of_a_connect_group_have_null_as_assignment_and_subscription() -> None:
    run = generation("g", 7, {"a": {"t": [0]}})
    assert run.value is not None
    run.value.protocol_type = "connect"
    [row] = rows_of(batch_of(0, run))
    assert row["members"][0]["assignment"] is None
    assert row["members"][0]["subscription"] is None


def test_tombstones_are_decoded_to_rows() -> None:
    rows = rows_of(batch_of(0, OffsetTombstones("g", [("t", 4), ("u", 0)]), GroupRun("g", None)))
    assert [(r["kind"], r.get("topic"), r.get("partition")) for r in rows] == [
        ("commit_tombstone", "t", 4),
        ("commit_tombstone", "u", 0),
        ("group_tombstone", None, None),
    ]
    assert {row["group_id"] for row in rows} == {"g"}


OFFSET_VALUES = [
    (0, struct.pack(">hqh1sq", 0, 9, 1, b"m", NOON), {}),
    (1, struct.pack(">hqh1sqq", 1, 9, 1, b"m", NOON, NOON + 1000), {"expire_at": 1}),
    (2, struct.pack(">hqh1sq", 2, 9, 1, b"m", NOON), {}),
    (3, struct.pack(">hqih1sq", 3, 9, 6, 1, b"m", NOON), {"leader_epoch": 6}),
    (4, struct.pack(">hqib1sqb", 4, 9, 6, 2, b"m", NOON, 0), {"leader_epoch": 6}),
]


@pytest.mark.parametrize(("version", "value", "more"), OFFSET_VALUES)
@pytest.mark.parametrize("key_type", [0, 1])
def test_every_version_of_an_offset_commit_is_decoded(
    version: int, value: bytes, more: dict[str, Any], key_type: int
) -> None:
    if "expire_at" in more:
        more = {"expire_at": AT_NOON + timedelta(seconds=more["expire_at"])}
    assert one_row(struct.pack(">h", key_type) + KEY[2:], value) == {
        "kind": "commit",
        "value_version": version,
        "group_id": "g",
        "topic": "t",
        "partition": 7,
        "committed_offset": 9,
        "metadata": "m",
        "commit_at": AT_NOON,
        **more,
    }


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_group_metadata_is_decoded(version: int) -> None:
    value = encode(
        "GroupMetadataValue",
        version,
        {
            "protocol_type": "consumer",
            "generation": 2,
            "protocol": None,
            "leader": None,
            "current_state_timestamp": NOON,
            "members": [],
        },
    )
    row = one_row(GROUP_KEY, struct.pack(">h", version) + value)
    assert row.pop("state_at", None) == (AT_NOON if version >= 2 else None)
    assert row == {
        "kind": "group",
        "value_version": version,
        "group_id": "g",
        "protocol_type": "consumer",
        "generation": 2,
        "members": [],
    }


@pytest.mark.parametrize(
    ("key", "value", "group"),
    [
        (b"\0\x63\0\1g", b"\0\0\1\2\3", "g"),
        (b"\0\x63\0\1g", None, "g"),
        (b"\0\x63\0\7g", b"\0\0", None),
        (b"\0\x63\0\1\xff", b"\0\0", None),
        (KEY, b"\0\5" + bytes(22), "g"),
        (GROUP_KEY, b"\0\11", "g"),
        (b"\0\3\0\1g", b"\0\1\0", "g"),
    ],
)
def test_record_of_a_newer_kafka_is_returned_raw_with_its_group(
    key: bytes, value: bytes | None, group: str | None
) -> None:
    row = one_row(key, value)
    assert row.pop("kind") == "unknown"
    version = row.pop("value_version", None)
    assert version == (None if value is None else int.from_bytes(value[:2], "big"))
    told = {"group_id": group, "raw_key": key, "raw_value": value}
    assert row == {name: each for name, each in told.items() if each is not None}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (KEY, b"\0\3" + bytes(3), "a field of 8 bytes"),
        (KEY, b"", "a value of 0 bytes"),
        (KEY[:-5], b"\0\3" + bytes(22), "the offset key has no"),
        (GROUP_KEY + b"!", None, "a group key has 6 bytes"),
        (b"\0\3\0\1g", b"\0\0\1", "ConsumerGroupMetadataValue"),
        (b"\0\5\0\1g", None, "ConsumerGroupMemberMetadataKey"),
        (b"\0\2\0\1\xff", None, "not UTF-8"),
        (None, b"x", "the key is missing"),
    ],
)
def test_undecodable_record_is_returned_raw_with_the_reason(
    key: bytes | None, value: bytes | None, reason: str
) -> None:
    row = one_row(key, value)
    assert row["kind"] == "damaged"
    assert row["damage"]["reason"].startswith(reason) or reason in row["damage"]["reason"]
    assert (row.get("raw_key"), row.get("raw_value")) == (key, value)


def test_row_of_a_damaged_record_has_the_group_id_from_its_key() -> None:
    assert one_row(GROUP_KEY, b"\0\3\0")["group_id"] == "g"
    assert one_row(b"\0\2\0\1\xff", None).get("group_id") is None


def test_other_records_are_decoded_when_a_record_is_damaged() -> None:
    records = [Record(i, NOON, KEY, b"\0\3" + bytes(22)) for i in range(3)]
    records[1] = records[1]._replace(value=b"\0\3\0")
    assert [row["kind"] for row in rows_of(encode_batch(records))] == [
        "commit", "damaged", "commit"
    ]  # fmt: skip


def test_rows_of_large_commits_equal_the_commits() -> None:
    """The decoder decodes consecutive records of the same layout together, as one table. The
    commits of this test have from 1 to 9,000 offsets."""
    sizes = [1, 2, 7, 8, 50, 63, 64, 65, 200, 1, 30, 9000]
    data, base = b"", 100
    runs = [
        commit(
            f"group-{number}", f"topic-{number % 3}", range(number, number + size), NOON + number
        )
        for number, size in enumerate(sizes)
    ]
    for start in (0, 4, 8):
        data += batch_of(base, *runs[start : start + 4])
        base += sum(map(len, runs[start : start + 4]))
    rows = rows_of(data)
    want = [
        (run.group_id, run.topic, partition, offset)
        for run in runs
        for partition, offset in zip(run.partitions, run.offsets, strict=True)
    ]
    found = [(r["group_id"], r["topic"], r["partition"], r["committed_offset"]) for r in rows]
    assert found == want
    assert [row["log_offset"] for row in rows] == list(range(100, base))
    commit_ms = [round(row["commit_at"].timestamp() * 1000) for row in rows]
    assert commit_ms == [run.commit_timestamp_ms for run in runs for _ in run.partitions]
    assert {row["written_at"] for row in rows} == {AT_NOON}


PLAIN_VALUES = {
    "version 3": lambda offset: struct.pack(">hqihq", 3, offset, 1, 0, NOON + offset),
    "version 4": lambda offset: struct.pack(">hqibqb", 4, offset, 1, 1, NOON + offset, 0),
    "version 4 with the topic's id": lambda offset: (
        struct.pack(">hqibq", 4, offset, 1, 1, NOON + offset)
        + b"\1\0\x10"
        + struct.pack(">qq", offset // 90, 7)
    ),
}


@pytest.mark.parametrize("value_of", PLAIN_VALUES.values(), ids=PLAIN_VALUES)
@pytest.mark.parametrize("transactional", [False, True])
def test_large_commit_of_every_value_version_is_decoded_as_a_table(
    value_of: Callable[[int], bytes], transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = []
    for group in (b"aaaa", b"bbbb"):
        head = b"\0\1\0\4" + group + b"\0\1t"
        for partition in range(100):
            at = len(records)
            key = head + struct.pack(">i", partition)
            records.append(Record(at, NOON, key, value_of(at)))
    data = encode_batch(
        records, producer_id=7, producer_epoch=1, is_transactional=transactional
    )  # fmt: skip
    one_by_one: list[int] = []
    add_record = EventRows.add_record

    def counted(rows: EventRows, log_offset: int, *more: Any) -> None:
        one_by_one.append(log_offset)
        add_record(rows, log_offset, *more)

    monkeypatch.setattr(EventRows, "add_record", counted)
    as_tables = rows_of(data)
    assert len(one_by_one) < 8
    monkeypatch.setattr(decode, "_STRETCH_MIN", 1000)
    assert rows_of(data) == as_tables
    assert len(one_by_one) > 200
    assert [row["committed_offset"] for row in as_tables] == list(range(200))
    assert [row["group_id"] for row in as_tables] == ["aaaa"] * 100 + ["bbbb"] * 100
    assert {row.get("producer_id") for row in as_tables} == {7 if transactional else None}


def test_rows_of_a_cleaned_batch_have_the_offsets_of_its_records() -> None:
    value = struct.pack(">hqihq", 3, 9, -1, 0, NOON)
    kept = [i for i in range(20_000) if i % 3]
    records = [Record(i, NOON, KEY[:-4] + struct.pack(">i", i), value) for i in kept]
    rows = rows_of(encode_batch(records, base_offset=0, last_offset=20_001))
    assert [(r["log_offset"], r["partition"]) for r in rows] == [(i, i) for i in kept]
    assert "leader_epoch" not in rows[0]


def test_commits_that_differ_from_adjacent_commits_are_decoded() -> None:
    """Between equal commits are a tombstone, and commits with another value version, a header,
    another timestamp or another topic."""
    value = struct.pack(">hqihq", 3, 9, 1, 0, NOON)
    plain = [Record(i, NOON, KEY, value) for i in range(60)]
    plain[20] = plain[20]._replace(value=None)
    plain[30] = plain[30]._replace(value=struct.pack(">hqhqq", 1, 9, 0, NOON, -1))
    plain[40] = plain[40]._replace(headers=[("h", b"v")])
    plain[50] = plain[50]._replace(timestamp=NOON + 1)
    plain[51] = plain[51]._replace(key=KEY.replace(b"t", b"u"))
    rows = rows_of(encode_batch(plain))
    assert [row["log_offset"] for row in rows] == list(range(60))
    odd = {20: ("commit_tombstone", None), 30: ("commit", 1)}
    for number, row in enumerate(rows):
        kind = odd.get(number, ("commit", 3))
        assert (row["kind"], row.get("value_version")) == kind
        assert row["topic"] == ("u" if number == 51 else "t")
        assert row["written_at"] == AT_NOON + timedelta(milliseconds=number == 50)


@pytest.mark.parametrize("odd", range(1, 9))
def test_damaged_records_between_identical_commits_become_separate_rows(odd: int) -> None:
    value = struct.pack(">hqihq", 3, 9, 1, 0, NOON)
    records = [Record(i, NOON, KEY, value) for i in range(40)]
    for i in range(odd, 40, 7):
        records[i] = records[i]._replace(key=KEY.replace(b"g", b"\xff"))
    kinds = ["damaged" if i >= odd and (i - odd) % 7 == 0 else "commit" for i in range(40)]
    assert [row["kind"] for row in rows_of(encode_batch(records))] == kinds
    records[odd] = records[odd]._replace(value=b"\0\3\0")
    assert len(rows_of(encode_batch(records))) == 40


@pytest.mark.parametrize("compression", range(5))
def test_every_codec_of_magic_2_is_decoded(compression: int) -> None:
    data = batch_of(0, commit("g", "t", range(100)), compression=compression)
    assert [row["committed_offset"] for row in rows_of(data)] == list(range(100))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", range(4))
def test_every_codec_of_old_messages_is_decoded(magic: int, compression: int) -> None:
    value = struct.pack(">hqhqq", 1, 9, 0, NOON, -1)
    records = [Record(i, NOON, KEY, value) for i in range(10, 20)]
    rows = rows_of(message_set.encode(records, magic, compression))
    assert [row["log_offset"] for row in rows] == list(range(10, 20))
    assert {row.get("written_at") for row in rows} == {AT_NOON if magic else None}


def test_column_written_at_is_the_log_append_time_of_the_batch() -> None:
    value = struct.pack(">hqihq", 3, 9, 1, 0, NOON)
    records = [Record(i, NOON, KEY, value) for i in range(20)]
    data = encode_batch(records, timestamp_type=LOG_APPEND_TIME, max_timestamp=NOON + 5000)
    assert {r["written_at"] for r in rows_of(data)} == {AT_NOON + timedelta(seconds=5)}


def test_out_of_range_timestamps_are_decoded_to_null() -> None:
    row = one_row(KEY, struct.pack(">hqhqq", 1, 9, 0, (1 << 62), -1))
    assert "commit_at" not in row


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(("outcome", "marker"), [(0, "abort"), (1, "commit")])
def test_rows_of_a_transactional_commit_name_its_producer_and_marker(
    outcome: int, marker: str, count: int
) -> None:
    value = struct.pack(">hqihq", 3, 9, 1, 0, NOON)
    records = [Record(i, NOON, KEY[:-4] + struct.pack(">i", i), value) for i in range(count)]
    data = encode_batch(records, producer_id=71, producer_epoch=5, is_transactional=True)
    data += encode_end_transaction(
        outcome, base_offset=count, timestamp=NOON + 9, producer_id=71, producer_epoch=5,
        coordinator_epoch=0,
    )  # fmt: skip
    data += batch_of(count + 1, commit("g", "t", range(count)))
    rows = rows_of(data)
    own, [ended], plain = rows[:count], rows[count : count + 1], rows[count + 1 :]
    assert {(r["kind"], r["producer_id"], r["producer_epoch"]) for r in own} == {("commit", 71, 5)}
    assert ended == {
        "log_partition": 3,
        "log_offset": count,
        "written_at": AT_NOON + timedelta(milliseconds=9),
        "kind": "transaction_marker",
        "producer_id": 71,
        "producer_epoch": 5,
        "marker": marker,
    }
    assert len(plain) == count
    assert not any("producer_id" in r or "producer_epoch" in r for r in plain)


def test_row_of_a_commit_outside_transactions_has_no_producer_id() -> None:
    value = struct.pack(">hqihq", 3, 9, 1, 0, NOON)
    [row] = rows_of(encode_batch([Record(0, NOON, KEY, value)], producer_id=1, producer_epoch=0))
    assert "producer_id" not in row


def test_control_record_other_than_commit_or_abort_has_the_kind_unknown() -> None:
    data = encode_batch([Record(4, NOON, b"\0\0\0\2", b"\0\0")], is_control=True)
    [row] = rows_of(data)
    assert (row["kind"], row["raw_key"]) == ("unknown", b"\0\0\0\2")


def test_only_the_requested_offsets_are_decoded() -> None:
    data = batch_of(0, commit("g", "t", range(100)))
    rows = rows_of(data, offsets=(10, 20))
    assert [row["log_offset"] for row in rows] == list(range(10, 20))
