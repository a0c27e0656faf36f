"""Records for old clients: without zstd, and in an older form where they know no batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from broker.net.request import Chunk
from broker.topics.partition import Partition
from log.batch_scan import headers
from log.cached_file import CachedFile
from log.values import ReadInfo, Slice
from protocol.errors import (
    CORRUPT_MESSAGE,
    NONE,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_VERSION,
)
from protocol.records.batch import CODEC_BITS
from protocol.records.compression import ZSTD
from protocol.records.convert import down_convert, needs_conversion
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import iter_stored

logger = structlog.get_logger(__name__)


class Converted(NamedTuple):
    """Records for an old client, or an error; ``records`` were given an older form."""

    error_code: int
    chunks: Sequence[Chunk] = ()
    records: int = 0
    aborted: Sequence[tuple[int, int]] = ()
    """The transactions among them that were aborted."""


def without_zstd(
    info: ReadInfo, aborted: Sequence[tuple[int, int]], *, wait: bool = True
) -> Converted:
    """What ``info`` found, for a client that knows batches but no zstd.

    In any thread; raises CorruptLog, OSError, and unless ``wait`` is set NotInMemory.
    """
    pieces = _before_zstd(info, wait)
    if pieces is None:
        return Converted(UNSUPPORTED_COMPRESSION_TYPE)
    return Converted(NONE, pieces, aborted=aborted)


def old_form(
    partition: Partition,
    info: ReadInfo,
    end: int,
    magic: int,
    offset: int,
    limit: int,
    *,
    may_convert: bool,
) -> Converted:
    """What ``info`` found, without zstd and in ``magic`` at the most.

    Batches without a record for an old client (markers, emptied ones) are passed over: with an
    answer of nothing it would ask for the same offset for ever. This reader may have what lies
    below ``end``. It waits for the disk, in any thread; raises CorruptLog and OSError.
    """
    pieces = _before_zstd(info, wait=True)
    if pieces is None:
        return Converted(UNSUPPORTED_COMPRESSION_TYPE)
    data = _bytes(pieces)
    if not needs_conversion(data, magic):
        return Converted(NONE, pieces)
    if not may_convert:
        return Converted(UNSUPPORTED_VERSION)
    records = 0
    try:
        while True:
            converted = down_convert(data, magic, offset)
            records += converted.records
            if converted.data:
                return Converted(NONE, [converted.data], records)
            last = max(header.last_offset for header, _ in iter_stored(data, partial=True))
            more = partition.log.read(last + 1, limit, max_offset=end)
            following = _before_zstd(more, wait=True)
            if not following:
                return Converted(NONE, (), records)
            data = _bytes(following)
    except CorruptRecords as error:
        logger.error("a batch can't be converted", partition=partition.name, why=error.message)
        return Converted(CORRUPT_MESSAGE)


def _before_zstd(info: ReadInfo, wait: bool) -> list[Slice] | None:
    """The entries before the first in zstd, None when it is the very first.

    Their headers are looked at, and their records stay where they are.
    """
    kept: list[Slice] = []
    for piece in info.slices:
        end = piece.position + piece.length
        file = piece.file if wait else CachedFile(piece.file)
        for header in headers(file, piece.position, piece.file.size()):
            if header.position >= end:
                break
            if header.attributes & CODEC_BITS == ZSTD:
                if header.position > piece.position:
                    kept.append(piece._replace(length=header.position - piece.position))
                return kept or None
        kept.append(piece)
    return kept


def _bytes(pieces: Sequence[Slice]) -> bytes:
    return b"".join([piece.file.read(piece.position, piece.length) for piece in pieces])


def size_of(chunk: Chunk) -> int:
    """How many bytes a piece of an answer has."""
    return chunk.length if isinstance(chunk, Slice) else len(chunk)
