"""A load pauses while it decodes a large record of `__share_group_state`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.cores import loading
from broker.cores.hosted_shard import Phase
from broker.cores.share_state.records import ShareStateReader
from protocol.records.batch import assemble_batch, read_header
from share.persister import record_codec
from share.persister.config import ShareStateConfig
from share.persister.record_codec import run_records
from share.persister.shard import ShareStateShard
from share.persister.values import ShareStateRun, SnapshotValue
from share.values import SharePartitionKey, StateBatch

KEY = SharePartitionKey("g", bytes(16), 0)


class Pauses:
    """Fake slices whose time is always over, so that the tested work pauses at each check.
    ``count`` is the number of pauses."""

    over = True

    def __init__(self) -> None:
        self.count = 0

    async def pause(self) -> None:
        self.count += 1


async def test_load_pauses_several_times_while_it_decodes_a_large_share_state_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_codec, "_BATCHES_PER_PIECE", 10)
    batches = tuple(StateBatch(3 * n, 3 * n, 2, 1) for n in range(100))
    value = SnapshotValue(0, 0, 0, 0, 1, 1, batches, 5)
    data = assemble_batch(run_records(ShareStateRun(KEY, value), 0), 1, 0, 1, 1)
    shard = ShareStateShard(ShareStateConfig())
    log = SimpleNamespace(scan=lambda *_: [(data, read_header(data))], log_end_offset=1)
    hosted: Any = SimpleNamespace(
        log=log, phase=Phase.LOADING, loaded_bytes=0, loaded_records=0, loaded_to=0
    )
    slices: Any = Pauses()
    await loading._replay(hosted, ShareStateReader(shard, 0, 1), 1 << 20, slices)
    assert slices.count == 1 + 2 * 9 + 1
    assert hosted.loaded_records == 1
    assert list(shard.view.known_keys) == [KEY]
