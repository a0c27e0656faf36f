"""Reads the settings of the runtime of transactional ids, and of its cores, from the
configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.config.config import Config
from broker.cores.runtime_settings import RuntimeSettings, load_skips
from broker.topics.produce_rules import timestamp_type_of
from broker.topics.ticket import Ticket
from protocol.records.batch import CREATE_TIME
from transactions.config import TransactionConfig
from transactions.producer_ids import ProducerIds

LOADS_AT_ONCE: Final = 10
"""The maximum number of concurrent loads.

Each load writes a leader epoch to disk (duties.py), and concurrent loads share the flushes. The
loads of 50 partitions took 340 ms one after the other, and 25 ms concurrently.
"""


def transaction_config(
    config: Config, marker_sender: Ticket, producer_ids: ProducerIds, max_record_bytes: int
) -> TransactionConfig:
    return TransactionConfig(
        marker_sender=marker_sender,
        producer_ids=producer_ids,
        transaction_version=config["transaction.version"],
        max_timeout_ms=config["transaction.max.timeout.ms"],
        expiration_ms=config["transactional.id.expiration.ms"],
        abort_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        expire_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
        max_record_bytes=max_record_bytes,
    )


def runtime_settings(
    config: Config,
    marker_sender: Ticket,
    producer_ids: ProducerIds,
    topic: Mapping[str, Any] | None = None,
) -> RuntimeSettings:
    """Returns the settings of the runtime. ``topic`` has the settings of ``__transaction_state``;
    None before the topic exists.

    The batches of this topic are never compressed, as in Kafka.
    """
    most = config["message.max.bytes"] if topic is None else topic["max.message.bytes"]
    return RuntimeSettings(
        core=transaction_config(config, marker_sender, producer_ids, most),
        stable_timeout_ms=config["request.timeout.ms"],
        load_buffer_bytes=config["transaction.state.log.load.buffer.size"],
        load_skips=load_skips(config["transaction.state.log.load.skip.records"]),
        timestamp_type=CREATE_TIME if topic is None else timestamp_type_of(topic),
        loads_at_once=LOADS_AT_ONCE,
    )
