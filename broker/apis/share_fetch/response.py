"""The result for one partition in the response of a ShareFetch.

`protocol/generated/share_fetch.py` encodes the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.net.request import Chunk
from protocol.slotted import slotted


@slotted
class ShareFetched:
    """The result for one partition; ``records`` is bytes or slices of files."""

    partition: int
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    leader_id: int = 0
    leader_epoch: int = 0
    records: Sequence[Chunk] = ()
    size_bytes: int = 0
    acquired: Sequence[tuple[int, int, int]] = ()
    """The acquired ranges of offsets: first offset, last offset, delivery count."""
