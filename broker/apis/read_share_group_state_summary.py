"""ReadShareGroupStateSummary (87): the group coordinator reads the start offsets of share
partitions from the share coordinator (KIP-932).

Versions: v1 adds the number of records after the start offset whose delivery is complete
(KIP-1226).
"""

from __future__ import annotations

from broker.apis.shared.share_state import served
from share.persister.calls import ReadStateSummary

SERVED = served(ReadStateSummary)
