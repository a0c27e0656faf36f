"""StopReplica, API key 5."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: request adds broker_epoch, topics; request drops ungrouped_partitions
# v2: flexible
# v3: request adds topic_states; request drops delete_partitions, topics
# v4: request adds is_kraft_controller

REQUEST = (
    Field("controller_id", INT32, "0+"),
    Field("is_kraft_controller", BOOLEAN, "4+"),
    Field("controller_epoch", INT32, "0+"),
    Field("broker_epoch", INT64, "1+", default=-1),
    Field(
        "topic_states",
        Array(
            Field("topic_name", STRING, "3+"),
            Field(
                "partition_states",
                Array(
                    Field("partition_index", INT32, "3+"),
                    Field("leader_epoch", INT32, "3+", default=-1),
                    Field("delete_partition", BOOLEAN, "3+"),
                ),
                "3+",
            ),
        ),
        "3+",
    ),
    Field("delete_partitions", BOOLEAN, "0-2"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "1-2"),
            Field("partition_indexes", Array(INT32), "1-2"),
        ),
        "1-2",
    ),
    Field(
        "ungrouped_partitions",
        Array(
            Field("topic_name", STRING, "0"),
            Field("partition_index", INT32, "0"),
        ),
        "0",
    ),
)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field(
        "partition_errors",
        Array(
            Field("topic_name", STRING, "0+"),
            Field("partition_index", INT32, "0+"),
            Field("error_code", INT16, "0+"),
        ),
        "0+",
    ),
)

API = Api(
    key=5,
    name="StopReplica",
    versions="0-4",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
