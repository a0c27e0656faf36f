"""Splits a byte stream, which arrives in pieces of any size, into frames. A frame is an int32
length followed by this number of bytes.

The module does no I/O: the caller passes received bytes and gets complete frames. The memory needed
depends on the received bytes, never on a claimed length.
"""

from __future__ import annotations

import struct

from protocol.errors import ProtocolError
from protocol.headers import MIN_REQUEST_BYTES

_unpack_length = struct.Struct(">i").unpack_from
_TLS_BEGINS = 0x1603
"""The first two bytes of a TLS connection: the type of a handshake, and the first byte of its
version (RFC 8446, section 5.1)."""


class BadFrame(ProtocolError):
    """The length of a frame is invalid. ``frames`` are the complete frames that precede it."""

    def __init__(self, text: str, frames: list[bytes]) -> None:
        super().__init__(text)
        self.frames = frames


class Framer:
    """Splits a stream into frames of ``min_bytes`` to ``max_bytes``, and removes their length
    fields.

    After an error the connection can't continue, because the start of the next frame is unknown.
    """

    __slots__ = ("_max_bytes", "_min_bytes", "_wanted", "partial")

    def __init__(self, max_bytes: int, min_bytes: int = MIN_REQUEST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._min_bytes = min_bytes
        self.partial = bytearray()
        """The incomplete frame at the end, including its length field. Only `feed` changes it."""
        self._wanted = 0
        """The size of ``partial`` once it is complete, in bytes; 0 until its length field has been
        parsed."""

    def feed(self, data: bytes) -> list[bytes]:
        """Adds received bytes. Returns the frames that are now complete, without their length
        fields.

        Raises BadFrame for a length that is negative, too short for a header, or above the limit.
        """
        frames: list[bytes] = []
        position = self._resume(data, frames) if self.partial else 0
        end = len(data)
        min_bytes, max_bytes = self._min_bytes, self._max_bytes
        while end - position >= 4:
            (length,) = _unpack_length(data, position)
            if not min_bytes <= length <= max_bytes:
                raise BadFrame(self._refusal(length), frames)
            stop = position + 4 + length
            if stop > end:
                self._wanted = 4 + length
                break
            frames.append(data[position + 4 : stop])
            position = stop
        if position < end:
            self.partial += data[position:]
        return frames

    def _resume(self, data: bytes, frames: list[bytes]) -> int:
        """Completes the partial frame with bytes from ``data``. Returns the number of bytes
        used."""
        partial = self.partial
        used = 0
        if not self._wanted:
            used = min(4 - len(partial), len(data))
            partial += data[:used]
            if len(partial) < 4:
                return used
            (length,) = _unpack_length(partial)
            if not self._min_bytes <= length <= self._max_bytes:
                raise BadFrame(self._refusal(length), frames)
            self._wanted = 4 + length
        missing = self._wanted - len(partial)
        if len(data) - used < missing:
            partial += data[used:]
            return len(data)
        partial += data[used : used + missing]
        with memoryview(partial) as whole:
            frames.append(bytes(whole[4:]))
        self.partial = bytearray()
        self._wanted = 0
        return used + missing

    def _refusal(self, length: int) -> str:
        if length > self._max_bytes and length >> 16 == _TLS_BEGINS:
            return (
                "a TLS client connected to a listener without TLS:"
                " check the client's security.protocol"
            )
        if length > self._max_bytes:
            return f"frame of {length} bytes exceeds the limit of {self._max_bytes}"
        return f"frame of {length} bytes is shorter than a request header"
