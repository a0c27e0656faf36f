"""Batches of the offsets topic that contain one run: a transaction's offsets, or its marker.

Kafka writes each with its producer: the id and the epoch are fields of the batch, so records of two
producers never share one.
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
"""The sequence of every transactional commit, as Kafka 4.3.1 writes it; a coordinator's is not
checked."""


def own_batch(
    run: OwnBatch, form: BatchForm, base_offset: int, leader_epoch: int, wall_ms: int
) -> tuple[bytes, BatchHeader]:
    """The batch of a run, whose first record gets ``base_offset``, and the batch's header."""
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
