"""The table of served APIs of a standalone broker: one row from each module of `broker/apis/`.

The ApiVersions response and `docs/use/coverage.md` come from this table, so an API whose module is
not listed here is not served.
"""

from __future__ import annotations

from broker.apis.add_offsets_to_txn import SERVED as ADD_OFFSETS_TO_TXN
from broker.apis.add_partitions_to_txn import SERVED as ADD_PARTITIONS_TO_TXN
from broker.apis.alter_client_quotas import SERVED as ALTER_CLIENT_QUOTAS
from broker.apis.alter_configs import SERVED as ALTER_CONFIGS
from broker.apis.alter_partition_reassignments import SERVED as ALTER_PARTITION_REASSIGNMENTS
from broker.apis.alter_replica_log_dirs import SERVED as ALTER_REPLICA_LOG_DIRS
from broker.apis.alter_share_group_offsets import SERVED as ALTER_SHARE_GROUP_OFFSETS
from broker.apis.alter_user_scram_credentials import SERVED as ALTER_USER_SCRAM_CREDENTIALS
from broker.apis.api_versions import SERVED as API_VERSIONS
from broker.apis.consumer_group_describe import SERVED as CONSUMER_GROUP_DESCRIBE
from broker.apis.consumer_group_heartbeat import SERVED as CONSUMER_GROUP_HEARTBEAT
from broker.apis.create_acls import SERVED as CREATE_ACLS
from broker.apis.create_delegation_token import SERVED as CREATE_DELEGATION_TOKEN
from broker.apis.create_partitions import SERVED as CREATE_PARTITIONS
from broker.apis.create_topics import SERVED as CREATE_TOPICS
from broker.apis.delete_acls import SERVED as DELETE_ACLS
from broker.apis.delete_groups import SERVED as DELETE_GROUPS
from broker.apis.delete_records import SERVED as DELETE_RECORDS
from broker.apis.delete_share_group_offsets import SERVED as DELETE_SHARE_GROUP_OFFSETS
from broker.apis.delete_topics import SERVED as DELETE_TOPICS
from broker.apis.describe_acls import SERVED as DESCRIBE_ACLS
from broker.apis.describe_client_quotas import SERVED as DESCRIBE_CLIENT_QUOTAS
from broker.apis.describe_cluster import SERVED as DESCRIBE_CLUSTER
from broker.apis.describe_configs import SERVED as DESCRIBE_CONFIGS
from broker.apis.describe_delegation_token import SERVED as DESCRIBE_DELEGATION_TOKEN
from broker.apis.describe_groups import SERVED as DESCRIBE_GROUPS
from broker.apis.describe_log_dirs import SERVED as DESCRIBE_LOG_DIRS
from broker.apis.describe_producers import SERVED as DESCRIBE_PRODUCERS
from broker.apis.describe_share_group_offsets import SERVED as DESCRIBE_SHARE_GROUP_OFFSETS
from broker.apis.describe_topic_partitions import SERVED as DESCRIBE_TOPIC_PARTITIONS
from broker.apis.describe_transactions import SERVED as DESCRIBE_TRANSACTIONS
from broker.apis.describe_user_scram_credentials import SERVED as DESCRIBE_USER_SCRAM_CREDENTIALS
from broker.apis.elect_leaders import SERVED as ELECT_LEADERS
from broker.apis.end_txn import SERVED as END_TXN
from broker.apis.expire_delegation_token import SERVED as EXPIRE_DELEGATION_TOKEN
from broker.apis.fetch.handler import SERVED as FETCH
from broker.apis.find_coordinator import SERVED as FIND_COORDINATOR
from broker.apis.heartbeat import SERVED as HEARTBEAT
from broker.apis.incremental_alter_configs import SERVED as INCREMENTAL_ALTER_CONFIGS
from broker.apis.init_producer_id import SERVED as INIT_PRODUCER_ID
from broker.apis.join_group import SERVED as JOIN_GROUP
from broker.apis.leave_group import SERVED as LEAVE_GROUP
from broker.apis.list_config_resources import SERVED as LIST_CONFIG_RESOURCES
from broker.apis.list_groups import SERVED as LIST_GROUPS
from broker.apis.list_offsets import SERVED as LIST_OFFSETS
from broker.apis.list_partition_reassignments import SERVED as LIST_PARTITION_REASSIGNMENTS
from broker.apis.list_transactions import SERVED as LIST_TRANSACTIONS
from broker.apis.metadata import SERVED as METADATA
from broker.apis.offset_commit import SERVED as OFFSET_COMMIT
from broker.apis.offset_delete import SERVED as OFFSET_DELETE
from broker.apis.offset_fetch import SERVED as OFFSET_FETCH
from broker.apis.offset_for_leader_epoch import SERVED as OFFSET_FOR_LEADER_EPOCH
from broker.apis.produce.handler import SERVED as PRODUCE
from broker.apis.renew_delegation_token import SERVED as RENEW_DELEGATION_TOKEN
from broker.apis.sasl_authenticate import SERVED as SASL_AUTHENTICATE
from broker.apis.sasl_handshake import SERVED as SASL_HANDSHAKE
from broker.apis.share_acknowledge import SERVED as SHARE_ACKNOWLEDGE
from broker.apis.share_fetch.served import SERVED as SHARE_FETCH
from broker.apis.share_group_describe import SERVED as SHARE_GROUP_DESCRIBE
from broker.apis.share_group_heartbeat import SERVED as SHARE_GROUP_HEARTBEAT
from broker.apis.streams_group_describe import SERVED as STREAMS_GROUP_DESCRIBE
from broker.apis.streams_group_heartbeat import SERVED as STREAMS_GROUP_HEARTBEAT
from broker.apis.sync_group import SERVED as SYNC_GROUP
from broker.apis.txn_offset_commit import SERVED as TXN_OFFSET_COMMIT
from broker.apis.update_features import SERVED as UPDATE_FEATURES
from broker.apis.write_txn_markers import SERVED as WRITE_TXN_MARKERS
from broker.net.request import ServedApi

_ROWS = (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    ALTER_USER_SCRAM_CREDENTIALS,
    API_VERSIONS,
    CREATE_ACLS,
    CREATE_DELEGATION_TOKEN,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_ACLS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_TRANSACTIONS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ELECT_LEADERS,
    END_TXN,
    EXPIRE_DELEGATION_TOKEN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_CONFIG_RESOURCES,
    LIST_GROUPS,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    RENEW_DELEGATION_TOKEN,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    UPDATE_FEATURES,
    WRITE_TXN_MARKERS,
)


def by_key(*rows: ServedApi) -> dict[int, ServedApi]:
    """Returns the rows by API key, ordered by key. If several rows have the same key, the last one
    is used."""
    return {row.api.key: row for row in sorted(rows, key=lambda row: row.api.key)}


CONSUMER_ROWS = (CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT)
SHARE_ROWS = (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
)
STREAMS_ROWS = (STREAMS_GROUP_DESCRIBE, STREAMS_GROUP_HEARTBEAT)
SERVED_WITHOUT_CONSUMER_GROUPS = by_key(*_ROWS)
"""The served APIs by API key, for a standalone broker that serves only classic groups."""
SERVED = by_key(*_ROWS, *CONSUMER_ROWS, *SHARE_ROWS, *STREAMS_ROWS)
"""The served APIs by API key, for a standalone broker that serves groups of all types."""


def served_with(
    *, consumer_groups: bool, share_groups: bool, streams_groups: bool
) -> dict[int, ServedApi]:
    """Returns the served APIs by API key, for a standalone broker. The arguments say which types of
    groups the broker serves in addition to classic groups."""
    return by_key(
        *_ROWS,
        *(CONSUMER_ROWS if consumer_groups else ()),
        *(SHARE_ROWS if share_groups else ()),
        *(STREAMS_ROWS if streams_groups else ()),
    )
