"""The result for one partition in the response of a Fetch.

`protocol/generated/fetch.py` encodes the result. Records stay in their files until they are sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.net.request import Chunk
from protocol.slotted import slotted


@slotted
class Fetched:
    """The result for one partition; ``records`` is bytes or slices of files."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """The producer id and first offset of each aborted transaction; None for read_uncommitted."""
    records: Sequence[Chunk] = ()
    size_bytes: int = 0
    diverging: tuple[int, int] | None = None
    """If the reader's log has diverged from this log (KIP-595): the largest leader epoch of this
    log that is not above the reader's epoch, and the end offset of this epoch in this log."""
    more_follows: bool = False
    """True if the log end is in a later segment than the returned records. A response contains
    records of only one segment. New appends can't add to it, so it is sent without a wait."""


def refused(partition: int, error_code: int) -> Fetched:
    """Returns the result for a partition that is not read. As in Kafka, its list of aborted
    transactions is empty, not null."""
    return Fetched(partition, error_code, aborted_transactions=())
