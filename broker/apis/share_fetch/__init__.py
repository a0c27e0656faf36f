"""ShareFetch: the handler, its reads and its response; and what ShareAcknowledge shares with it."""

from __future__ import annotations

from broker.net.required_acls import Rights, group, of_each
from security.acls.model import Operation, ResourceType

READ_GROUP = group(Operation.READ)
READ_TOPIC = of_each(ResourceType.TOPIC, Operation.READ)
RIGHTS = Rights((READ_GROUP,), own=(READ_TOPIC,))
ELEMENTS_MAX = 200_000
"""The maximum number of elements in one request: a member may acknowledge thousands of records one
by one."""
