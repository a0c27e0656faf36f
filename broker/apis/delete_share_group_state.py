"""DeleteShareGroupState (86): the group coordinator deletes the state of share partitions at the
share coordinator (KIP-932).

The deletion of a state that does not exist succeeds.
"""

from __future__ import annotations

from broker.apis.shared.share_state import served
from share.persister.calls import DeleteState

SERVED = served(DeleteState)
