"""Returns one record of a topic in readable form, for example the record at which a consumer is
stuck.

`GET /api/topics/TOPIC/PARTITION/record?offset=N` returns the record at offset N. If the cleaner
removed that record, or if N is a marker, it returns the next record. A disk thread reads the batch,
and the worker thread decodes it, one batch at a time for all clients: a batch may decompress to 100
MiB. The response contains up to 4 KiB of the key, of the value and of each header.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from starlette.responses import JSONResponse, Response

from broker.metrics.sources import Sources
from broker.topics.partition import Partition
from broker.topics.registry import INTERNAL_TOPICS
from broker.web.answers import refused, whole_number
from broker.web.views.topics import not_here
from log.errors import CorruptLog, OffsetOutOfRange
from protocol.buffer import Buffer
from protocol.records.batch import BatchHeader
from protocol.records.budget import OverBudget
from protocol.records.compression import DecompressedTooLarge
from protocol.records.corrupt import CorruptRecords
from protocol.records.find import Found, find_record
from protocol.records.stored import read_stored, validate_stored

SHOWN_BYTES = 4096
"""The maximum number of bytes shown of a key, a value, a header name or a header value."""
HEADERS_SHOWN = 32
BATCHES_PASSED = 1000
"""The maximum number of batches without a record that one request skips: markers, and batches that
the cleaner emptied."""
_INTEGER_MAX = 2**53 - 1
"""The largest integer up to which JavaScript and many other languages represent each integer
exactly."""

View = dict[str, Any]


class Peek:
    """Reads single records. Only the event loop's thread may use this class."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._one = asyncio.Lock()

    async def answer(self, topic: str, partition: str, offset: str | None) -> Response:
        """Returns the record, or an error with the reason why no record can be returned."""
        if topic in INTERNAL_TOPICS:
            return refused(
                403,
                f"topic {topic} is internal: the API does not show its records;"
                " use muster logs dump",
            )
        entry = self._sources.logs.topics.get(topic)
        if entry is None:
            return refused(404, f"topic {topic} does not exist; /api/topics lists all topics")
        number = whole_number(partition)
        found = None if number is None else entry.partition(number)
        if found is None:
            return refused(404, not_here(self._sources, entry, partition, number))
        wanted = None if offset is None else whole_number(offset)
        if wanted is None:
            return refused(400, "offset: write a number from 0, as in ?offset=42")
        start, end = found.log.log_start_offset, found.high_watermark
        if wanted < start:
            return refused(
                416, f"offset {wanted} of {found.name} was deleted: the log starts at {start}"
            )
        if wanted >= end:
            return refused(
                416, f"offset {wanted} of {found.name} does not exist yet: the log ends at {end}"
            )
        try:
            async with self._one:
                view = await self._next(found, wanted)
        except OffsetOutOfRange as error:
            return refused(416, f"{found.name}: {error}")
        except (OverBudget, DecompressedTooLarge) as error:
            return refused(
                422,
                f"the record at offset {wanted} of {found.name} can't be shown: {error.message}",
            )
        except (CorruptLog, CorruptRecords) as error:
            return refused(422, f"the batch at offset {wanted} of {found.name} is damaged: {error}")
        except OSError as error:
            return refused(503, f"{found.name} can't be read: {error}")
        if view is None:
            return refused(
                404,
                f"{found.name} has no records from offset {wanted} to its end, only transaction"
                " markers and batches that the cleaner emptied",
            )
        return JSONResponse(view, headers={"cache-control": "no-store"})

    async def _next(self, partition: Partition, offset: int) -> View | None:
        """Returns the view of the first record at or after ``offset``; None if no such record
        exists."""
        disk, worker = self._sources.disk_reads, self._sources.worker
        wanted = offset
        for _ in range(BATCHES_PASSED):
            data = await disk.read(partial(_read, partition, wanted, partition.high_watermark))
            if not data:
                return None
            header = read_stored(data)
            if not header.is_control or header.magic != 2:
                view = await worker.run(self, partial(_look, data, header, offset))
                if view is not None:
                    return {
                        "topic": partition.topic,
                        "partition": partition.index,
                        **view,
                        "transaction": _transaction(partition, header, view["offset"]),
                    }
            wanted = header.last_offset + 1
        raise OverBudget(
            f"the {BATCHES_PASSED} batches from {offset} have no records; try offset {wanted}"
        )


def _read(partition: Partition, offset: int, end_offset: int) -> bytes:
    """Returns the batch that contains ``offset``, or the next batch; b"" if neither exists. Runs in
    a thread."""
    return partition.log.read(offset, 1, max_offset=end_offset).data


def _look(data: bytes, header: BatchHeader, offset: int) -> View | None:
    """Returns the first record at or after ``offset`` in the batch, as data for JSON; None if no
    such record exists. Runs in a thread."""
    validate_stored(data, header)
    found = find_record(data, header, offset, HEADERS_SHOWN)
    return None if found is None else record_view(found)


def record_view(found: Found) -> View:
    """Returns the view of a record. Long keys, values and headers are shortened."""
    return {
        "offset": found.offset,
        "timestamp_ms": found.timestamp if found.timestamp >= 0 else None,
        "key": bytes_view(found.key),
        "value": bytes_view(found.value),
        "headers": [
            {
                "key": bytes(name[:SHOWN_BYTES]).decode("utf-8", "replace"),
                "value": bytes_view(value),
            }
            for name, value in found.headers
        ],
        "more_headers": found.header_count - len(found.headers),
        "bytes": found.size_bytes,
    }


def bytes_view(data: Buffer | None) -> View | None:
    """Returns bytes as text, as JSON and as hex, as far as they can be converted; None for null."""
    if data is None:
        return None
    shown = bytes(data[:SHOWN_BYTES])
    is_whole = len(shown) == len(data)
    text = _text(shown, is_whole)
    return {
        "size": len(data),
        "truncated": not is_whole,
        "text": text,
        "json": _json(text) if text is not None and is_whole else None,
        "hex": shown.hex(),
    }


def _text(shown: bytes, is_whole: bool) -> str | None:
    """Returns ``shown`` as text, without an incomplete character at the end; None if it is not
    valid UTF-8 or contains control characters."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(shown, final=is_whole)
    except UnicodeDecodeError:
        return None
    return None if any(each < " " and each not in "\t\n\r" for each in text) else text


def _json(text: str) -> Any:
    """Returns the parsed JSON. Returns None if ``text`` is not JSON, or if the JSON parser of a
    client might read other values from it."""
    try:
        return json.loads(
            text,
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_no_constant,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError):
        return None


def _integer(digits: str) -> int:
    value = int(digits)
    if abs(value) > _INTEGER_MAX:
        raise ValueError(digits)
    return value


def _decimal(digits: str) -> float:
    value = float(digits)
    try:
        is_exact = Decimal(repr(value)) == Decimal(digits)
    except InvalidOperation:
        is_exact = False
    if not is_exact or value in (float("inf"), float("-inf")):
        raise ValueError(digits)
    return value


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a JSON object must not contain the same name twice")
    return value


def _transaction(partition: Partition, header: BatchHeader, offset: int) -> str | None:
    """Returns the state of the transaction to which the record belongs; None if it belongs to no
    transaction."""
    if header.magic != 2 or not header.is_transactional:
        return None
    log, producer_id = partition.log, header.producer_id
    begun = log.producers.open_transactions.get(producer_id)
    if begun is not None and offset >= begun:
        return "open"
    aborted = any(aborts[0] == producer_id for aborts in log.aborted_between(offset, offset + 1))
    return "aborted" if aborted else "committed"
