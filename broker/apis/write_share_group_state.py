"""WriteShareGroupState (85): a partition's leader stores changed delivery states at the share
coordinator (KIP-932).

Versions: v1 adds the number of records after the start offset whose delivery is complete
(KIP-1226).
"""

from __future__ import annotations

from broker.apis.shared.share_state import served
from share.persister.calls import WriteState

SERVED = served(WriteState)
