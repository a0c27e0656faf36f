"""Defines the core of groups for the runtime: the topic ``__consumer_offsets``, its records, and
the replies of the coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from broker.cores.core import Kind, LongRuns, SnapshotForm
from broker.cores.groups.records import GroupReader, check_owner
from broker.topics.partition import NotYetStable
from broker.topics.registry import OFFSETS_TOPIC
from coordinator.calls import (
    ConsumerHeartbeat,
    DescribeGroup,
    Heartbeat,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
)
from coordinator.outcome import Reply
from coordinator.refusal import loading_error, not_served, refusal, timed_out, write_failed
from coordinator.shard import GroupShard
from log.producers.accepted_producers import AcceptedProducers
from log.values import Marker
from offsets.columns_image import encode_columns
from offsets.own_batches import own_batch
from offsets.partitioner import partition_for
from offsets.pending import below
from offsets.record_codec import run_records
from offsets.runs import MarkerRun, OffsetTombstones, OwnBatch, TransactionalRun
from offsets.snapshot_image import (
    CONSUMER_GROUPS,
    SHARE_GROUPS,
    STREAMS_GROUPS,
    Image,
    ImageHead,
    ImageWriter,
    encode_group,
    encode_pending,
    encode_record,
)
from protocol import compiled

IMAGE = "groups.image"
"""The file name of snapshots. docs/formats/groups-image.md describes the format."""
TOMBSTONES_PER_RUN = 1000
"""The maximum number of tombstones in a run. If one step has more tombstones, they are split into
several runs, which may be in several batches."""
_READS = (OffsetFetch, DescribeGroup, ListGroups)


def not_stable(reply: Reply, error: Exception) -> Reply:
    """Returns the reply to send in place of a reply whose records did not become stable."""
    return timed_out(reply) if isinstance(error, NotYetStable) else write_failed(reply)


def note_producer(producers: AcceptedProducers, run: OwnBatch, offset: int) -> None:
    """Stores the producer of a transactional commit or of a marker. ``offset`` is the log offset of
    the accepted commit or marker."""
    if isinstance(run, MarkerRun):
        marker = Marker(run.producer_id, run.producer_epoch, run.coordinator_epoch, run.committed)
        producers.end(marker, offset)
    else:
        producers.note(run.producer_id, run.producer_epoch, offset, offset + len(run) - 1)


def pieces(run: OffsetTombstones) -> Sequence[OffsetTombstones]:
    """Splits the tombstones of one step into runs of at most `TOMBSTONES_PER_RUN`."""
    keys = run.keys
    return [
        OffsetTombstones(run.group_id, keys[start : start + TOMBSTONES_PER_RUN])
        for start in range(0, len(keys), TOMBSTONES_PER_RUN)
    ]


def blocks_of(
    shard: GroupShard, writer: ImageWriter, head: ImageHead, over: Callable[[], bool]
) -> Iterator[bytes]:
    """Yields all blocks of a snapshot except the last. The state of the shard may change between
    two blocks; a block has the state at the time at which it is encoded.

    A block ends when ``over`` returns True, which means that the current slice must end.
    """
    yield writer.head(head)
    yield from _pending_blocks(shard, writer, head.begin_offset, over)
    encoded: list[bytes] = []
    offsets = 0
    cached = shard.view.offsets
    for group_id in list(cached.groups()):
        for topic, columns in cached.columns(group_id):
            if not columns.count:
                continue  # deleted after the list was made: the replay reads its tombstones
            encoded.append(encode_columns(group_id, topic, columns))
            offsets += columns.count
            if over():
                yield writer.offsets_block(encoded, offsets)
                encoded, offsets = [], 0
    if encoded:
        yield writer.offsets_block(encoded, offsets)
    encoded = []
    for group_id, (record_offset, value) in list(shard.view.recorded.items()):
        encoded.append(encode_group(group_id, record_offset, value))
        if over():
            yield writer.groups_block(encoded)
            encoded = []
    if encoded:
        yield writer.groups_block(encoded)
    view = shard.view
    yield from _state_blocks(writer, CONSUMER_GROUPS, view.consumer_groups, over)
    yield from _state_blocks(writer, SHARE_GROUPS, view.share_groups, over)
    yield from _state_blocks(writer, STREAMS_GROUPS, view.streams_groups, over)


def _state_blocks(
    writer: ImageWriter, kind: int, groups: Mapping[str, Any], over: Callable[[], bool]
) -> Iterator[bytes]:
    """Yields snapshot blocks with the records of consumer, share or streams groups.

    A classic group may be converted to another type after its block was made. The snapshot then
    contains the group twice, and a load uses the second entry.
    """
    encoded: list[bytes] = []
    for group in list(groups.values()):
        for record in group.records():
            encoded.append(encode_record(kind, group.group_id, record, group.epoch_ms))
            if over():
                yield writer.state_block(kind, encoded)
                encoded = []
    if encoded:
        yield writer.state_block(kind, encoded)


def _pending_blocks(
    shard: GroupShard, writer: ImageWriter, begin_offset: int, over: Callable[[], bool]
) -> Iterator[bytes]:
    """Yields blocks with the pending offsets whose records are before log offset ``begin_offset``.

    A load first restores these blocks. Then it replays the records from ``begin_offset`` on, which
    may change the restored offsets.
    """
    encoded: list[bytes] = []
    offsets = 0
    for producer_id, epoch, group_id, topic, columns in shard.view.all_pending():
        older = below(columns, begin_offset)
        if older.count:
            encoded.append(encode_pending(producer_id, epoch, group_id, topic, older))
            offsets += older.count
        if encoded and over():
            yield writer.pending_block(encoded, offsets)
            encoded, offsets = [], 0
    if encoded:
        yield writer.pending_block(encoded, offsets)


def restore(shard: GroupShard, image: Image, partition: int, partitions: int) -> Iterator[None]:
    """Restores a snapshot. Each step restores one topic of a group, or one record of a group."""
    for producer_id, epoch, group_id, topic, columns in image.pending():
        check_owner(group_id, image.head.begin_offset, partition, partitions)
        shard.restore_pending(producer_id, epoch, group_id, topic, columns)
        yield
    at_home = ""
    for group_id, topic, columns in image.offsets():
        if group_id != at_home:
            if partition_for(group_id, partitions) != partition:
                entry = columns.get(columns.partitions()[0])
                check_owner(group_id, -1 if entry is None else entry[-1], partition, partitions)
            at_home = group_id
        shard.restore(group_id, topic, columns)
        yield
    for record_offset, run in image.groups():
        check_owner(run.group_id, record_offset, partition, partitions)
        shard.replay(run, record_offset)
        yield
    for records in image.states():
        check_owner(records.group_id, -1, partition, partitions)
        shard.replay(records, -1)
        yield


GROUPS = Kind(
    topic=OFFSETS_TOPIC,
    things="groups",
    new_core=GroupShard,
    partition_of=partition_for,
    reader=GroupReader,
    skip_setting="offsets.load.skip.records",
    encode=run_records,
    refusal=refusal,
    not_served=not_served,
    loading_error=loading_error,
    write_failed=write_failed,
    not_stable=not_stable,
    reads=_READS,
    needs_no_record=(Heartbeat, *_READS),
    sets_no_deadline=(Heartbeat, OffsetFetch),
    counted=OffsetCommit,
    often_idle=ConsumerHeartbeat,
    long_runs=LongRuns(OffsetTombstones, pieces, TOMBSTONES_PER_RUN),
    snapshot=SnapshotForm(IMAGE, blocks_of, restore),
    own_batches={TransactionalRun: own_batch, MarkerRun: own_batch},
    replays_all=compiled.MODULE is not None,
    note_producer=note_producer,
)
