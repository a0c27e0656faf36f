"""Batches of `__consumer_offsets` that contain only one run: the offsets of a transaction, or its
marker.

The producer's id and epoch are fields of the batch, so the records of two producers are never in
one batch.
"""

from __future__ import annotations

from offsets.record_codec import run_records
from offsets.runs import MarkerRun, OwnBatch
from protocol.records.batch import (
    ABORT,
    COMMIT,
    TRANSACTIONAL_BIT,
    BatchForm,
    BatchHeader,
    assemble_batch,
    read_header,
)
from protocol.records.markers import encode_end_transaction

_BASE_SEQUENCE = 0
"""The base sequence of every batch of transactional offsets, as in Kafka 4.3.1. The sequence of
such a batch is not checked."""


def own_batch(
    run: OwnBatch, form: BatchForm, base_offset: int, leader_epoch: int, wall_ms: int
) -> tuple[bytes, BatchHeader]:
    """Returns the batch of a run, and the header of this batch. The first record gets the log
    offset ``base_offset``."""
    if isinstance(run, MarkerRun):
        batch = encode_end_transaction(
            COMMIT if run.committed else ABORT,
            base_offset=base_offset,
            timestamp=wall_ms,
            producer_id=run.producer_id,
            producer_epoch=run.producer_epoch,
            coordinator_epoch=run.coordinator_epoch,
            leader_epoch=leader_epoch,
        )
        return batch, read_header(batch)
    sections, count = [], 0
    for each in run.runs:
        sections.append(run_records(each, count))
        count += len(each)
    batch = assemble_batch(
        b"".join(sections),
        count,
        base_offset,
        wall_ms,
        wall_ms,
        leader_epoch=leader_epoch,
        compression=form.compression,
        compression_level=form.compression_level,
        attributes=form.attributes | TRANSACTIONAL_BIT,
        producer_id=run.producer_id,
        producer_epoch=run.producer_epoch,
        base_sequence=_BASE_SEQUENCE,
    )
    return batch, read_header(batch)
