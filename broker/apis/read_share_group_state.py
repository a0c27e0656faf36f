"""ReadShareGroupState (84): the leader of a partition loads the state of share partitions from the
share coordinator (KIP-932).

Versions: v0. A newer leader epoch is stored, and fences the writes of earlier leaders.
"""

from __future__ import annotations

from broker.apis.shared.share_state import served
from share.persister.calls import ReadState

SERVED = served(ReadState)
