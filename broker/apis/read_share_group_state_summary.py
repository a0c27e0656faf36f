"""ReadShareGroupStateSummary (87): the group coordinator reads the start offsets of share
partitions from the share coordinator (KIP-932).

Versions: v0; v1 the number of final records after the start offset (KIP-1226).
"""

from __future__ import annotations

from broker.apis.shared.share_state import served
from share.persister.calls import ReadStateSummary

SERVED = served(ReadStateSummary)
