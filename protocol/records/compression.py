"""The four codecs of record data, within bounds: nothing is allocated from a claimed length.

Decompression writes into buffers that grow with what comes out, and stops one byte above the limit.
gzip is zlib's, snappy comes in xerial's framing (raw snappy is read too), LZ4 in frames of
independent blocks, zstd in frames of its own.
"""

from __future__ import annotations

import struct
import zlib

import cramjam
import lz4.frame

from protocol.errors import MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import Buffer
from protocol.records.lz4_header import check_lz4_header, old_lz4_header
from protocol.records.varint import read_bits

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(
    ">ii", 1, 1
)  # version, oldest version that can read it
_XERIAL_BLOCK_BYTES = 32 * 1024  # xerial's own default, so every reader has met it
_GZIP_MEMBERS_MAX = 64  # each further member costs a copy of what is left
_INT32 = struct.Struct(">i")
_GZIP_LEVEL = -1  # these three are Kafka's defaults
_LZ4_LEVEL = 9
_ZSTD_LEVEL = 3
_LZ4_FAST = 0
_LZ4_LEVEL_MIN = 3


def compress(codec: int, data: Buffer, magic: int = 2, level: int | None = None) -> bytes:
    """Compress ``data`` as a batch or message of ``magic`` carries it under ``codec``.

    ``level`` is that of compression.{gzip,lz4,zstd}.level, None for the codec's default.
    """
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        packer = zlib.compressobj(_GZIP_LEVEL if level is None else level, wbits=31)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return _compress_snappy(data)
    if codec == LZ4:
        frame: bytes = lz4.frame.compress(
            data, compression_level=_lz4_level(level), block_linked=False, store_size=False
        )
        return old_lz4_header(frame) if magic == 0 else frame
    if codec == ZSTD and magic == 2:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
    raise _unknown(codec, magic)


def _lz4_level(level: int | None) -> int:
    """Kafka's fast compressor for its default, 9, and the thorough one for every other level.

    The thorough one begins at 3 here, whatever less is asked of it.
    """
    return _LZ4_FAST if level is None or level == _LZ4_LEVEL else max(level, _LZ4_LEVEL_MIN)


def decompress(codec: int, data: Buffer, limit: int, magic: int = 2) -> bytes:
    """Decompress ``data``, which must be whole and exact, to at most ``limit`` bytes.

    Raises CorruptRecords for a codec that ``magic`` does not have, damaged data, and more output
    than ``limit``.
    """
    if codec == NONE:
        if len(data) > limit:
            raise _too_large(codec, limit)
        return bytes(data)
    if codec == GZIP:
        return _decompress_gzip(data, limit)
    if codec == SNAPPY:
        return _decompress_snappy(data, limit)
    if codec == LZ4:
        return _decompress_lz4(check_lz4_header(data, magic), limit)
    if codec == ZSTD and magic == 2:
        return _decompress_zstd(data, limit)
    raise _unknown(codec, magic)


def _unknown(codec: int, magic: int) -> CorruptRecords:
    return CorruptRecords(
        f"Compression type {codec} is unknown to magic {magic}.", UNSUPPORTED_COMPRESSION_TYPE
    )


def _too_large(codec: int, limit: int) -> CorruptRecords:
    return CorruptRecords(
        f"Records in {NAMES[codec]} decompress to more than {limit} bytes.", MESSAGE_TOO_LARGE
    )


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    room = limit
    rest: Buffer = data
    for _ in range(_GZIP_MEMBERS_MAX):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            part = unpacker.decompress(rest, room + 1)
        except zlib.error as error:
            raise CorruptRecords(f"Damaged gzip data: {error}.") from None
        if len(part) > room:
            raise _too_large(GZIP, limit)
        if not unpacker.eof:
            raise CorruptRecords("The gzip data ends before its trailer.")
        parts.append(part)
        room -= len(part)
        rest = unpacker.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise CorruptRecords(f"The gzip data has more than {_GZIP_MEMBERS_MAX} members.")


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _snappy_block(view, limit, limit)
    if len(view) < len(_XERIAL_HEADER):
        raise CorruptRecords("The xerial header of the snappy data is cut short.")
    parts: list[bytes] = []
    room = limit
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + 4 > len(view):
            raise CorruptRecords("The snappy data ends inside a block length.")
        (size,) = _INT32.unpack_from(view, position)
        position += 4
        if size <= 0 or size > len(view) - position:
            raise CorruptRecords(
                f"A snappy block claims {size} bytes of the {len(view) - position} that are left."
            )
        parts.append(_snappy_block(view[position : position + size], room, limit))
        room -= len(parts[-1])
        position += size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_block(block: memoryview, room: int, limit: int) -> bytes:
    claimed, start = read_bits(block, 0, 32)
    if claimed > room:
        raise _too_large(SNAPPY, limit)
    # The densest element makes 64 bytes of 3; a claim above that cannot be true.
    if claimed > 22 * (len(block) - start):
        raise CorruptRecords(f"A snappy block of {len(block)} bytes claims to hold {claimed}.")
    out = bytearray(claimed)
    if claimed:
        try:
            made = cramjam.snappy.decompress_raw_into(block, out)
        except cramjam.DecompressionError as error:
            raise CorruptRecords(f"Damaged snappy data: {error}.") from None
        if made != claimed:
            raise CorruptRecords(f"A snappy block claims {claimed} bytes and holds {made}.")
    elif len(block) > start:
        raise CorruptRecords("An empty snappy block has bytes behind its length.")
    return bytes(out)


def _decompress_lz4(frame: Buffer, limit: int) -> bytes:
    unpacker = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    made = 0
    step = max(64 * 1024, 4 * len(frame))
    source: Buffer = frame
    while True:
        try:
            part: bytes = unpacker.decompress(source, min(step, limit + 1 - made))
        except (RuntimeError, EOFError) as error:
            raise CorruptRecords(f"Damaged LZ4 data: {error}.") from None
        parts.append(part)
        made += len(part)
        if made > limit:
            raise _too_large(LZ4, limit)
        if unpacker.eof:
            break
        if unpacker.needs_input or not part:
            raise CorruptRecords("The LZ4 frame ends before its end mark.")
        source = b""
        step *= 2
    if unpacker.unused_data:
        raise CorruptRecords("There are bytes behind the LZ4 frame.")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    # Into a buffer of our own that doubles, since a frame need not say its size and may lie.
    # zstd itself refuses windows above 128 MiB, and touches only as much as it writes.
    if not len(data):
        raise CorruptRecords("The zstd data is empty.")
    size = min(limit, max(64 * 1024, 8 * len(data)))
    while True:
        out = bytearray(size)
        try:
            made: int = cramjam.zstd.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise CorruptRecords(f"Damaged zstd data: {error}.") from None
            if size >= limit:
                raise _too_large(ZSTD, limit) from None
            size = min(limit, 4 * size)
            continue
        return bytes(memoryview(out)[:made])
