"""ElectLeaders, API key 43."""

from protocol.schema import INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds election_type; response adds error_code
# v2: flexible

REQUEST = (
    Field("election_type", INT8, "1+"),
    Field(
        "topic_partitions",
        Array(
            Field("topic", STRING, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
    ),
    Field("timeout_ms", INT32, "0+", default=60000),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "1+"),
    Field(
        "replica_election_results",
        Array(
            Field("topic", STRING, "0+"),
            Field(
                "partition_result",
                Array(
                    Field("partition_id", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("error_message", STRING, "0+", nullable="0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=43,
    name="ElectLeaders",
    versions="0-2",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
