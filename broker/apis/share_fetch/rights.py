"""The ACLs that a ShareFetch needs."""

from __future__ import annotations

from broker.net.required_acls import Rights, group, of_each
from security.acls.model import Operation, ResourceType

READ_GROUP = group(Operation.READ)
READ_TOPIC = of_each(ResourceType.TOPIC, Operation.READ)
RIGHTS = Rights((READ_GROUP,), own=(READ_TOPIC,))
