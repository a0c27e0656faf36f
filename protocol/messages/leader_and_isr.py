"""LeaderAndIsr, API key 4."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: request adds ungrouped_partition_states.is_new
# v2: request adds broker_epoch, topic_states; request drops ungrouped_partition_states
# v3: request adds topic_states.partition_states.adding_replicas,
#     topic_states.partition_states.removing_replicas
# v4: flexible
# v5: request adds type, topic_states.topic_id; response adds topics; response drops
#     partition_errors
# v6: request adds topic_states.partition_states.leader_recovery_state
# v7: request adds is_kraft_controller

REQUEST = (
    Field("controller_id", INT32, "0+"),
    Field("is_kraft_controller", BOOLEAN, "7+"),
    Field("controller_epoch", INT32, "0+"),
    Field("broker_epoch", INT64, "2+", default=-1),
    Field("type", INT8, "5+"),
    Field(
        "topic_states",
        Array(
            Field("topic_name", STRING, "2+"),
            Field("topic_id", UUID, "5+"),
            Field(
                "partition_states",
                Array(
                    Field("partition_index", INT32, "2+"),
                    Field("controller_epoch", INT32, "2+"),
                    Field("leader", INT32, "2+"),
                    Field("leader_epoch", INT32, "2+"),
                    Field("isr", Array(INT32), "2+"),
                    Field("partition_epoch", INT32, "2+"),
                    Field("replicas", Array(INT32), "2+"),
                    Field("adding_replicas", Array(INT32), "3+"),
                    Field("removing_replicas", Array(INT32), "3+"),
                    Field("is_new", BOOLEAN, "2+"),
                    Field("leader_recovery_state", INT8, "6+"),
                ),
                "2+",
            ),
        ),
        "2+",
    ),
    Field(
        "ungrouped_partition_states",
        Array(
            Field("topic_name", STRING, "0-1"),
            Field("partition_index", INT32, "0-1"),
            Field("controller_epoch", INT32, "0-1"),
            Field("leader", INT32, "0-1"),
            Field("leader_epoch", INT32, "0-1"),
            Field("isr", Array(INT32), "0-1"),
            Field("partition_epoch", INT32, "0-1"),
            Field("replicas", Array(INT32), "0-1"),
            Field("is_new", BOOLEAN, "1"),
        ),
        "0-1",
    ),
    Field(
        "live_leaders",
        Array(
            Field("broker_id", INT32, "0+"),
            Field("host_name", STRING, "0+"),
            Field("port", INT32, "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "5+"),
            Field(
                "partition_errors",
                Array(
                    Field("partition_index", INT32, "5+"),
                    Field("error_code", INT16, "5+"),
                ),
                "5+",
            ),
        ),
        "5+",
    ),
    Field(
        "partition_errors",
        Array(
            Field("topic_name", STRING, "0-4"),
            Field("partition_index", INT32, "0-4"),
            Field("error_code", INT16, "0-4"),
        ),
        "0-4",
    ),
)

API = Api(
    key=4,
    name="LeaderAndIsr",
    versions="0-7",
    flexible="4+",
    request=REQUEST,
    response=RESPONSE,
)
