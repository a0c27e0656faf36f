"""The response of a Fetch for one partition; `protocol/generated/fetch.py` encodes it.

Records stay in their files until they are sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.net.request import Chunk
from protocol.slotted import slotted


@slotted
class Fetched:
    """What is answered for one partition; ``records`` is bytes, or slices of files."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """Producer ids and first offsets; None when the reader takes uncommitted records."""
    records: Sequence[Chunk] = ()
    size_bytes: int = 0
    """Bytes of ``records``."""
    diverging: tuple[int, int] | None = None
    """Epoch and end offset, for a reader whose last epoch ended elsewhere (KIP-595)."""
    more_follows: bool = False
    """The records are on an older segment than where the reader ends: none of the bytes to come
    lengthens this answer, so that it does not wait for them."""


def refused(partition: int, error_code: int) -> Fetched:
    """The answer for a partition whose log is not asked: Kafka names no aborted ones, not null."""
    return Fetched(partition, error_code, aborted_transactions=())
