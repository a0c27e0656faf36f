"""Checks records that a client, such as Kafka's admin client, produces to ``__consumer_offsets``.

The records are read by the same code that loads groups, before they are appended. If a load could
not read a record, the broker would reject all requests for the groups of the partition after every
start.
"""

from __future__ import annotations

from broker.cores.groups.records import GroupReader, runs_of_batch
from coordinator.config import GroupConfig
from coordinator.shard import GroupShard
from offsets.record_values import CorruptRecord
from offsets.runs import GroupRun, Run
from protocol.buffer import Buffer
from protocol.errors import INVALID_RECORD
from protocol.now import Now
from protocol.records.corrupt import CorruptRecords, RecordError
from protocol.records.stored import iter_stored


def check(data: Buffer, partition: int, partitions: int, config: GroupConfig, now: Now) -> None:
    """Checks that a load of ``partition`` could read the batches in ``data``, whose offsets start
    at 0. Raises CorruptRecords, whose text names the invalid record.

    The function is pure. It takes as long as a load of the batches, so it must run in a thread.
    """
    shard = GroupShard(config)
    reader = GroupReader(shard, partition, partitions)
    try:
        for header, _ in iter_stored(data):
            if header.is_control or header.is_transactional:
                raise CorruptRecord(
                    header.base_offset, "the batch must not be transactional or a control batch"
                )
            for offset, run in runs_of_batch(data, header, reader.skipped):
                _check_members(run, offset)
                reader.replay(run, offset)
        shard.loaded(now)
    except CorruptRecord as error:
        wrong = RecordError(error.log_offset, error.reason)
        message = f"Loading the groups of this partition would fail: {error.reason}"
        raise CorruptRecords(message, INVALID_RECORD, (wrong,)) from None


def _check_members(run: Run, offset: int) -> None:
    """Raises CorruptRecord if two members of a group have the same member id or instance id. A load
    would keep only the first of these members."""
    if not isinstance(run, GroupRun) or run.value is None:
        return
    members = run.value.members
    for name, ids in (
        ("member id", [member.member_id for member in members]),
        ("instance id", [m.group_instance_id for m in members if m.group_instance_id is not None]),
    ):
        if len(set(ids)) < len(ids):
            raise CorruptRecord(offset, f"two members must not have the same {name}")
