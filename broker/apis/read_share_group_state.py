"""ReadShareGroupState (84): a partition's leader loads the state of its share partitions from the
share coordinator (KIP-932).

The share coordinator stores a newer leader epoch from the request, and then fences the writes of
earlier leaders.
"""

from __future__ import annotations

from broker.apis.shared.share_state import served
from share.persister.calls import ReadState

SERVED = served(ReadState)
