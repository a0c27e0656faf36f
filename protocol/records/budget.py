"""Limits the cost of checking the records of one request, whatever they claim and decompress to.

A hundred kilobytes in gzip may hold a hundred megabytes: fifteen million records, or one record
with fifty million headers. So decompressed bytes are counted, and elements: records, their headers,
messages. One `Budget` is for all batches of a request, damaged ones too.
"""

from __future__ import annotations

from protocol.buffer import Buffer
from protocol.errors import MESSAGE_TOO_LARGE
from protocol.records.compression import DecompressedTooLarge, Unpacked, unpack
from protocol.records.corrupt import CorruptRecords
from protocol.slotted import slotted

ELEMENTS_PER_MESSAGE = 4
"""The elements that a message of magic 0 or 1 counts for, since each is checked and parsed
separately."""


class OverBudget(CorruptRecords):
    """The records cost more than the rest of the budget; they have not been checked further."""

    def __init__(self, message: str) -> None:
        super().__init__(message, MESSAGE_TOO_LARGE)


@slotted
class Budget:
    """The rest of the budget; each method takes some, or raises OverBudget."""

    bytes_left: int
    """Decompressed bytes of record sections."""
    elements_left: int
    """Records and headers."""
    recompressed_left: int
    """Bytes that may be compressed again with the topic's own codec."""

    def open(
        self, codec: int, data: Buffer, limit: int, magic: int = 2, elements: int = 0
    ) -> Unpacked:
        """``data`` decompressed to at most ``limit`` bytes; damaged data is charged what it
        decompressed to.

        ``elements`` is the number of its records.
        """
        left = self.bytes_left
        opened: Unpacked
        if not codec and len(data) <= min(limit, left):
            opened = bytes(data)
        else:
            opened = self._unpacked(codec, data, limit, magic)
        self.bytes_left = left - len(opened)
        self.elements_left -= elements
        if self.elements_left < 0:
            raise _too_many()
        return opened

    def _unpacked(self, codec: int, data: Buffer, limit: int, magic: int) -> Unpacked:
        left = self.bytes_left
        if not codec and len(data) > left:
            raise _over(f"{len(data)} bytes of records follow the first record set")
        self.bytes_left = max(0, left - limit)
        try:
            return unpack(codec, data, min(limit, left), magic)
        except DecompressedTooLarge:
            if limit <= left:
                raise
            raise _over(
                "the records of the request are too large in all when decompressed"
            ) from None

    def take(self, elements: int) -> None:
        """Charge records, headers, or (times `ELEMENTS_PER_MESSAGE`) messages that are checked."""
        self.elements_left -= elements
        if self.elements_left < 0:
            raise _too_many()

    def take_recompressed(self, size_bytes: int) -> None:
        """Charge bytes that are compressed again."""
        self.recompressed_left -= size_bytes
        if self.recompressed_left < 0:
            raise _over(
                "the records of the request that must be compressed again are too large in all"
            )


def _too_many() -> OverBudget:
    return _over("the request has too many records and headers in all")


def _over(why: str) -> OverBudget:
    return OverBudget(f"{why[0].upper()}{why[1:]}; send them in smaller requests.")
