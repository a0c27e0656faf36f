"""UpdateMetadata, API key 6."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: request adds live_brokers.endpoints; request drops live_brokers.v0_host,
#     live_brokers.v0_port
# v2: request adds live_brokers.rack
# v3: request adds live_brokers.endpoints.listener
# v4: request adds ungrouped_partition_states.offline_replicas
# v5: request adds broker_epoch, topic_states; request drops ungrouped_partition_states
# v6: flexible
# v7: request adds topic_states.topic_id
# v8: request adds is_kraft_controller, type

REQUEST = (
    Field("controller_id", INT32, "0+"),
    Field("is_kraft_controller", BOOLEAN, "8+"),
    Field("controller_epoch", INT32, "0+"),
    Field("broker_epoch", INT64, "5+", default=-1),
    Field(
        "topic_states",
        Array(
            Field("topic_name", STRING, "5+"),
            Field("topic_id", UUID, "7+"),
            Field(
                "partition_states",
                Array(
                    Field("partition_index", INT32, "5+"),
                    Field("controller_epoch", INT32, "5+"),
                    Field("leader", INT32, "5+"),
                    Field("leader_epoch", INT32, "5+"),
                    Field("isr", Array(INT32), "5+"),
                    Field("zk_version", INT32, "5+"),
                    Field("replicas", Array(INT32), "5+"),
                    Field("offline_replicas", Array(INT32), "5+"),
                ),
                "5+",
            ),
        ),
        "5+",
    ),
    Field(
        "ungrouped_partition_states",
        Array(
            Field("topic_name", STRING, "0-4"),
            Field("partition_index", INT32, "0-4"),
            Field("controller_epoch", INT32, "0-4"),
            Field("leader", INT32, "0-4"),
            Field("leader_epoch", INT32, "0-4"),
            Field("isr", Array(INT32), "0-4"),
            Field("zk_version", INT32, "0-4"),
            Field("replicas", Array(INT32), "0-4"),
            Field("offline_replicas", Array(INT32), "4"),
        ),
        "0-4",
    ),
    Field(
        "live_brokers",
        Array(
            Field("id", INT32, "0+"),
            Field(
                "endpoints",
                Array(
                    Field("port", INT32, "1+"),
                    Field("host", STRING, "1+"),
                    Field("listener", STRING, "3+"),
                    Field("security_protocol", INT16, "1+"),
                ),
                "1+",
            ),
            Field("rack", STRING, "2+", nullable="2+"),
            Field("v0_host", STRING, "0"),
            Field("v0_port", INT32, "0"),
        ),
        "0+",
    ),
    Field("type", INT8, "8+", tag=0),
)

RESPONSE = (Field("error_code", INT16, "0+"),)

API = Api(
    key=6,
    name="UpdateMetadata",
    versions="0-8",
    flexible="6+",
    request=REQUEST,
    response=RESPONSE,
)
