"""ControlledShutdown, API key 7."""

from protocol.schema import INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: request adds broker_epoch
# v3: flexible

REQUEST = (
    Field("broker_id", INT32, "0+"),
    Field("broker_epoch", INT64, "2+", default=-1),
)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field(
        "remaining_partitions",
        Array(
            Field("topic_name", STRING, "0+"),
            Field("partition_index", INT32, "0+"),
        ),
        "0+",
    ),
)

API = Api(
    key=7,
    name="ControlledShutdown",
    versions="0-3",
    flexible="3+",
    request=REQUEST,
    response=RESPONSE,
)
