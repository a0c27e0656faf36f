"""The rights that Fetch asks for."""

from __future__ import annotations

from broker.net.needs import Own, Rights, cluster_action
from security.acls.model import Operation, ResourceType

READ = Own(Operation.READ, ResourceType.TOPIC, "each topic, judged at every request")
FOLLOW = cluster_action("from brokers")
RIGHTS = Rights(own=(READ, FOLLOW))
