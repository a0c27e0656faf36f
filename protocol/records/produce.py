"""Validates produced records before anything is appended.

The order of checks is Kafka's: first the rules of the request's version, then the length, size and
CRC of each batch, then its header, then its records. Kafka drops bytes after the last complete
batch and answers success. Muster rejects such bytes, because only complete batches may be
acknowledged.
"""

from __future__ import annotations

from dataclasses import replace

from protocol.buffer import Buffer
from protocol.errors import INVALID_RECORD, RECORD_LIST_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE
from protocol.records.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    CREATE_TIME,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LOG_APPEND_BIT,
    LOG_APPEND_TIME,
    OVERHEAD,
    BatchHeader,
    assemble_batch,
    iter_batches,
    patch_max_timestamp,
    read_header,
    validate_batch,
)
from protocol.records.budget import ELEMENTS_PER_MESSAGE, Budget
from protocol.records.compression import NONE as NO_COMPRESSION
from protocol.records.compression import ZSTD, Unpacked
from protocol.records.corrupt import CorruptRecords
from protocol.records.produce_rules import (
    DEFAULT_RULES,
    Produced,
    ProduceRules,
    append_time_from_client,
    check_size,
    check_times,
    has_time_bounds,
    in_bounds,
    too_large,
    without_keys,
)
from protocol.records.produce_sets import store_as_set, take_set
from protocol.records.section import CheckedSection, check_section, decode_section

REQUEST_RATIO = 16
"""The number of decompressed record bytes that are allowed for each byte of the request."""
REQUEST_BYTES_PER_ELEMENT = 64
"""A request may contain one record or header for each 64 decompressed bytes: 1.6 million records
and headers in 100 MiB."""

SMALL_BUDGET = (1 << 20, 4096, 1 << 15)
"""The `Budget` of records that are checked directly in the event loop. Such a check takes at most
about 5 ms. The budget suffices for an uncompressed batch of the default max.message.bytes."""

_MAGIC_POSITION = 16
_SMALLEST_ENTRY_BYTES = 26  # a message of magic 0 with null key and value
_NO_MAGIC = -1


def request_budget(size_bytes: int) -> Budget:
    """Returns the budget for all records of a request of ``size_bytes``.

    A small request may use as much as a single batch of the maximum size. The budget of a large
    request grows with its size, and suffices for text that compresses well. The check of one
    mebibyte takes about 3 ms.

    The budget also limits the number of elements, since each element costs time in addition to its
    bytes.
    """
    opened = max(DECOMPRESSED_BYTES_MAX, REQUEST_RATIO * size_bytes)
    return Budget(opened, opened // REQUEST_BYTES_PER_ELEMENT, opened)


def analyse(
    records: Buffer | None,
    api_version: int,
    now_ms: int,
    rules: ProduceRules = DEFAULT_RULES,
    budget: Budget | None = None,
) -> Produced:
    """Validates the records of one partition of a Produce request of ``api_version``. ``now_ms`` is
    the wall time in milliseconds.

    Raises CorruptRecords with Kafka's error code; if single records are invalid, the exception has
    their indexes. Raises OverBudget, a subclass of CorruptRecords, if the records exceed
    ``budget``. The default budget is that of a request of this size.
    """
    if budget is None:
        budget = request_budget(0)
    data: Buffer = b"" if records is None else records
    size = len(data)
    if not size and api_version < 3:
        return Produced(b"", [])
    magic = data[_MAGIC_POSITION] if size >= _SMALLEST_ENTRY_BYTES else _NO_MAGIC
    if magic != 2 and (api_version >= 3 or not 0 <= magic <= 1):
        raise _of_no_batch(size, magic, api_version)
    if magic < 2:
        produced = take_set(data, now_ms, rules, budget)
    elif rules.magic == 2:
        headers = _checked_headers(data, api_version, rules)
        produced = _check_records(data, headers, now_ms, rules, budget)
    else:
        headers = _checked_headers(data, api_version, rules)
        as_they_come = replace(rules, compression=None)
        left = budget.bytes_left
        produced = _check_records(data, headers, now_ms, as_they_come, budget)
        budget.take(ELEMENTS_PER_MESSAGE * sum(header.record_count for header in headers))
        if rules.compression or any(header.compression for header in headers):
            budget.take_recompressed(left - budget.bytes_left)
        produced = store_as_set(produced.data, produced.batches, rules)
    if len(produced.data) > rules.segment_bytes:
        raise CorruptRecords(
            f"The record list of {len(produced.data)} bytes exceeds the segment size of"
            f" {rules.segment_bytes} bytes.",
            RECORD_LIST_TOO_LARGE,
        )
    return produced


def _of_no_batch(size: int, magic: int, api_version: int) -> CorruptRecords:
    """Returns the error for produced records that do not begin with a batch or a message, or whose
    format the API version does not allow."""
    if not size:
        return CorruptRecords(
            f"Produce requests with version {api_version} must have a record batch.",
            INVALID_RECORD,
        )
    if magic == _NO_MAGIC:
        return CorruptRecords(f"{size} bytes of records are neither a batch nor a message.")
    if magic > 2:
        return CorruptRecords(f"Unknown magic {magic}.")
    return CorruptRecords(
        f"Produce requests with version {api_version} may only hold batches of magic 2, not"
        f" {magic}.",
        INVALID_RECORD,
    )


def _checked_headers(data: Buffer, api_version: int, rules: ProduceRules) -> list[BatchHeader]:
    """Checks that the API version allows the number of batches. Then checks size, CRC and header of
    each batch. Returns the headers."""
    headers = []
    position = 0
    while position < len(data):
        header = read_header(data, position)
        headers.append(header)
        position = header.position + header.batch_length + OVERHEAD
        if api_version >= 3 and position < len(data):
            raise CorruptRecords(
                f"Produce requests with version {api_version} must have exactly one record batch"
                f" per partition; {len(data) - position} bytes follow the first.",
                INVALID_RECORD,
            )
    for header in headers:
        attributes, size_bytes = header.attributes, header.batch_length + OVERHEAD
        if api_version < 7 and attributes & CODEC_BITS == ZSTD:
            raise CorruptRecords(
                f"Produce requests with version {api_version} may not use zstd compression.",
                UNSUPPORTED_COMPRESSION_TYPE,
            )
        if size_bytes > rules.max_message_bytes:
            raise too_large(size_bytes, rules)
        validate_batch(data, header)
        count = header.record_count
        if (
            header.base_offset
            or count < 1
            or header.last_offset_delta != count - 1
            or attributes & CONTROL_BIT
            or header.base_sequence < 0 <= header.producer_id
        ):
            raise _bad_header(header)
    return headers


def _bad_header(header: BatchHeader) -> CorruptRecords:
    """Returns the error for a header that has a valid CRC, but values that clients must not
    send."""
    count = header.record_count
    if header.base_offset:
        problem = f"The base offset of an appended batch must be 0, not {header.base_offset}."
    elif count < 1:
        problem = f"The batch has {count} records, but it must have at least 1."
    elif header.last_offset_delta != count - 1:
        problem = (
            f"The batch of {count} records has last offset delta {header.last_offset_delta},"
            f" but it must be {count - 1}."
        )
    elif header.is_control:
        problem = "Clients can't write control records."
    else:
        problem = (
            f"Producer {header.producer_id} sent sequence number"
            f" {header.base_sequence}, but it must be at least 0."
        )
    return CorruptRecords(problem, INVALID_RECORD)


def _check_records(
    data: Buffer, headers: list[BatchHeader], now_ms: int, rules: ProduceRules, budget: Budget
) -> Produced:
    """Checks every record, and applies the topic's settings to the batches."""
    changed: list[bytearray | None] = []
    view = memoryview(data)
    for header in headers:
        codec = header.attributes & CODEC_BITS
        start = header.position + HEADER_BYTES
        end = header.position + header.batch_length + OVERHEAD
        count = header.record_count
        section = budget.open(codec, view[start:end], rules.decompressed_bytes_max, elements=count)
        checked = check_section(section, count, header.base_timestamp, rules.compacted, budget)
        if checked.null_keys:
            raise without_keys(checked.null_keys)
        if header.attributes & LOG_APPEND_BIT:
            raise append_time_from_client(count)
        if (rules.timestamp_before_max_ms, rules.timestamp_after_max_ms) != (None, None):
            _check_times(section, header, checked, now_ms, rules)
        latest = now_ms if rules.timestamp_type == LOG_APPEND_TIME else checked.max_timestamp
        if (
            rules.compression in (None, codec)
            and rules.timestamp_type == CREATE_TIME
            and latest == header.max_timestamp
        ):
            changed.append(None)  # the common case
            continue
        if rules.compression not in (None, NO_COMPRESSION, codec):
            budget.take_recompressed(len(section))
        changed.append(_adjusted(data, header, section, latest, rules))
    if not any(changed):
        return Produced(data, headers)
    joined = b"".join(
        view[header.position : header.end] if batch is None else batch
        for header, batch in zip(headers, changed, strict=True)
    )
    return Produced(joined, [header for header, _ in iter_batches(joined)])


def _check_times(
    section: Unpacked,
    header: BatchHeader,
    checked: CheckedSection,
    now_ms: int,
    rules: ProduceRules,
) -> None:
    """Checks the timestamps of a batch's records against the topic's bounds."""
    if has_time_bounds(rules) and not in_bounds(checked, now_ms, rules):
        records = decode_section(
            section, header.record_count, 0, header.base_timestamp, header.last_offset_delta
        )
        check_times([record.timestamp for record in records], now_ms, rules)


def _adjusted(
    data: Buffer, header: BatchHeader, section: Unpacked, max_timestamp: int, rules: ProduceRules
) -> bytearray:
    """Returns the batch with the topic's codec and timestamp type, and with ``max_timestamp``."""
    codec = header.compression if rules.compression is None else rules.compression
    if codec != header.compression:
        if codec == NO_COMPRESSION:
            check_size(HEADER_BYTES + len(section), rules)
        batch = bytearray(
            assemble_batch(
                memoryview(section),
                header.record_count,
                0,
                header.base_timestamp,
                max_timestamp,
                leader_epoch=header.partition_leader_epoch,
                compression=codec,
                compression_level=rules.compression_level,
                attributes=header.attributes & ~CODEC_BITS,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
            )
        )
        check_size(len(batch), rules)
    else:
        batch = bytearray(memoryview(data)[header.position : header.end])
    patch_max_timestamp(batch, read_header(batch), max_timestamp, rules.timestamp_type)
    return batch
