"""Limits the cost of checking the records of one request.

The records of a request may decompress to far more than the size of the request: a hundred
kilobytes in gzip can contain a hundred megabytes, which can be fifteen million records, or one
record with fifty million headers. Therefore a budget counts decompressed bytes and elements:
records, headers and messages. One `Budget` is for all batches of a request, including damaged
batches.
"""

from __future__ import annotations

from protocol.buffer import Buffer
from protocol.errors import MESSAGE_TOO_LARGE
from protocol.records.compression import DecompressedTooLarge, Unpacked, unpack
from protocol.records.corrupt import CorruptRecords
from protocol.slotted import slotted

ELEMENTS_PER_MESSAGE = 4
"""The number of elements for which a message of magic 0 or 1 counts. A message costs more than a
record, because each message is checked and parsed separately."""


class OverBudget(CorruptRecords):
    """The check of records stopped because the remaining budget does not suffice."""

    def __init__(self, message: str) -> None:
        super().__init__(message, MESSAGE_TOO_LARGE)


@slotted
class Budget:
    """The remaining budget of a request. Each method charges a cost, and raises OverBudget if the
    budget does not suffice."""

    bytes_left: int
    """The number of bytes that the decompression of record sections may still produce."""
    elements_left: int
    """The number of records and headers that may still be checked."""
    recompressed_left: int
    """The number of bytes that may still be compressed again with the topic's codec."""

    def open(
        self, codec: int, data: Buffer, limit: int, magic: int = 2, elements: int = 0
    ) -> Unpacked:
        """Decompresses ``data`` to at most ``limit`` bytes. Charges for the decompressed bytes,
        even if ``data`` is damaged. ``elements`` is the number of records in ``data``."""
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
            raise _over(f"unexpected {len(data)} bytes of records after the first record set")
        self.bytes_left = max(0, left - limit)
        try:
            return unpack(codec, data, min(limit, left), magic)
        except DecompressedTooLarge:
            if limit <= left:
                raise
            raise _over("the decompressed records of the request are too large in total") from None

    def take(self, elements: int) -> None:
        """Charges the budget for records, headers or messages that are checked. The caller counts a
        message as `ELEMENTS_PER_MESSAGE` elements."""
        self.elements_left -= elements
        if self.elements_left < 0:
            raise _too_many()

    def take_recompressed(self, size_bytes: int) -> None:
        """Counts ``size_bytes`` bytes that must be compressed again. Raises OverBudget if the
        request exceeds its budget."""
        self.recompressed_left -= size_bytes
        if self.recompressed_left < 0:
            raise _over(
                "the request's records that the broker must recompress are too large in total"
            )


def _too_many() -> OverBudget:
    return _over("the request has too many records and headers")


def _over(why: str) -> OverBudget:
    return OverBudget(f"{why[0].upper()}{why[1:]}; send smaller requests.")
