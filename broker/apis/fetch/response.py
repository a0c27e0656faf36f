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
    """None unless the reader's log has diverged from this log (KIP-595). Otherwise a leader epoch
    and its end offset, both from this log. The epoch is the largest one that does not exceed the
    last epoch of the reader's log."""
    more_follows: bool = False
    """True if the log continues in a later segment. A response contains records of only one
    segment, so appends can't add records to this response, and it is sent without a wait."""


def refused(partition: int, error_code: int) -> Fetched:
    """Returns the result for a partition that is not read. As in Kafka, its list of aborted
    transactions is empty, not null."""
    return Fetched(partition, error_code, aborted_transactions=())
