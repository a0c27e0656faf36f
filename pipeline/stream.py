"""The offsets topic followed as it grows, into the table `events` of a store.

Each batch of the stream becomes one folder, `events/batch=N`, written beside the table and renamed
when it is whole. A stream that is killed anywhere begins again with the batch that its checkpoint
has not closed: the same records, which are left out when their folder is there already. So any
Parquet reader finds each record once. Damaged rows are in `quarantine` too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import connector
from pipeline.errors import PipelineError
from pipeline.jobs import QUARANTINED, quarantine
from pipeline.sources.broker import addresses_of
from pipeline.spark_open import EVENTS_TABLE, BrokerSource
from pipeline.store import Store

CHECKPOINT: Final = "_events_checkpoint"
"""Beside the tables; readers pass over names that begin so."""
RECORDS_PER_BATCH: Final = 500_000
TRIGGER_S: Final = 10.0


def follow(
    spark: SparkSession,
    where: str,
    store: Store,
    *,
    available_now: bool = False,
    trigger_s: float = TRIGGER_S,
    records_per_batch: int = RECORDS_PER_BATCH,
) -> StreamingQuery:
    """Start, or go on, following a broker's offsets topic; the running query.

    With ``available_now`` it ends when what is there now has been written, in batches of at most
    ``records_per_batch``; else it looks for more every ``trigger_s`` seconds. PipelineError when
    the source is no broker, the store is another cluster's, or has events that no stream wrote.
    """
    addresses = addresses_of(where)
    if addresses is None:
        raise PipelineError(f"{where} cannot be followed: name a broker as HOST:PORT")
    source = BrokerSource(spark, where, addresses)
    _check(store)
    store.belong_to(source.cluster_id)
    rows = connector.follow_offsets(
        spark, source.bootstrap, source.log_partitions, records_per_batch
    )
    writer = connector.events_of(rows).writeStream.queryName(f"events of {where}")
    writer = writer.option("checkpointLocation", store.path(CHECKPOINT))
    if available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{trigger_s} seconds")
    return writer.foreachBatch(batch_writer(store)).start()


def finish(query: StreamingQuery) -> None:
    """Wait until a stream ends. PipelineError says why it failed."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        last = str(error).strip().splitlines()[0]
        raise PipelineError(
            f"the stream {query.name} stopped: {last}; start it again to go on from there"
        ) from error


def batch_writer(store: Store) -> Callable[[DataFrame, int], None]:
    """What writes one batch of a stream; a batch that is there already is left as it is."""

    def write(events: DataFrame, batch_id: int) -> None:
        batch = f"batch={batch_id}"
        if store.has_part(EVENTS_TABLE, batch):
            return
        store.write_part(
            EVENTS_TABLE,
            batch,
            events,
            partition_by=("log_partition",),
            before=lambda written: _set_aside(store, batch, written),
        )

    return write


def _set_aside(store: Store, batch: str, written: DataFrame) -> None:
    """Put a batch's damaged rows into quarantine, before the batch itself appears."""
    damaged = quarantine(written)
    if not damaged.isEmpty() and not store.has_part(QUARANTINED, batch):
        store.write_part(QUARANTINED, batch, damaged)


def _check(store: Store) -> None:
    """PipelineError when checkpoint and table do not belong together."""
    followed = store.has_file(CHECKPOINT)
    if store.has(EVENTS_TABLE) and not followed:
        raise PipelineError(f"{store.folder} has events that no stream wrote: choose another --out")
    if followed and store.has_file(f"{CHECKPOINT}/commits/0") and not store.has(EVENTS_TABLE):
        raise PipelineError(
            f"{store.folder} has the checkpoint of a stream whose events are gone: delete"
            f" {store.path(CHECKPOINT)} too, to begin again"
        )
