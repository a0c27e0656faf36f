"""Kafka's types of variable length: varints, strings, bytes, array counts.

Each reader takes a buffer and a position, and returns the value and the position after it. Each
writer appends to a bytearray. Readers raise ProtocolError for a value that is truncated, too long,
or null in a field that can't be null. A read beyond the end of the buffer may also raise
``struct.error`` or ``IndexError``, which the codecs convert to ProtocolError.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from protocol.buffer import Buffer
from protocol.errors import ProtocolError

MAX_STRING_BYTES: Final = 0x7FFF
"""Kafka's limit in bytes for every string, including compact strings."""
MAX_SKIPPED_TAGS: Final = 100
"""The maximum number of tagged fields in a header. They are skipped and do not count as elements.
Kafka's own headers have no tagged fields."""
MAX_UINT32: Final = 0xFFFF_FFFF

_unpack_int16: Final = struct.Struct(">h").unpack_from
_unpack_int32: Final = struct.Struct(">i").unpack_from
_pack_int16: Final = struct.Struct(">h").pack
_pack_int32: Final = struct.Struct(">i").pack


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most 32 bits in at most 5 bytes, with the least significant 7
    bits first. As in Kafka, it may be longer than necessary (0x80 0x00 is 0)."""
    value = buffer[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_UINT32:
                raise ProtocolError("a varint has more than 32 bits")
            return value, position
    raise ProtocolError("a varint has more than 5 bytes")


def write_varint(out: bytearray, value: int) -> None:
    """Appends the shortest varint of 0 <= value < 2**32."""
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


_SHORT: Final = tuple(bytes((value,)) for value in range(0x80))


def varint(value: int) -> bytes:
    """Returns the shortest varint of 0 <= value < 2**32."""
    if value < len(_SHORT):
        return _SHORT[value]
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def _text(buffer: Buffer, position: int, length: int) -> tuple[str, int]:
    end = position + length
    if end > len(buffer):
        raise ProtocolError(
            f"a string has a length of {length} bytes, but {len(buffer) - position} are left"
        )
    return str(buffer[position:end], "utf-8"), end


def read_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """Reads STRING: an int16 length, then UTF-8."""
    (length,) = _unpack_int16(buffer, position)
    if length < 0:
        raise ProtocolError(_no_length("string", length))
    return _text(buffer, position + 2, length)


def read_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """Reads NULLABLE_STRING, in which the length -1 means null."""
    (length,) = _unpack_int16(buffer, position)
    if length == -1:
        return None, position + 2
    if length < 0:
        raise ProtocolError(_no_length("string", length))
    return _text(buffer, position + 2, length)


def read_compact_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """Reads COMPACT_STRING: the length plus one as a varint, then UTF-8."""
    length, position = read_varint(buffer, position)
    if not 0 < length <= MAX_STRING_BYTES + 1:
        raise ProtocolError(_no_length("string", length - 1))
    return _text(buffer, position, length - 1)


def read_compact_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """Reads COMPACT_NULLABLE_STRING, in which the varint 0 means null."""
    length, position = read_varint(buffer, position)
    if length == 0:
        return None, position
    if length > MAX_STRING_BYTES + 1:
        raise ProtocolError(_no_length("string", length - 1))
    return _text(buffer, position, length - 1)


def _data(buffer: Buffer, position: int, length: int) -> tuple[bytes, int]:
    end = position + length
    if end > len(buffer):
        raise ProtocolError(
            f"a field has a length of {length} bytes, but {len(buffer) - position} are left"
        )
    return bytes(buffer[position:end]), end


def read_bytes(buffer: Buffer, position: int) -> tuple[bytes, int]:
    """Reads BYTES: an int32 length, then the bytes."""
    (length,) = _unpack_int32(buffer, position)
    if length < 0:
        raise ProtocolError(_no_length("data", length))
    return _data(buffer, position + 4, length)


def read_nullable_bytes(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
    """Reads NULLABLE_BYTES, in which the length -1 means null."""
    (length,) = _unpack_int32(buffer, position)
    if length == -1:
        return None, position + 4
    if length < 0:
        raise ProtocolError(_no_length("data", length))
    return _data(buffer, position + 4, length)


def read_compact_bytes(buffer: Buffer, position: int) -> tuple[bytes, int]:
    """Reads COMPACT_BYTES: the length plus one as a varint, then the bytes."""
    length, position = read_varint(buffer, position)
    if length == 0:
        raise ProtocolError(_no_length("data", -1))
    return _data(buffer, position, length - 1)


def read_compact_nullable_bytes(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
    """Reads COMPACT_NULLABLE_BYTES, in which the varint 0 means null."""
    length, position = read_varint(buffer, position)
    if length == 0:
        return None, position
    return _data(buffer, position, length - 1)


def read_count(buffer: Buffer, position: int, element_bytes: int) -> tuple[int, int]:
    """Reads the int32 count of an array; -1 means null. Raises ProtocolError if the remaining bytes
    are too few for the array."""
    (count,) = _unpack_int32(buffer, position)
    position += 4
    if count < -1 or count * element_bytes > len(buffer) - position:
        raise ProtocolError(_bad_count(count, len(buffer) - position))
    return count, position


def read_compact_count(buffer: Buffer, position: int, element_bytes: int) -> tuple[int, int]:
    """Reads the count of a compact array, which is stored as a varint of the count plus one.
    Returns -1 for null, which is stored as 0."""
    count, position = read_varint(buffer, position)
    count -= 1
    if count * element_bytes > len(buffer) - position:
        raise ProtocolError(_bad_count(count, len(buffer) - position))
    return count, position


def skip_tags(buffer: Buffer, position: int) -> int:
    """Returns the position after the tagged fields at ``position``. Raises ProtocolError if the
    tagged fields are invalid."""
    count, position = read_varint(buffer, position)
    if count > MAX_SKIPPED_TAGS:
        raise ProtocolError(f"{count} tagged fields exceed the limit of {MAX_SKIPPED_TAGS}")
    if count * 2 > (left := len(buffer) - position):
        raise ProtocolError(f"{count} tagged fields are stated, but only {left} bytes are left")
    last = -1
    for _ in range(count):
        tag, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        if tag <= last:
            raise ProtocolError(f"tag {tag} follows tag {last}: tags must ascend")
        position += size
        if position > len(buffer):
            raise ProtocolError(f"tag {tag} has {size} bytes, but fewer are left")
        last = tag
    return position


def _no_length(what: str, length: int) -> str:
    if length == -1:
        return f"null, expected {what}"
    return f"{what} of {length} bytes"


def _bad_count(count: int, left: int) -> str:
    return f"an array has {count} elements, but {left} bytes are left"


def _encoded(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ProtocolError(f"expected text, not {value!r:.80}")
    data = value.encode()
    if len(data) > MAX_STRING_BYTES:
        raise ProtocolError(
            f"the string of {len(data)} bytes exceeds Kafka's limit of {MAX_STRING_BYTES}"
        )
    return data


def _checked(value: Any) -> Any:
    if not isinstance(value, bytes | bytearray) and not (
        isinstance(value, memoryview) and value.itemsize == 1
    ):
        raise ProtocolError(f"expected bytes, not {value!r:.80}")
    return value


def write_string(out: bytearray, value: Any) -> None:
    data = _encoded(value)
    out += _pack_int16(len(data))
    out += data


def write_nullable_string(out: bytearray, value: Any) -> None:
    if value is None:
        out += b"\xff\xff"
    else:
        write_string(out, value)


def write_compact_string(out: bytearray, value: Any) -> None:
    data = _encoded(value)
    write_varint(out, len(data) + 1)
    out += data


def write_compact_nullable_string(out: bytearray, value: Any) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_string(out, value)


def write_bytes(out: bytearray, value: Any) -> None:
    data = _checked(value)
    out += _pack_int32(len(data))
    out += data


def write_nullable_bytes(out: bytearray, value: Any) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        write_bytes(out, value)


def write_compact_bytes(out: bytearray, value: Any) -> None:
    data = _checked(value)
    write_varint(out, len(data) + 1)
    out += data


def write_compact_nullable_bytes(out: bytearray, value: Any) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value)


def write_count(out: bytearray, count: int) -> None:
    """Appends the count of an array; -1 means null."""
    out += _pack_int32(count)


def write_compact_count(out: bytearray, count: int) -> None:
    """Appends the count of a compact array; -1 means null."""
    write_varint(out, count + 1)
