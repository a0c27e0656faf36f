"""AlterPartitionReassignments, API key 45."""

from protocol.schema import BOOLEAN, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds allow_replication_factor_change; response adds allow_replication_factor_change

REQUEST = (
    Field("timeout_ms", INT32, "0+", default=60000),
    Field("allow_replication_factor_change", BOOLEAN, "1+", default=True),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("replicas", Array(INT32), "0+", nullable="0+", default=None),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("allow_replication_factor_change", BOOLEAN, "1+", default=True),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field(
        "responses",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
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
    key=45,
    name="AlterPartitionReassignments",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
