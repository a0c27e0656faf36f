"""Validation of produced records, before anything is appended.

The order of checks is Kafka's: what the request's version allows, then each batch from outside
(length, size, CRC), then its header, then its records. Kafka trims bytes after the last
whole batch and answers success. This refuses them: what is acknowledged is what was sent.
"""

from __future__ import annotations

from dataclasses import replace

from protocol.buffer import Buffer
from protocol.errors import INVALID_RECORD, RECORD_LIST_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE
from protocol.records.batch import (
    CODEC_BITS,
    CREATE_TIME,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LOG_APPEND_TIME,
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
    check_keys,
    check_size,
    check_times,
    has_time_bounds,
    in_bounds,
)
from protocol.records.produce_sets import store_as_set, take_set
from protocol.records.section import check_section, decode_section

REQUEST_RATIO = 16
"""The records of a request may be so many times its own bytes, however large it is."""
REQUEST_BYTES_PER_ELEMENT = 64
"""One record or header of so many decompressed bytes: 1.6 million where these are 100 MiB."""

_MAGIC_POSITION = 16
_SMALLEST_ENTRY_BYTES = 26  # a message of magic 0 with null key and value


def small_budget() -> Budget:
    """For what is checked at once, in the event loop: some 5 ms.

    A batch of the default max.message.bytes is within it when it is not compressed.
    """
    return Budget(1 << 20, 4096, 1 << 15)


def request_budget(size_bytes: int) -> Budget:
    """For all records of a request of ``size_bytes``.

    A small one may hold what a single batch may, a large one as much as well-compressed text makes
    of it. One mebibyte is checked in some 3 ms, and what makes it cost more counts as elements.
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
    """Validate the records of one partition of a Produce request of ``api_version``.

    ``now_ms`` is wall time in milliseconds. Raises CorruptRecords with Kafka's error code and,
    where single records are to blame, their indexes; OverBudget, one of these, when ``budget``
    (that of a request by default) has no room for them.
    """
    if budget is None:
        budget = request_budget(0)
    data: Buffer = b"" if records is None else records
    only = _check_version_rules(data, api_version)
    if not data:
        return Produced(b"", [])
    if data[_MAGIC_POSITION] < 2:
        produced = take_set(data, now_ms, rules, budget)
    else:
        headers = [header for header, _ in iter_batches(data)] if only is None else [only]
        for header in headers:
            if api_version < 7 and header.compression == ZSTD:
                raise CorruptRecords(
                    f"Produce requests with version {api_version} may not use zstd compression.",
                    UNSUPPORTED_COMPRESSION_TYPE,
                )
            check_size(header.size_bytes, rules)
            validate_batch(data, header)
            _check_header(header)
        if rules.magic == 2:
            produced = _check_records(data, headers, now_ms, rules, budget)
        else:
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


def _check_version_rules(data: Buffer, api_version: int) -> BatchHeader | None:
    """What ProduceRequest itself demands of its version; the batch, where there must be one."""
    if api_version >= 3 and not data:
        raise CorruptRecords(
            f"Produce requests with version {api_version} must have a record batch.",
            INVALID_RECORD,
        )
    if not data:
        return None
    if len(data) < _SMALLEST_ENTRY_BYTES:
        raise CorruptRecords(f"{len(data)} bytes of records are neither a batch nor a message.")
    magic = data[_MAGIC_POSITION]
    if magic > 2:
        raise CorruptRecords(f"Magic {magic} does not exist.")
    if api_version < 3:
        return None
    if magic != 2:
        raise CorruptRecords(
            f"Produce requests with version {api_version} may only hold batches of magic 2, not"
            f" {magic}.",
            INVALID_RECORD,
        )
    header = read_header(data)
    if header.end < len(data):
        raise CorruptRecords(
            f"Produce requests with version {api_version} must have exactly one record batch per"
            f" partition; {len(data) - header.end} bytes follow the first.",
            INVALID_RECORD,
        )
    return header


def _check_header(header: BatchHeader) -> None:
    """What Kafka demands of a client's batch header; the CRC holds already."""
    count = header.record_count
    if header.base_offset != 0:
        problem = f"The base offset of an appended batch must be 0, not {header.base_offset}."
    elif count < 1:
        problem = f"A batch claims {count} records."
    elif header.last_offset_delta != count - 1:
        problem = f"A batch of {count} records has last offset delta {header.last_offset_delta}."
    elif header.is_control:
        problem = "Clients may not write control records."
    elif header.producer_id >= 0 and header.base_sequence < 0:
        problem = (
            f"Producer {header.producer_id} sent sequence number {header.base_sequence}, which"
            " must be 0 or more."
        )
    else:
        return
    raise CorruptRecords(problem, INVALID_RECORD)


def _check_records(
    data: Buffer, headers: list[BatchHeader], now_ms: int, rules: ProduceRules, budget: Budget
) -> Produced:
    """Check every record; change what the topic's settings change."""
    changed: list[bytearray | None] = []
    view = memoryview(data)
    for header in headers:
        packed = view[header.position + HEADER_BYTES : header.end]
        section = budget.open(header.compression, packed, rules.decompressed_bytes_max)
        checked = check_section(
            section, header.record_count, header.base_timestamp, rules.compacted, budget
        )
        check_keys(checked.null_keys)
        if header.timestamp_type == LOG_APPEND_TIME:
            raise append_time_from_client(header.record_count)
        if has_time_bounds(rules) and not in_bounds(checked, now_ms, rules):
            records = decode_section(
                section, header.record_count, 0, header.base_timestamp, header.last_offset_delta
            )
            check_times([record.timestamp for record in records], now_ms, rules)
        latest = now_ms if rules.timestamp_type == LOG_APPEND_TIME else checked.max_timestamp
        if rules.compression not in (None, NO_COMPRESSION, header.compression):
            budget.take_recompressed(len(section))
        changed.append(_adjusted(data, header, section, latest, rules))
    if not any(changed):
        return Produced(data, headers)
    joined = b"".join(
        view[header.position : header.end] if batch is None else batch
        for header, batch in zip(headers, changed, strict=True)
    )
    return Produced(joined, [header for header, _ in iter_batches(joined)])


def _adjusted(
    data: Buffer, header: BatchHeader, section: Unpacked, max_timestamp: int, rules: ProduceRules
) -> bytearray | None:
    """The batch in the topic's codec and timestamp type, with ``max_timestamp``.

    None when nothing changes: the common case.
    """
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
    elif (rules.timestamp_type, max_timestamp) != (CREATE_TIME, header.max_timestamp):
        batch = bytearray(memoryview(data)[header.position : header.end])
    else:
        return None
    patch_max_timestamp(batch, read_header(batch), max_timestamp, rules.timestamp_type)
    return batch
