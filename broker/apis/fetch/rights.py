"""The rights that Fetch asks for."""

from __future__ import annotations

from broker.net.required_acls import HandlerAcl, Rights, cluster_action
from security.acls.model import Operation, ResourceType

READ = HandlerAcl(Operation.READ, ResourceType.TOPIC, "each topic, judged at every request")
FOLLOW = cluster_action("from brokers")
RIGHTS = Rights(own=(READ, FOLLOW))
