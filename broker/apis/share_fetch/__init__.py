"""The ShareFetch API: the handler, the reads and the response. ShareAcknowledge uses some of this
code."""

from __future__ import annotations

from broker.net.required_acls import Rights, group, of_each
from security.acls.model import Operation, ResourceType

READ_GROUP = group(Operation.READ)
READ_TOPIC = of_each(ResourceType.TOPIC, Operation.READ)
RIGHTS = Rights((READ_GROUP,), own=(READ_TOPIC,))
ELEMENTS_MAX = 200_000
"""The maximum number of elements in one request. A member may acknowledge thousands of records one
by one."""
