"""WriteShareGroupState (85): the leader of a partition stores changed delivery states at the share
coordinator (KIP-932).

Versions: v0; v1 the number of final records after the start offset (KIP-1226).
"""

from __future__ import annotations

from broker.apis.shared.share_state import served
from share.persister.calls import WriteState

SERVED = served(WriteState)
