"""ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69) in a cluster.

Until the broker has received all topics from the controller, it refuses these requests and
JoinGroup, because a classic member may join a consumer group. The coordinator needs all topics to
compute an assignment.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.apis.consumer_group_describe import SERVED as DESCRIBE
from broker.apis.consumer_group_heartbeat import SERVED as HEARTBEAT
from broker.apis.consumer_group_heartbeat import refuse
from broker.apis.in_cluster.feature_guard import guarded, refuse_each_group
from broker.apis.in_cluster.lacking_topics import lacks_topics
from broker.apis.join_group import SERVED as JOIN
from broker.apis.join_group import refuse as refuse_join
from broker.config.config_table import GROUP_VERSION
from broker.net.request import Request, Steps
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_OTHERWISE = ", or use group.protocol=classic"


def _join(services: Services, request: Request) -> Steps | None:
    if lacks_topics(services) and GROUP_VERSION in services.registry.features.levels:
        refuse_join(request, COORDINATOR_LOAD_IN_PROGRESS)
        return None
    return JOIN.handle(services, request)


CONSUMER_ROWS = (
    guarded(DESCRIBE, GROUP_VERSION, refuse_each_group, otherwise=_OTHERWISE),
    guarded(HEARTBEAT, GROUP_VERSION, refuse, otherwise=_OTHERWISE),
    replace(JOIN, handle=_join),
)
"""Rows of the table of served APIs. In a cluster, these rows have other handlers for consumer
groups than on a standalone broker."""
