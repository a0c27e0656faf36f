"""The response of a Fetch for one partition; `protocol/generated/fetch.py` encodes it.

Records stay in their files until they are sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.net.request import Chunk
from protocol.slotted import slotted


@slotted
class Fetched:
    """The response for one partition; ``records`` is bytes, or slices of files."""

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
    """An epoch and the epoch's end offset in this log, if the reader's log has diverged (KIP-595).
    """
    more_follows: bool = False
    """True if the records are in an older segment than the log end: appends can't lengthen this
    response, so the response does not wait for appends.
    """


def refused(partition: int, error_code: int) -> Fetched:
    """Returns the response for a partition that is not read. As in Kafka, its list of aborted
    transactions is empty, not null.
    """
    return Fetched(partition, error_code, aborted_transactions=())
