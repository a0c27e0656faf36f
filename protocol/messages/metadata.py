"""Metadata, API key 3."""

from protocol.schema import BOOLEAN, INT16, INT32, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: request changes topics; response adds brokers.rack, controller_id, topics.is_internal
# v2: response adds cluster_id
# v3: response adds throttle_time_ms
# v4: request adds allow_auto_topic_creation
# v5: response adds topics.partitions.offline_replicas
# v6: the same on the wire
# v7: response adds topics.partitions.leader_epoch
# v8: request adds include_cluster_authorized_operations, include_topic_authorized_operations;
#     response adds topics.topic_authorized_operations, cluster_authorized_operations
# v9: flexible
# v10: request adds topics.topic_id; request changes topics.name; response adds topics.topic_id
# v11: request drops include_cluster_authorized_operations; response drops
#     cluster_authorized_operations
# v12: response changes topics.name
# v13: response adds error_code

REQUEST = (
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "10+"),
            Field("name", STRING, "0+", nullable="10+"),
        ),
        "0+",
        nullable="1+",
    ),
    Field("allow_auto_topic_creation", BOOLEAN, "4+", default=True),
    Field("include_cluster_authorized_operations", BOOLEAN, "8-10"),
    Field("include_topic_authorized_operations", BOOLEAN, "8+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "3+"),
    Field(
        "brokers",
        Array(
            Field("node_id", INT32, "0+"),
            Field("host", STRING, "0+"),
            Field("port", INT32, "0+"),
            Field("rack", STRING, "1+", nullable="1+", default=None),
        ),
        "0+",
    ),
    Field("cluster_id", STRING, "2+", nullable="2+", default=None),
    Field("controller_id", INT32, "1+", default=-1),
    Field(
        "topics",
        Array(
            Field("error_code", INT16, "0+"),
            Field("name", STRING, "0+", nullable="12+"),
            Field("topic_id", UUID, "10+"),
            Field("is_internal", BOOLEAN, "1+"),
            Field(
                "partitions",
                Array(
                    Field("error_code", INT16, "0+"),
                    Field("partition_index", INT32, "0+"),
                    Field("leader_id", INT32, "0+"),
                    Field("leader_epoch", INT32, "7+", default=-1),
                    Field("replica_nodes", Array(INT32), "0+"),
                    Field("isr_nodes", Array(INT32), "0+"),
                    Field("offline_replicas", Array(INT32), "5+"),
                ),
                "0+",
            ),
            Field("topic_authorized_operations", INT32, "8+", default=-2147483648),
        ),
        "0+",
    ),
    Field("error_code", INT16, "13+"),
    Field("cluster_authorized_operations", INT32, "8-10", default=-2147483648),
)

API = Api(
    key=3,
    name="Metadata",
    versions="0-13",
    flexible="9+",
    request=REQUEST,
    response=RESPONSE,
)
