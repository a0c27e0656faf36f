"""Runs are encoded as records and decoded again. Damaged records and oversized runs are refused."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.record_codec import run_bytes_at_most, run_records
from offsets.record_reader import runs_of_records
from offsets.record_values import (
    CorruptRecord,
    UnwritableRun,
    group_value,
    offset_value,
    read_group_value,
    read_offset_value,
)
from offsets.runs import GroupMember, GroupRun, GroupValue, OffsetRun, OffsetTombstones, Run
from offsets.section_reader import runs_of_section
from protocol.records.batch import assemble_batch, read_header, records_of
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import Record, encode_section
from tests.model.log_reader import ModelOffset, read_log, records_of_batches
from tests.offsets.strategies import group_runs, model_group, offset_runs, runs, tombstones

GOLDEN = Path(__file__).parent.parent / "data" / "golden" / "records.jsonl"
ROWS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def golden(record: str) -> list:
    chosen = [row for row in ROWS if row["record"] == record]
    assert chosen
    return [pytest.param(row, id=f"v{row['version']}-{i}") for i, row in enumerate(chosen)]


def body(row: dict) -> bytes:
    return row["version"].to_bytes(2, "big") + bytes.fromhex(row["hex"])


def commit(count: int, group_id: str = "g", topic: str = "t", **changes) -> OffsetRun:
    fields = {
        "partitions": range(count),
        "offsets": range(1000, 1000 + count),
        "leader_epochs": [3] * count,
        "metadata": None,
        "commit_timestamp_ms": 1_700_000_000_000,
    }
    return OffsetRun(group_id, topic, **(fields | changes))


def batch(run_or_runs: Run | list[Run], base_offset: int = 0) -> bytes:
    """Returns one batch that contains the records of all runs."""
    section, count = b"", 0
    for run in run_or_runs if isinstance(run_or_runs, list) else [run_or_runs]:
        section += run_records(run, count)
        count += len(run)
    return assemble_batch(section, count, base_offset, 5, 5)


# --------------------------------------------------------------------------- Kafka's own bytes


@pytest.mark.parametrize("row", golden("OffsetCommitKey"))
def test_offset_key_of_kafka_is_read_and_written(row: dict) -> None:
    value = row["value"]
    run = commit(1, value["group"], value["topic"], partitions=[value["partition"]])
    (record,) = records_of_batches(batch(run))
    assert record.key == b"\0\x01" + bytes.fromhex(row["hex"])


@pytest.mark.parametrize("row", golden("GroupMetadataKey"))
def test_group_key_of_kafka_is_read_and_written(row: dict) -> None:
    (record,) = records_of_batches(batch(GroupRun(row["value"]["group"], None)))
    key = b"\0\x02" + bytes.fromhex(row["hex"])
    assert (record.key, record.value) == (key, None)


@pytest.mark.parametrize("row", golden("OffsetCommitValue") + golden("LegacyOffsetCommitValue"))
def test_offset_value_of_kafka_is_read_and_written(row: dict) -> None:
    value = row["value"]
    stored = read_offset_value(body(row))
    assert stored == (
        value["offset"],
        value.get("leaderEpoch", -1),
        value["metadata"],
        value["commitTimestamp"],
        value.get("expireTimestamp", -1),
    )
    if row["version"] in (1, 3):
        assert offset_value(*stored) == body(row)


@pytest.mark.parametrize("row", golden("GroupMetadataValue"))
def test_group_value_of_kafka_is_read_and_written(row: dict) -> None:
    value = row["value"]
    stored = read_group_value(body(row))
    assert stored == GroupValue(
        value["protocolType"],
        value["generation"],
        value["protocol"],
        value["leader"],
        value.get("currentStateTimestamp", -1),
        [
            GroupMember(
                member["memberId"],
                member.get("groupInstanceId"),
                member["clientId"],
                member["clientHost"],
                member.get("rebalanceTimeout", member["sessionTimeout"]),
                member["sessionTimeout"],
                base64.b64decode(member["subscription"]),
                base64.b64decode(member["assignment"]),
            )
            for member in value["members"]
        ],
    )
    if row["version"] in (1, 2, 3):
        assert group_value(stored, row["version"]) == body(row)


def test_records_with_keys_of_unknown_types_are_skipped_and_counted() -> None:
    types = {"GroupMetadataKey": 2, "OffsetCommitKey": 1, "LegacyOffsetCommitKey": 0}
    others = [row for row in ROWS if row["record"].endswith("Key") and row["record"] not in types]
    records = [
        Record(i, 0, b"\0\x09" + bytes.fromhex(row["hex"]), b"") for i, row in enumerate(others)
    ]
    skipped: Counter[int] = Counter()
    assert list(runs_of_records(records, skipped)) == []
    assert skipped == {9: len(others)}


# --------------------------------------------------------------------- round trips, second reader


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 100, 200])
@pytest.mark.parametrize("first_delta", [0, 1, 60, 63, 64, 200, 8100, 8191, 8192, 20_000])
def test_encoder_of_whole_commits_writes_the_same_bytes_as_the_encoder_of_one_record(
    count: int, first_delta: int
) -> None:
    run = commit(count, "группа", "orders")
    plain = [
        Record(
            first_delta + i,
            0,
            b"\0\x01\0\x0c" + "группа".encode() + b"\0\x06orders" + i.to_bytes(4, "big"),
            offset_value(1000 + i, 3, "", 1_700_000_000_000, -1),
        )
        for i in range(count)
    ]
    assert run_records(run, first_delta) == encode_section(plain, 0, 0)[0]


@pytest.mark.campaign
@given(offset_runs())
def test_encoded_offsets_are_decoded_to_the_same_values_by_the_decoder_of_the_tests(
    run: OffsetRun,
) -> None:
    meant = {
        (run.topic, partition): ModelOffset(
            run.offsets[i],
            run.leader_epochs[i],
            run.metadata[i] if run.metadata else "",
            run.commit_timestamp_ms,
            run.expire_timestamp_ms,
            50 + i,
        )
        for i, partition in enumerate(run.partitions)
    }
    assert read_log(batch(run, 50)).offsets == {run.group_id: meant}


@given(group_runs())
def test_decoder_of_the_test_model_returns_the_encoded_group(run: GroupRun) -> None:
    meant = {} if run.value is None else {run.group_id: model_group(run.value)}
    assert read_log(batch(run)).groups == meant


@pytest.mark.campaign
@given(tombstones())
def test_tombstone_has_the_key_and_a_null_value(run: OffsetTombstones) -> None:
    offsets = [commit(1, run.group_id, topic, partitions=[n]) for topic, n in run.keys]
    state = read_log(batch([*offsets]))
    assert set(state.offsets[run.group_id]) == set(run.keys)
    state.feed(batch(run, base_offset=state.next_log_offset))
    assert state.offsets == {}


def flattened(based_runs) -> list:
    """Returns one tuple per record. Two results with the same records are equal even if they divide
    the records into runs differently."""
    said = []
    for base_offset, run in based_runs:
        for i in range(len(run)):
            if isinstance(run, OffsetRun):
                metadata = run.metadata[i] if run.metadata else ""
                said.append(
                    (base_offset + i, run.group_id, run.topic, run.partitions[i], run.offsets[i],
                     run.leader_epochs[i], metadata, run.commit_timestamp_ms,
                     run.expire_timestamp_ms)
                )  # fmt: skip
            elif isinstance(run, OffsetTombstones):
                said.append((base_offset + i, run.group_id, *run.keys[i]))
            else:
                said.append((base_offset + i, run))
    return said


@pytest.mark.campaign
@given(st.lists(runs(), min_size=1, max_size=5), st.integers(0, 10_000))
def test_batch_is_decoded_to_its_runs(many: list[Run], base: int) -> None:
    based, count = [], 0
    for run in many:
        based.append((base + count, run))
        count += len(run)
    data = batch(many, base)
    header = read_header(data)
    records = records_of(data, header)
    section = data[61:]
    assert flattened(runs_of_section(section, base, count)) == flattened(based)
    assert flattened(runs_of_records(records)) == flattened(based)


@pytest.mark.parametrize("count", [1, 64, 65, 100, 10_000])
def test_commit_is_decoded_as_one_run(count: int) -> None:
    ((base_offset, run),) = runs_of_section(run_records(commit(count), 0), 7, count)
    assert base_offset == 7
    assert isinstance(run, OffsetRun)
    assert (list(run.partitions), run.metadata) == (list(range(count)), None)


NEIGHBOURS = {
    "alike but for their offsets": {},
    "offsets that need all eight bytes": {"offsets": [(-1) ** n * 2**62 + n for n in range(150)]},
    "offsets whose high bytes alone differ": {"offsets": [n << 48 for n in range(150)]},
    "partitions over the end of a byte": {"partitions": range(200, 350)},
    "the last partitions that there are": {"partitions": range(2**31 - 150, 2**31)},
    "partitions in no order": {"partitions": [*range(70), *range(100, 150), *range(30)]},
    "an epoch of its own": {"leader_epochs": [3] * 80 + [4] + [3] * 69},
    "metadata in the midst": {"metadata": [""] * 80 + ["x"] + [""] * 69},
    "an expiry": {"leader_epochs": [-1] * 150, "expire_timestamp_ms": 1_700_000_600_000},
}


@pytest.mark.parametrize("first_delta", [0, 40, 8100])
@pytest.mark.parametrize("changes", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_similar_records_of_consecutive_commits_are_decoded_without_loss(
    changes: dict, first_delta: int
) -> None:
    based, section, delta = [], b"", first_delta
    for run in (commit(1, "before"), commit(150, **changes), commit(1, "behind")):
        based.append((delta, run))
        section += run_records(run, delta)
        delta += len(run)
    assert flattened(runs_of_section(section, 0, 152)) == flattened(based)


@pytest.mark.parametrize("place", range(43))
def test_run_with_a_changed_byte_is_decoded_as_when_its_records_are_decoded_one_by_one(
    place: int,
) -> None:
    section = bytearray(run_records(commit(40), 0))
    size = len(section) // 40
    section[20 * size + place % size] ^= 1
    plain = assemble_batch(bytes(section), 40, 0, 0, 0)
    try:
        one_by_one = list(runs_of_records(records_of(plain, read_header(plain))))
    except (CorruptRecord, CorruptRecords):
        return
    assert flattened(runs_of_section(bytes(section), 0, 40)) == flattened(one_by_one)


def test_decoded_offset_run_ends_at_a_gap_between_log_offsets() -> None:
    kept = [record for record in records_of_section(commit(6)) if record.offset in (0, 1, 4, 5)]
    section, count = encode_section(kept, 0, 0)
    found = runs_of_section(section, 100, count)
    assert [(base, list(run.partitions)) for base, run in found] == [(100, [0, 1]), (104, [4, 5])]


def test_unknown_record_does_not_shift_the_offsets_of_later_records() -> None:
    first, unknown, last = records_of_section(commit(3))
    unknown = unknown._replace(key=b"\0\x09" + b"\0\x01x")
    section, count = encode_section([first, unknown, last], 0, 0)
    skipped: Counter[int] = Counter()
    found = runs_of_section(section, 0, count, skipped)
    assert [(base, list(run.partitions)) for base, run in found] == [(0, [0]), (2, [2])]
    assert skipped == {9: 1}


def records_of_section(run: Run) -> list[Record]:
    data = batch(run)
    return records_of(data, read_header(data))


# -------------------------------------------------------------------------------- refused records
# and runs


def test_unknown_version_of_a_value_is_refused() -> None:
    record = records_of_section(commit(1))[0]
    for version in (5, 30_000, -1):
        value = version.to_bytes(2, "big", signed=True) + record.value[2:]
        with pytest.raises(CorruptRecord, match=f"offset 0 .*value version {version} is unknown"):
            list(runs_of_records([record._replace(value=value)]))


@pytest.mark.campaign
@given(runs(), st.data())
def test_reading_damaged_records_returns_records_or_raises_corrupt_record(run, data) -> None:
    section = bytearray(run_records(run, 0))
    if data.draw(st.booleans()):
        del section[data.draw(st.integers(0, len(section))) :]
    else:
        section[data.draw(st.integers(0, len(section) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = runs_of_section(bytes(section), 0, len(run))
    except CorruptRecord:
        return
    assert sum(len(run) for _, run in found) <= len(run)


def test_section_with_a_wrong_record_count_is_refused() -> None:
    section = run_records(commit(3), 0)
    for count in (2, 4, 2**31 - 1):
        with pytest.raises(CorruptRecord):
            runs_of_section(section, 0, count)


def test_record_without_a_key_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="key is missing"):
        list(runs_of_records([Record(0, 0, None, b"")]))


@pytest.mark.parametrize(
    "run",
    [
        commit(1, group_id="g" * 32768),
        commit(1, topic="é" * 16384),
        commit(1, metadata=["m" * 32768]),
        GroupRun("g", GroupValue("consumer", 1, "p" * 32768, None, -1, [])),
        GroupRun("g" * 32768, None),
        OffsetTombstones("g", [("t" * 32768, 0)]),
    ],
    ids=["group", "topic", "metadata", "protocol", "group-key", "tombstone"],
)
def test_run_with_a_string_above_32767_bytes_is_refused(run: Run) -> None:
    for refusing in (run_bytes_at_most, lambda run: run_records(run, 0)):
        with pytest.raises(UnwritableRun, match="at most 32767 bytes"):
            refusing(run)


@pytest.mark.campaign
@given(runs(), st.integers(0, 20_000))
def test_upper_bound_of_the_encoded_size_of_a_run_is_close_to_the_actual_size(
    run: Run, first_delta: int
) -> None:
    size = len(run_records(run, first_delta))
    members = len(run.value.members) if isinstance(run, GroupRun) and run.value else 0
    assert size <= run_bytes_at_most(run) <= size + 20 * len(run) + 8 * members
