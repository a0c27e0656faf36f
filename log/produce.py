"""Checks sizes and sequences of a producer's batches before they are written, and sets their
offsets."""

from __future__ import annotations

from typing import NamedTuple

from log.config import LogConfig
from log.errors import AppendRefused
from log.producers.producer_state import ProducerStates
from log.values import Appended
from protocol.buffer import Buffer
from protocol.errors import MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE
from protocol.records.batch import (
    LOG_APPEND_TIME,
    OVERHEAD,
    BatchHeader,
    iter_batches,
    patch_max_timestamp,
    patch_offset_and_epoch,
)
from protocol.records.message_set import placed
from protocol.records.stored import MAGIC_POSITION, iter_stored


class Placed(NamedTuple):
    """Batches with their offsets, ready for the write."""

    buffer: bytearray
    headers: list[BatchHeader]
    last_offset: int
    max_timestamp_ms: int


def place(
    batches: Buffer,
    offset: int,
    leader_epoch: int,
    stamp_ms: int | None,
    config: LogConfig,
    producers: ProducerStates,
    headers: list[BatchHeader] | None = None,
    from_zero: bool = False,
) -> Placed | Appended:
    """Assigns offsets to the batches of a producer, starting with ``offset``. If the log already
    contains these batches (the producer repeats a request), returns the existing batch instead.
    Raises AppendRefused.

    If ``batches`` is a ``bytearray``, it is changed in place. ``stamp_ms`` is the wall time of the
    append, for topics with log append time. ``headers`` are the parsed headers of the batches, if
    the caller has them. ``from_zero`` is passed to `ProducerStates.check`.
    """
    if batches and batches[MAGIC_POSITION] < 2:
        return _place_set(batches, offset, stamp_ms, config)
    buffer = batches if isinstance(batches, bytearray) else bytearray(batches)
    if headers is None:
        headers = [header for header, _ in iter_batches(buffer)]
    size_max = config.max_message_bytes
    for header in headers:
        if header.batch_length + OVERHEAD > size_max:
            raise _too_large(header.size_bytes, config)
    if len(buffer) > config.segment_bytes:
        raise _too_long(len(buffer), config)
    if len(headers) > 1 or (headers and headers[0].producer_id >= 0):
        known = _check_producers(headers, producers, from_zero)
        if known is not None:
            return known
    max_timestamp_ms = -1
    for header in headers:
        patch_offset_and_epoch(buffer, header.position, offset, leader_epoch)
        header.base_offset = offset
        header.partition_leader_epoch = leader_epoch
        if stamp_ms is not None and (header.timestamp_type, header.max_timestamp) != (
            LOG_APPEND_TIME,
            stamp_ms,
        ):
            patch_max_timestamp(buffer, header, stamp_ms, LOG_APPEND_TIME)
        max_timestamp_ms = max(max_timestamp_ms, header.max_timestamp)
        offset += header.last_offset_delta + 1
    return Placed(buffer, headers, offset - 1, max_timestamp_ms)


def _check_producers(
    headers: list[BatchHeader], producers: ProducerStates, from_zero: bool
) -> Appended | None:
    """Checks each batch as if the earlier batches were already appended. If the log already
    contains one of the batches, returns the batch in the log, else None. Raises AppendRefused."""
    if len(headers) == 1:
        known = producers.duplicate_of(headers[0])
        if known is None:
            producers.check(headers[0], from_zero)
        return known
    trial = producers.trial(headers)
    for header in headers:
        if header.producer_id >= 0:
            known = producers.duplicate_of(header)
            if known is not None:
                return known
            trial.check(header, from_zero)
            trial.note(header)
    return None


def _place_set(messages: Buffer, offset: int, stamp_ms: int | None, config: LogConfig) -> Placed:
    """Assigns offsets from ``offset`` on to a message set of magic 0 or 1. Before, the offsets in
    ``messages`` count from 0. The function `place` does the same for batches."""
    buffer = placed(messages, offset, stamp_ms)
    headers = [header for header, _ in iter_stored(buffer)]
    for header in headers:
        if header.size_bytes > config.max_message_bytes:
            raise _too_large(header.size_bytes, config)
    if len(buffer) > config.segment_bytes:
        raise _too_long(len(buffer), config)
    max_timestamp_ms = max(header.max_timestamp for header in headers)
    return Placed(buffer, headers, headers[-1].last_offset, max_timestamp_ms)


def _too_large(size: int, config: LogConfig) -> AppendRefused:
    return AppendRefused(
        MESSAGE_TOO_LARGE,
        f"The batch of {size} bytes exceeds max.message.bytes={config.max_message_bytes}.",
    )


def _too_long(size: int, config: LogConfig) -> AppendRefused:
    return AppendRefused(
        RECORD_LIST_TOO_LARGE,
        f"The batch of {size} bytes does not fit into a segment of {config.segment_bytes} bytes.",
    )
