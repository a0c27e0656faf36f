"""AssignReplicasToDirs, API key 73."""

from protocol.schema import INT16, INT32, INT64, UUID, Api, Array, Field

# v0: the first known

REQUEST = (
    Field("broker_id", INT32, "0+"),
    Field("broker_epoch", INT64, "0+", default=-1),
    Field(
        "directories",
        Array(
            Field("id", UUID, "0+"),
            Field(
                "topics",
                Array(
                    Field("topic_id", UUID, "0+"),
                    Field(
                        "partitions",
                        Array(
                            Field("partition_index", INT32, "0+"),
                        ),
                        "0+",
                    ),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field(
        "directories",
        Array(
            Field("id", UUID, "0+"),
            Field(
                "topics",
                Array(
                    Field("topic_id", UUID, "0+"),
                    Field(
                        "partitions",
                        Array(
                            Field("partition_index", INT32, "0+"),
                            Field("error_code", INT16, "0+"),
                        ),
                        "0+",
                    ),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=73,
    name="AssignReplicasToDirs",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
