"""The table of APIs of a broker in a cluster: the APIs of a standalone broker, and APIs between
brokers and for the controller.

The table has its own module, so that a standalone broker does not import the cluster's code.
"""

from __future__ import annotations

from broker.apis.allocate_producer_ids import SERVED as ALLOCATE_PRODUCER_IDS
from broker.apis.alter_partition import SERVED as ALTER_PARTITION
from broker.apis.controlled_shutdown import SERVED as CONTROLLED_SHUTDOWN
from broker.apis.delete_share_group_state import SERVED as DELETE_SHARE_GROUP_STATE
from broker.apis.in_cluster.alter_partition_reassignments import (
    SERVED as ALTER_PARTITION_REASSIGNMENTS,
)
from broker.apis.in_cluster.consumer_groups import CONSUMER_ROWS
from broker.apis.in_cluster.elect_leaders import SERVED as ELECT_LEADERS
from broker.apis.in_cluster.list_partition_reassignments import (
    SERVED as LIST_PARTITION_REASSIGNMENTS,
)
from broker.apis.in_cluster.offset_fetch import SERVED as OFFSET_FETCH
from broker.apis.in_cluster.share_groups import SHARE_ROWS
from broker.apis.in_cluster.streams_groups import STREAMS_ROWS
from broker.apis.in_cluster.update_features import SERVED as UPDATE_FEATURES
from broker.apis.initialize_share_group_state import SERVED as INITIALIZE_SHARE_GROUP_STATE
from broker.apis.leader_and_isr import SERVED as LEADER_AND_ISR
from broker.apis.read_share_group_state import SERVED as READ_SHARE_GROUP_STATE
from broker.apis.read_share_group_state_summary import SERVED as READ_SHARE_GROUP_STATE_SUMMARY
from broker.apis.stop_replica import SERVED as STOP_REPLICA
from broker.apis.tables.standalone import (
    SERVED_WITHOUT_CONSUMER_GROUPS,
    by_key,
)
from broker.apis.update_metadata import SERVED as UPDATE_METADATA
from broker.apis.write_share_group_state import SERVED as WRITE_SHARE_GROUP_STATE
from broker.net.request import ServedApi

_AMONG_BROKERS = (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    CONTROLLED_SHUTDOWN,
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    LEADER_AND_ISR,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    STOP_REPLICA,
    UPDATE_METADATA,
    WRITE_SHARE_GROUP_STATE,
)

_BY_THE_CONTROLLER = (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    UPDATE_FEATURES,
)
"""The rows of APIs that the controller serves. They replace the rows of a standalone broker."""

SERVED_IN_CLUSTER = by_key(
    *SERVED_WITHOUT_CONSUMER_GROUPS.values(),
    OFFSET_FETCH,
    *_AMONG_BROKERS,
    *_BY_THE_CONTROLLER,
)
"""The APIs, by API key, that a broker in a cluster serves if it serves only classic groups. Clients
send some of these requests, and other brokers send others."""


def served_with(
    *, consumer_groups: bool, share_groups: bool, streams_groups: bool
) -> dict[int, ServedApi]:
    """Returns the APIs, by API key, that a broker in a cluster serves. The arguments say which
    types of groups the broker serves in addition to classic groups."""
    return by_key(
        *SERVED_IN_CLUSTER.values(),
        *(CONSUMER_ROWS if consumer_groups else ()),
        *(SHARE_ROWS if share_groups else ()),
        *(STREAMS_ROWS if streams_groups else ()),
    )
