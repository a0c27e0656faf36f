"""The four codecs of record data, with bounded memory: a claimed length never determines how much
memory is allocated.

Decompression writes into buffers that grow with the output, and stops one byte above the limit.
gzip is zlib's. snappy uses xerial's framing (raw snappy is read too). LZ4 uses frames of
independent blocks. zstd uses zstd frames.

The codecs release the GIL while they work, so other threads run at the same time. Large output is
written to a memory map of its own (`unpack`), which is never filled or copied as a whole, because
filling 100 MiB would hold the GIL for some 50 ms. The system gets the memory of a map back when its
last reference ends. It would not get back the memory of a hundred smaller pieces.
"""

from __future__ import annotations

import mmap
import struct
import zlib

import cramjam
import lz4.frame

from protocol.buffer import Buffer
from protocol.errors import MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE
from protocol.records.corrupt import CorruptRecords
from protocol.records.lz4_header import check_lz4_header, old_lz4_header
from protocol.records.varint import read_bits

Unpacked = bytes | mmap.mmap
"""Decompressed bytes. Large output is a memory map, which is indexed and sliced like bytes."""

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
_XERIAL_BLOCK_BYTES = 32 * 1024  # xerial's default, which every reader supports
_GZIP_MEMBERS_MAX = 64
_PIECE_BYTES = 1024 * 1024  # larger output is written to a map
_OUTPUT_BYTES = 256 * 1024
_INPUT_BYTES = 64 * 1024  # input per call of a decompressor, which copies unused input
_INT32 = struct.Struct(">i")
_GZIP_LEVEL = -1  # these three are Kafka's defaults
_LZ4_LEVEL = 9
_ZSTD_LEVEL = 3
_LZ4_FAST = 0
_LZ4_LEVEL_MIN = 3


def compress(codec: int, data: Buffer, magic: int = 2, level: int | None = None) -> bytes:
    """Compresses ``data`` with ``codec``, in the format for a batch or message of ``magic``.
    ``level`` is compression.{gzip,lz4,zstd}.level; None means the codec's default."""
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
    """Returns the LZ4 level for the configured ``level``.

    None and 9, Kafka's default, select the fast compressor. Any other level selects the thorough
    compressor, whose levels begin at 3. Levels below 3 become 3.
    """
    return _LZ4_FAST if level is None or level == _LZ4_LEVEL else max(level, _LZ4_LEVEL_MIN)


def decompress(codec: int, data: Buffer, limit: int, magic: int = 2) -> bytes:
    """Decompresses ``data`` like `unpack`, but always returns bytes, even for large output."""
    unpacked = unpack(codec, data, limit, magic)
    return unpacked if isinstance(unpacked, bytes) else unpacked[:]


def unpack(codec: int, data: Buffer, limit: int, magic: int = 2) -> Unpacked:
    """Decompresses ``data`` to at most ``limit`` bytes. The data must be complete and have no
    further bytes.

    Raises CorruptRecords for a codec that does not exist in ``magic`` and for damaged data. Raises
    DecompressedTooLarge if the output has more than ``limit`` bytes.
    """
    if codec == NONE:
        if len(data) > limit:
            raise DecompressedTooLarge(codec, limit)
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
        f"Compression type {codec} does not exist in magic {magic}.", UNSUPPORTED_COMPRESSION_TYPE
    )


class DecompressedTooLarge(CorruptRecords):
    """The decompressed data would have more bytes than the limit."""

    def __init__(self, codec: int, limit: int) -> None:
        super().__init__(
            f"Records in {NAMES[codec]} decompress to more than {limit} bytes.", MESSAGE_TOO_LARGE
        )


class _Output:
    """Collects the output of a decompressor piece by piece, at most ``limit`` bytes."""

    def __init__(self, codec: int, limit: int) -> None:
        self.codec = codec
        self.limit = limit
        self.size = 0
        self._parts: list[bytes] = []
        self._large: mmap.mmap | None = None

    def room(self, at_most: int) -> int:
        """Returns how many bytes of output to request next, at most ``at_most``. It is one byte
        more than the limit allows, so that output above the limit is detected."""
        return min(self.limit - self.size + 1, at_most)

    def add(self, part: bytes) -> None:
        """Adds the next part of the decompressed data. Raises DecompressedTooLarge."""
        end = self.size + len(part)
        if end > self.limit:
            raise DecompressedTooLarge(self.codec, self.limit)
        large = self._large
        if large is None and end > _PIECE_BYTES:
            large = self._large = _map(4 * _PIECE_BYTES)
            large.write(b"".join(self._parts))
            self._parts.clear()
        if large is None:
            self._parts.append(part)
        else:
            if end > len(large):
                large = self._large = _resized(large, 2 * len(large))
            large[self.size : end] = part
        self.size = end

    def whole(self) -> Unpacked:
        if self._large is None:
            return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return _resized(self._large, self.size)


def _room_for(size: int) -> bytearray | mmap.mmap:
    """Returns a buffer for ``size`` bytes of output. It is a memory map if ``size`` is above
    _PIECE_BYTES."""
    return bytearray(size) if size <= _PIECE_BYTES else _map(size)


def _written(out: bytearray | mmap.mmap, size: int) -> Unpacked:
    if isinstance(out, bytearray) or size <= _PIECE_BYTES:
        return bytes(memoryview(out)[:size])
    return _resized(out, size)


def _map(size: int) -> mmap.mmap:
    """Returns a memory map of zeros that uses no memory until it is written. It is private, because
    only private maps can grow."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _resized(old: mmap.mmap, size: int) -> mmap.mmap:
    if size == len(old):
        return old
    try:
        old.resize(size)
    except SystemError:  # the system does not support it (macOS)
        new = _map(size)
        new.write(memoryview(old)[:size])
        return new
    return old


def _decompress_gzip(data: Buffer, limit: int) -> Unpacked:
    output = _Output(GZIP, limit)
    position = 0
    view = memoryview(data)
    for _ in range(_GZIP_MEMBERS_MAX):
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            rest: Buffer = view[position : position + _INPUT_BYTES]
            if not rest:
                raise CorruptRecords("The gzip data ends before its trailer.")
            position += len(rest)
            while rest and not unpacker.eof:
                try:
                    output.add(unpacker.decompress(rest, output.room(_OUTPUT_BYTES)))
                except zlib.error as error:
                    raise CorruptRecords(f"The gzip data is damaged: {error}.") from None
                rest = unpacker.unconsumed_tail
        position -= len(unpacker.unused_data)
        if position == len(view):
            return output.whole()
    raise CorruptRecords(f"The gzip data has more than {_GZIP_MEMBERS_MAX} members.")


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> Unpacked:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _snappy_block(view, limit, limit)
    if len(view) < len(_XERIAL_HEADER):
        raise CorruptRecords("The xerial header of the snappy data is truncated.")
    output = _Output(SNAPPY, limit)
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + 4 > len(view):
            raise CorruptRecords("The snappy data ends inside a block length.")
        (size,) = _INT32.unpack_from(view, position)
        position += 4
        if size <= 0 or size > len(view) - position:
            raise CorruptRecords(
                f"A snappy block has a length of {size} bytes, but {len(view) - position} are left."
            )
        block = _snappy_block(view[position : position + size], limit - output.size, limit)
        if isinstance(block, bytes):
            output.add(block)
        else:
            for at in range(0, len(block), _OUTPUT_BYTES):
                output.add(block[at : at + _OUTPUT_BYTES])
        position += size
    return output.whole()


def _snappy_block(block: memoryview, room: int, limit: int) -> Unpacked:
    claimed, start = read_bits(block, 0, 32)
    if claimed > room:
        raise DecompressedTooLarge(SNAPPY, limit)
    # The densest element expands 3 bytes to 64; a larger claim is invalid.
    if claimed > 22 * (len(block) - start):
        raise CorruptRecords(
            f"The header of a snappy block of {len(block)} bytes claims {claimed} decompressed"
            " bytes, which is too many."
        )
    if not claimed:
        if len(block) > start:
            raise CorruptRecords("An empty snappy block must not have bytes after its length.")
        return b""
    out = _room_for(claimed)
    try:
        made = cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise CorruptRecords(f"The snappy data is damaged: {error}.") from None
    if made != claimed:
        raise CorruptRecords(
            f"The header of a snappy block claims {claimed} decompressed bytes, but the block"
            f" has {made}."
        )
    return _written(out, claimed)


def _decompress_lz4(frame: Buffer, limit: int) -> Unpacked:
    unpacker = lz4.frame.LZ4FrameDecompressor()
    output = _Output(LZ4, limit)
    view = memoryview(frame)
    position = 0
    step = max(64 * 1024, 4 * len(frame))  # this size is allocated whatever the output
    while not unpacker.eof:
        rest: Buffer = view[position : position + _INPUT_BYTES]
        if not rest:
            raise CorruptRecords("The LZ4 frame ends before its end mark.")
        position += len(rest)
        while not unpacker.eof:
            try:
                part: bytes = unpacker.decompress(rest, output.room(min(step, _OUTPUT_BYTES)))
            except (RuntimeError, EOFError) as error:
                raise CorruptRecords(f"The LZ4 data is damaged: {error}.") from None
            output.add(part)
            rest = b""
            step *= 2
            if unpacker.needs_input or not part:
                break
    if unpacker.unused_data or position < len(view):
        raise CorruptRecords("The LZ4 data must not have bytes after its frame.")
    return output.whole()


def _decompress_zstd(data: Buffer, limit: int) -> Unpacked:
    # The buffer grows, because a frame may lack its size or state a wrong size. zstd rejects
    # windows above 128 MiB, and uses only as much memory as it writes.
    if not len(data):
        raise CorruptRecords("The zstd data is empty.")
    size = min(limit, max(64 * 1024, 8 * len(data)))
    while True:
        out = _room_for(size)
        try:
            made: int = cramjam.zstd.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise CorruptRecords(f"The zstd data is damaged: {error}.") from None
            if size >= limit:
                raise DecompressedTooLarge(ZSTD, limit) from None
            size = min(limit, 4 * size)
            continue
        return _written(out, made)
