"""InitializeShareGroupState (83): the group coordinator creates or replaces the state of share
partitions at the share coordinator (KIP-932).

If the stored state has a greater state epoch than the request, the partition gets
FENCED_STATE_EPOCH.
"""

from __future__ import annotations

from broker.apis.shared.share_state import served
from share.persister.calls import InitializeState

SERVED = served(InitializeState)
