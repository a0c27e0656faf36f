"""Every API of Kafka's protocol as a table, by key and by name.

A table is imported on first use, since importing all of them would slow a broker's start. Written
by ``tools/make_messages.py``; ``docs/internals/protocol.md`` explains the notation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final, Generic, TypeVar

from protocol.schema import Api

Key = TypeVar("Key")


class Tables(Mapping[Key, Api], Generic[Key]):
    """A read-only dict of APIs that imports the module of an API on its first use."""

    def __init__(self, modules: dict[Key, str]) -> None:
        self._modules = modules
        self._found: dict[Key, Api] = {}

    def __getitem__(self, key: Key) -> Api:
        api = self._found.get(key)
        if api is None:
            module = import_module(f"protocol.messages.{self._modules[key]}")
            api = self._found[key] = module.API
        return api

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __iter__(self) -> Iterator[Key]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


# Kafka 4.1 gave key 74 a new name and a version 1; the old name has no key here.
BY_KEY: Final[Tables[int]] = Tables(
    {
        0: "produce",
        1: "fetch",
        2: "list_offsets",
        3: "metadata",
        4: "leader_and_isr",
        5: "stop_replica",
        6: "update_metadata",
        7: "controlled_shutdown",
        8: "offset_commit",
        9: "offset_fetch",
        10: "find_coordinator",
        11: "join_group",
        12: "heartbeat",
        13: "leave_group",
        14: "sync_group",
        15: "describe_groups",
        16: "list_groups",
        17: "sasl_handshake",
        18: "api_versions",
        19: "create_topics",
        20: "delete_topics",
        21: "delete_records",
        22: "init_producer_id",
        23: "offset_for_leader_epoch",
        24: "add_partitions_to_txn",
        25: "add_offsets_to_txn",
        26: "end_txn",
        27: "write_txn_markers",
        28: "txn_offset_commit",
        29: "describe_acls",
        30: "create_acls",
        31: "delete_acls",
        32: "describe_configs",
        33: "alter_configs",
        34: "alter_replica_log_dirs",
        35: "describe_log_dirs",
        36: "sasl_authenticate",
        37: "create_partitions",
        38: "create_delegation_token",
        39: "renew_delegation_token",
        40: "expire_delegation_token",
        41: "describe_delegation_token",
        42: "delete_groups",
        43: "elect_leaders",
        44: "incremental_alter_configs",
        45: "alter_partition_reassignments",
        46: "list_partition_reassignments",
        47: "offset_delete",
        48: "describe_client_quotas",
        49: "alter_client_quotas",
        50: "describe_user_scram_credentials",
        51: "alter_user_scram_credentials",
        52: "vote",
        53: "begin_quorum_epoch",
        54: "end_quorum_epoch",
        55: "describe_quorum",
        56: "alter_partition",
        57: "update_features",
        58: "envelope",
        59: "fetch_snapshot",
        60: "describe_cluster",
        61: "describe_producers",
        62: "broker_registration",
        63: "broker_heartbeat",
        64: "unregister_broker",
        65: "describe_transactions",
        66: "list_transactions",
        67: "allocate_producer_ids",
        68: "consumer_group_heartbeat",
        69: "consumer_group_describe",
        70: "controller_registration",
        71: "get_telemetry_subscriptions",
        72: "push_telemetry",
        73: "assign_replicas_to_dirs",
        74: "list_config_resources",
        75: "describe_topic_partitions",
        76: "share_group_heartbeat",
        77: "share_group_describe",
        78: "share_fetch",
        79: "share_acknowledge",
        80: "add_raft_voter",
        81: "remove_raft_voter",
        82: "update_raft_voter",
        83: "initialize_share_group_state",
        84: "read_share_group_state",
        85: "write_share_group_state",
        86: "delete_share_group_state",
        87: "read_share_group_state_summary",
        88: "streams_group_heartbeat",
        89: "streams_group_describe",
        90: "describe_share_group_offsets",
        91: "alter_share_group_offsets",
        92: "delete_share_group_offsets",
        93: "streams_group_topology_description_update",
        94: "unregister_controller",
    }
)
"""Every API by its key, ordered by key: BY_KEY[8]."""

BY_NAME: Final[Tables[str]] = Tables(
    {
        "AddOffsetsToTxn": "add_offsets_to_txn",
        "AddPartitionsToTxn": "add_partitions_to_txn",
        "AddRaftVoter": "add_raft_voter",
        "AllocateProducerIds": "allocate_producer_ids",
        "AlterClientQuotas": "alter_client_quotas",
        "AlterConfigs": "alter_configs",
        "AlterPartition": "alter_partition",
        "AlterPartitionReassignments": "alter_partition_reassignments",
        "AlterReplicaLogDirs": "alter_replica_log_dirs",
        "AlterShareGroupOffsets": "alter_share_group_offsets",
        "AlterUserScramCredentials": "alter_user_scram_credentials",
        "ApiVersions": "api_versions",
        "AssignReplicasToDirs": "assign_replicas_to_dirs",
        "BeginQuorumEpoch": "begin_quorum_epoch",
        "BrokerHeartbeat": "broker_heartbeat",
        "BrokerRegistration": "broker_registration",
        "ConsumerGroupDescribe": "consumer_group_describe",
        "ConsumerGroupHeartbeat": "consumer_group_heartbeat",
        "ControlledShutdown": "controlled_shutdown",
        "ControllerRegistration": "controller_registration",
        "CreateAcls": "create_acls",
        "CreateDelegationToken": "create_delegation_token",
        "CreatePartitions": "create_partitions",
        "CreateTopics": "create_topics",
        "DeleteAcls": "delete_acls",
        "DeleteGroups": "delete_groups",
        "DeleteRecords": "delete_records",
        "DeleteShareGroupOffsets": "delete_share_group_offsets",
        "DeleteShareGroupState": "delete_share_group_state",
        "DeleteTopics": "delete_topics",
        "DescribeAcls": "describe_acls",
        "DescribeClientQuotas": "describe_client_quotas",
        "DescribeCluster": "describe_cluster",
        "DescribeConfigs": "describe_configs",
        "DescribeDelegationToken": "describe_delegation_token",
        "DescribeGroups": "describe_groups",
        "DescribeLogDirs": "describe_log_dirs",
        "DescribeProducers": "describe_producers",
        "DescribeQuorum": "describe_quorum",
        "DescribeShareGroupOffsets": "describe_share_group_offsets",
        "DescribeTopicPartitions": "describe_topic_partitions",
        "DescribeTransactions": "describe_transactions",
        "DescribeUserScramCredentials": "describe_user_scram_credentials",
        "ElectLeaders": "elect_leaders",
        "EndQuorumEpoch": "end_quorum_epoch",
        "EndTxn": "end_txn",
        "Envelope": "envelope",
        "ExpireDelegationToken": "expire_delegation_token",
        "Fetch": "fetch",
        "FetchSnapshot": "fetch_snapshot",
        "FindCoordinator": "find_coordinator",
        "GetTelemetrySubscriptions": "get_telemetry_subscriptions",
        "Heartbeat": "heartbeat",
        "IncrementalAlterConfigs": "incremental_alter_configs",
        "InitProducerId": "init_producer_id",
        "InitializeShareGroupState": "initialize_share_group_state",
        "JoinGroup": "join_group",
        "LeaderAndIsr": "leader_and_isr",
        "LeaveGroup": "leave_group",
        "ListClientMetricsResources": "list_client_metrics_resources",
        "ListConfigResources": "list_config_resources",
        "ListGroups": "list_groups",
        "ListOffsets": "list_offsets",
        "ListPartitionReassignments": "list_partition_reassignments",
        "ListTransactions": "list_transactions",
        "Metadata": "metadata",
        "OffsetCommit": "offset_commit",
        "OffsetDelete": "offset_delete",
        "OffsetFetch": "offset_fetch",
        "OffsetForLeaderEpoch": "offset_for_leader_epoch",
        "Produce": "produce",
        "PushTelemetry": "push_telemetry",
        "ReadShareGroupState": "read_share_group_state",
        "ReadShareGroupStateSummary": "read_share_group_state_summary",
        "RemoveRaftVoter": "remove_raft_voter",
        "RenewDelegationToken": "renew_delegation_token",
        "SaslAuthenticate": "sasl_authenticate",
        "SaslHandshake": "sasl_handshake",
        "ShareAcknowledge": "share_acknowledge",
        "ShareFetch": "share_fetch",
        "ShareGroupDescribe": "share_group_describe",
        "ShareGroupHeartbeat": "share_group_heartbeat",
        "StopReplica": "stop_replica",
        "StreamsGroupDescribe": "streams_group_describe",
        "StreamsGroupHeartbeat": "streams_group_heartbeat",
        "StreamsGroupTopologyDescriptionUpdate": "streams_group_topology_description_update",
        "SyncGroup": "sync_group",
        "TxnOffsetCommit": "txn_offset_commit",
        "UnregisterBroker": "unregister_broker",
        "UnregisterController": "unregister_controller",
        "UpdateFeatures": "update_features",
        "UpdateMetadata": "update_metadata",
        "UpdateRaftVoter": "update_raft_voter",
        "Vote": "vote",
        "WriteShareGroupState": "write_share_group_state",
        "WriteTxnMarkers": "write_txn_markers",
    }
)
"""Every API by Kafka's name: BY_NAME["OffsetCommit"]."""
