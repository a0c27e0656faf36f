"""A snapshot restores exactly the same offset cache and group records, or is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.cache import OffsetCache
from offsets.columns_image import BadImage, decode_columns, encode_columns
from offsets.consumer_records import ConsumerGroupRun, ConsumerRecord, EpochRecord, GroupEpoch
from offsets.runs import (
    GroupMember,
    GroupRun,
    GroupValue,
    MarkerRun,
    OffsetRun,
    OffsetTombstones,
    OwnBatch,
    Run,
    TransactionalRun,
)
from offsets.share_records import ShareEpochRecord, ShareGroupEpoch, ShareGroupRun, ShareRecord
from offsets.snapshot_image import (
    CONSUMER_GROUPS,
    SHARE_GROUPS,
    STREAMS_GROUPS,
    BatchMark,
    ImageHead,
    ImageWriter,
    encode_group,
    encode_pending,
    encode_record,
    read_image,
)
from offsets.streams_records import (
    StreamsEpochRecord,
    StreamsGroupEpoch,
    StreamsGroupRun,
    StreamsRecord,
)
from protocol.records.crc import crc32c
from tests.offsets.strategies import (
    consumer_records,
    few_names,
    few_partitions,
    group_values,
    offset_runs,
    own_batches,
    share_records,
    streams_records,
    tombstones,
)

PAGE = Path(__file__).parent.parent.parent / "docs" / "formats" / "groups-image.md"
AT_MS = 1_700_000_000_000
HEAD = ImageHead(bytes([7]) * 16, 3, 0, 40, BatchMark(38, 0xDEADBEEF, 5))
END_MARK = BatchMark(40, 0x01020304, 6)

EPOCH = EpochRecord(GroupEpoch(7, 5))
STREAMS_EPOCH = StreamsEpochRecord(StreamsGroupEpoch(3, 9, 0, (("num.standby.replicas", "0"),)))
SHARE_EPOCH = ShareEpochRecord(ShareGroupEpoch(3, 9))

histories = st.lists(
    offset_runs(few_names, few_partitions)
    | tombstones(few_names, few_partitions)
    | own_batches(few_names, few_partitions),
    max_size=12,
)


def cache_of(runs: list[Run | OwnBatch]) -> OffsetCache:
    cache = OffsetCache()
    for number, run in enumerate(runs):
        cache.replay(run, 1000 * number)
    return cache


def image_of(
    cache: OffsetCache,
    groups: dict[str, tuple[int, GroupValue]],
    records: Sequence[ConsumerRecord] = (),
    shares: Sequence[ShareRecord] = (),
    streams: Sequence[StreamsRecord] = (),
) -> bytes:
    writer = ImageWriter()
    blocks = [writer.head(HEAD)]
    for producer_id, epoch, group_id, topic, columns in cache.pending.columns():
        encoded = [encode_pending(producer_id, epoch, group_id, topic, columns)]
        blocks.append(writer.pending_block(encoded, columns.count))
    for group_id in list(cache.groups()):
        encoded = [encode_columns(group_id, topic, c) for topic, c in cache.columns(group_id)]
        blocks.append(writer.offsets_block(encoded, len(cache.keys(group_id))))
    for group_id, (record_offset, value) in groups.items():
        blocks.append(writer.groups_block([encode_group(group_id, record_offset, value)]))
    if records:
        encoded = [encode_record(CONSUMER_GROUPS, "live", each, AT_MS) for each in records]
        blocks.append(writer.state_block(CONSUMER_GROUPS, encoded))
    if shares:
        encoded = [encode_record(SHARE_GROUPS, "work", each, AT_MS) for each in shares]
        blocks.append(writer.state_block(SHARE_GROUPS, encoded))
    if streams:
        encoded = [encode_record(STREAMS_GROUPS, "app", each, AT_MS) for each in streams]
        blocks.append(writer.state_block(STREAMS_GROUPS, encoded))
    blocks.append(writer.end(42, END_MARK))
    return b"".join(blocks)


def restored(data: bytes) -> OffsetCache:
    cache = OffsetCache()
    image = read_image(data)
    for producer_id, epoch, group_id, topic, columns in image.pending():
        cache.pending.restore(producer_id, epoch, group_id, topic, columns)
    for group_id, topic, columns in image.offsets():
        cache.restore(group_id, topic, columns)
    assert (image.end.offsets, image.end.pending) == (cache.count(), cache.pending.count())
    return cache


def content(cache: OffsetCache) -> dict[object, list[object]]:
    found: dict[object, list[object]] = {
        group_id: sorted(cache.entries(group_id), key=lambda entry: entry[:2])
        for group_id in cache.groups()
    }
    for *whose, columns in cache.pending.columns():
        found[tuple(whose)] = [(each, columns.get(each)) for each in columns.partitions()]
    return found


def example() -> bytes:
    cache = cache_of([])
    cache.replay(OffsetRun("shop", "orders", [0, 1], [5, 6], [-1, -1], None, AT_MS), 30)
    pending = OffsetRun("shop", "orders", [1], [8], [-1], None, AT_MS)
    cache.replay(TransactionalRun(4001, 2, [pending]), 39)
    groups = {"shop": (33, GroupValue("consumer", 2, None, None, AT_MS, []))}
    return image_of(cache, groups, [EPOCH], [SHARE_EPOCH], [STREAMS_EPOCH])


@pytest.mark.proves("transactions 39")
def test_example_of_the_snapshot_page_is_read_and_written() -> None:
    [block] = re.findall(r"```hex\n(.*?)```", PAGE.read_text(), re.DOTALL)
    written = bytes.fromhex("".join(line.split("#")[0] for line in block.splitlines()))

    assert example() == written
    image = read_image(written)
    assert image.head == HEAD
    assert image.end == (42, END_MARK, 2, 1, 1, 1, 1, 1)
    assert [(o, r.group_id, r.value and r.value.generation_id) for o, r in image.groups()] == [
        (33, "shop", 2)
    ]
    assert list(image.states()) == [
        ConsumerGroupRun("live", [EPOCH], AT_MS),
        ShareGroupRun("work", [SHARE_EPOCH], AT_MS),
        StreamsGroupRun("app", [STREAMS_EPOCH], AT_MS),
    ]
    cache = restored(written)
    assert cache.fetch("shop", "orders", [0, 1, 2]).offsets == [5, 6, -1]
    entry = cache.get("shop", "orders", 1)
    assert entry == (6, -1, "", AT_MS, -1, 31)
    assert cache.pending.of_group("shop") == [(4001, 2, 1)]
    cache.replay(MarkerRun(4001, 2, 0, True), 43)
    assert cache.get("shop", "orders", 1) == (8, -1, "", AT_MS, -1, 39)


@pytest.mark.proves("transactions 39")
@pytest.mark.campaign
@given(histories, histories)
def test_offset_cache_restored_from_a_snapshot_stays_equal_to_the_original_cache(
    before: list[Run | OwnBatch], after: list[Run | OwnBatch]
) -> None:
    cache = cache_of(before)
    again = restored(image_of(cache, {}))
    assert content(again) == content(cache)
    assert again.count() == cache.count()

    for number, run in enumerate(after, 100):
        cache.replay(run, 1000 * number)
        again.replay(run, 1000 * number)
    assert content(again) == content(cache)
    assert again.count() == cache.count()


@pytest.mark.campaign
@given(st.dictionaries(st.text(max_size=20), st.tuples(st.integers(0, 2**62), group_values)))
def test_group_records_read_from_a_snapshot_equal_the_written_records(
    groups: dict[str, tuple[int, GroupValue]],
) -> None:
    image = read_image(image_of(cache_of([]), groups))
    found = [(run.group_id, (offset, run.value)) for offset, run in image.groups()]
    assert found == list(groups.items())
    assert image.end.groups == len(groups)


@given(st.lists(consumer_records, min_size=1, max_size=10))
def test_consumer_group_records_read_from_a_snapshot_equal_the_written_records(
    records: list[ConsumerRecord],
) -> None:
    image = read_image(image_of(cache_of([]), {}, records))
    found = list(image.states())
    assert found == [ConsumerGroupRun("live", [record], AT_MS) for record in records]
    assert image.end.consumer_records == len(records)


@given(st.lists(share_records, min_size=1, max_size=10))
def test_share_group_records_read_from_a_snapshot_equal_the_written_records(
    records: list[ShareRecord],
) -> None:
    image = read_image(image_of(cache_of([]), {}, (), records))
    assert list(image.states()) == [ShareGroupRun("work", [record], AT_MS) for record in records]
    assert image.end.share_records == len(records)


@given(st.lists(streams_records, min_size=1, max_size=10))
def test_streams_group_records_read_from_a_snapshot_equal_the_written_records(
    records: list[StreamsRecord],
) -> None:
    image = read_image(image_of(cache_of([]), {}, (), (), records))
    assert list(image.states()) == [StreamsGroupRun("app", [record], AT_MS) for record in records]
    assert image.end.streams_records == len(records)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (bytes(15), "requires a buffer"),
        (bytes(8) + b"\4\0\0\0\0\0\0\1" + bytes(20), "16777220 bytes"),
        (bytes(8) + b"\5\0\0\0\0\0\0\0" + b"\0\2\0\1g", "type that its block can't contain"),
        (bytes(8) + b"\5\0\0\0\1\0\0\0" + b"\0\3\0\1g\0", "too short to contain a version"),
    ],
)
def test_invalid_record_with_a_valid_checksum_is_refused(payload: bytes, error: str) -> None:
    writer = ImageWriter()
    blocks = (
        writer.head(HEAD),
        writer.state_block(CONSUMER_GROUPS, [payload]),
        writer.end(42, END_MARK),
    )
    with pytest.raises(BadImage, match=error):
        list(read_image(b"".join(blocks)).states())


MEMBER = GroupMember("m-1", "i-1", "c", "/10.0.0.7", 60_000, 10_000, b"\1\2", b"\3")
RICH = image_of(
    cache_of(
        [
            OffsetRun("a", "t", list(range(40)), list(range(40)), [3] * 40, None, AT_MS),
            OffsetRun("a", "t", [7], [70], [4], ["mine"], AT_MS + 1, AT_MS + 9),
            OffsetRun("b", "far", [-1, 2**31 - 1], [1, 2], [0, 1], ["", "x"], AT_MS),
            OffsetTombstones("a", [("t", 3)]),
            TransactionalRun(
                4001,
                2,
                [OffsetRun("a", "t", [7, 9], [71, 91], [4, 4], ["mine", ""], AT_MS)],
            ),
        ]
    ),
    {"a": (9, GroupValue("consumer", 1, "range", "m-1", AT_MS, [MEMBER]))},
    [EPOCH],
    [SHARE_EPOCH],
    [STREAMS_EPOCH],
)


@given(st.integers(0, len(RICH) - 1), st.integers(1, 255))
def test_snapshot_with_a_changed_byte_is_refused(position: int, change: int) -> None:
    data = bytearray(RICH)
    data[position] ^= change
    with pytest.raises(BadImage):
        read_image(bytes(data))


def test_truncated_or_extended_snapshot_is_refused() -> None:
    for size in range(len(RICH)):
        with pytest.raises(BadImage):
            read_image(RICH[:size])
    for more in (b"\0", RICH, bytes(100)):
        with pytest.raises(BadImage):
            read_image(RICH + more)


def test_snapshot_that_lacks_a_block_or_has_a_block_of_another_snapshot_is_refused() -> None:
    sizes = []
    position = 0
    while position < len(RICH):
        size = 9 + int.from_bytes(RICH[position + 1 : position + 5], "little")
        sizes.append((position, position + size))
        position += size
    assert len(sizes) == 9
    for start, end in sizes:
        with pytest.raises(BadImage):
            read_image(RICH[:start] + RICH[end:])
    start, end = sizes[1]
    other = example()
    with pytest.raises(BadImage, match="checksum"):
        read_image(other[:71] + RICH[start:end] + other[71:])


@pytest.mark.parametrize("version", [3, 4, 5, 6, 8])
def test_error_about_a_snapshot_of_an_unknown_version_names_the_version(version: int) -> None:
    head = bytearray(RICH[:71])
    head[13] = version
    head[67:71] = crc32c(bytes(4) + bytes(head[:67])).to_bytes(4, "little")
    rest = ImageWriter()
    rest._crc = crc32c(bytes(4) + bytes(head[:67]))
    with pytest.raises(BadImage, match=f"version {version}"):
        read_image(bytes(head) + rest.end(1, END_MARK))


ENTRY = encode_columns(
    "b", "far", dict(cache_of([OffsetRun("b", "far", [5, 900], [1, 2], [0, 1], ["", "x"], 1, 5)])
                     .columns("b"))["far"]
)  # fmt: skip


@given(st.integers(0, len(ENTRY) - 1), st.integers(0, 255))
def test_damaged_snapshot_block_with_valid_checksum_is_refused_or_read_within_its_bytes(
    position: int, value: int
) -> None:
    data = bytearray(ENTRY)
    data[position] = value
    try:
        _, _, columns, end = decode_columns(memoryview(bytes(data)), 0)
    except BadImage:
        return
    assert end <= len(data)
    assert columns.count * 8 <= len(data)


def test_snapshot_block_with_a_wrong_offset_count_is_refused_before_memory_is_allocated() -> None:
    data = bytearray(ENTRY)
    data[5:9] = (2**32 - 1).to_bytes(4, "little")
    with pytest.raises(BadImage, match="4294967295 offsets"):
        decode_columns(memoryview(bytes(data)), 0)


def test_column_of_equal_values_is_stored_as_one_value() -> None:
    run = OffsetRun("g", "t", list(range(50)), list(range(50)), [-1] * 50, None, AT_MS)
    [(topic, columns)] = cache_of([run]).columns("g")
    assert len(encode_columns("g", topic, columns)) == 9 + 2 + 8 * 50 + 4 + 8 + 8


def test_second_restore_of_the_same_group_raises_key_error() -> None:
    cache = OffsetCache()
    [entry] = read_image(example()).offsets()
    cache.restore(*entry)
    with pytest.raises(KeyError):
        cache.restore(*entry)


@pytest.mark.campaign
@given(st.lists(histories, min_size=2, max_size=4))
def test_cached_encoding_of_a_group_equals_a_new_encoding(
    rounds: list[list[Run | OwnBatch]],
) -> None:
    kept = OffsetCache()
    so_far: list[Run | OwnBatch] = []
    for more in rounds:
        for number, run in enumerate(more, len(so_far)):
            kept.replay(run, 1000 * number)
        so_far += more
        assert image_of(kept, {}) == image_of(cache_of(so_far), {})


def test_snapshot_encodes_only_changed_topics() -> None:
    one = OffsetRun("a", "t", [0, 1], [5, 6], [-1, -1], None, AT_MS)
    cache = cache_of([one, replace(one, group_id="b")])
    before = {group: encoded(cache, group) for group in cache.groups()}
    cache.replay(replace(one, partitions=[1], offsets=[7], leader_epochs=[-1]), 3000)
    assert encoded(cache, "b") is before["b"]
    assert encoded(cache, "a") != before["a"]


def encoded(cache: OffsetCache, group_id: str) -> bytes:
    [(topic, columns)] = cache.columns(group_id)
    return encode_columns(group_id, topic, columns)


def test_replayed_group_record_does_not_change_the_offset_cache() -> None:
    cache = cache_of([])
    cache.replay(GroupRun("g", None), 1)
    assert list(restored(image_of(cache, {})).groups()) == []
