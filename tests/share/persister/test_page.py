"""Tests that the codec writes and reads the examples of docs/formats/share-group-state.md, and that
a shard loads them."""

from __future__ import annotations

import re
from collections import Counter

from offsets.partitioner import partition_for
from protocol.records.section import decode_section
from share.persister.config import ShareStateConfig
from share.persister.record_codec import run_records, runs_of_records
from share.persister.shard import ShareStateShard
from share.persister.values import ShareStateRun, SnapshotValue, UpdateValue, coordinator_key
from share.values import DeliveryState, SharePartitionKey, StateBatch
from tests.brokers import CHECKOUT

PAGE = (CHECKOUT / "docs" / "formats" / "share-group-state.md").read_text()
AT_MS = 1_700_000_000_000
KEY = SharePartitionKey("work", b"\7" * 16, 1)
ACKNOWLEDGED = StateBatch(100, 104, DeliveryState.ACKNOWLEDGED, 1)
RELEASED = StateBatch(105, 105, DeliveryState.AVAILABLE, 2)
REJECTED = StateBatch(105, 105, DeliveryState.ARCHIVED, 3)
EXAMPLE = [
    ShareStateRun(
        KEY, SnapshotValue(4, 3, 0, 100, AT_MS, AT_MS + 300_000, (ACKNOWLEDGED, RELEASED), 5)
    ),
    ShareStateRun(KEY, UpdateValue(4, 0, 100, (REJECTED,), 6)),
    ShareStateRun(KEY, None),
]


def examples() -> list[bytes]:
    blocks = re.findall(r"```hex\n(.*?)```", PAGE, re.DOTALL)
    return [
        bytes.fromhex("".join(line.split("#")[0] for line in block.splitlines()))
        for block in blocks
    ]


def test_example_on_the_share_state_page_is_encoded_and_decoded() -> None:
    records = examples()
    assert [run_records(run, 0) for run in EXAMPLE] == records
    read = [
        run
        for data in records
        for _, run in runs_of_records(decode_section(data, 1, 0, AT_MS, 0), Counter())
    ]
    assert read == EXAMPLE


def test_shard_loads_the_example_of_the_share_state_page() -> None:
    shard = ShareStateShard(ShareStateConfig())
    shard.replay(EXAMPLE[0], 0)
    shard.replay(EXAMPLE[1], 1)
    state = shard.view.state(KEY)
    assert state is not None
    assert state.batches == (ACKNOWLEDGED, REJECTED)
    assert (state.start_offset, state.delivery_complete_count) == (100, 6)
    shard.replay(EXAMPLE[2], 2)
    assert shard.view.state(KEY) is None


def test_share_state_page_names_the_right_partition_for_its_example_key() -> None:
    name = coordinator_key(KEY)
    assert f"`{name}` is in partition {partition_for(name, 50)} of 50" in " ".join(PAGE.split())
