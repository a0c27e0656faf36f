"""FindCoordinator, API key 10."""

from protocol.schema import INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds key_type; response adds throttle_time_ms, error_message
# v2: the same on the wire
# v3: flexible
# v4: request adds coordinator_keys; request drops key; response adds coordinators; response drops
#     error_code, error_message, node_id, host, port
# v5: the same on the wire
# v6: the same on the wire

REQUEST = (
    Field("key", STRING, "0-3"),
    Field("key_type", INT8, "1+"),
    Field("coordinator_keys", Array(STRING), "4+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "1+"),
    Field(
        "coordinators",
        Array(
            Field("key", STRING, "4+"),
            Field("node_id", INT32, "4+"),
            Field("host", STRING, "4+"),
            Field("port", INT32, "4+"),
            Field("error_code", INT16, "4+"),
            Field("error_message", STRING, "4+", nullable="4+"),
        ),
        "4+",
    ),
    Field("error_code", INT16, "0-3"),
    Field("error_message", STRING, "1-3", nullable="1+"),
    Field("node_id", INT32, "0-3"),
    Field("host", STRING, "0-3"),
    Field("port", INT32, "0-3"),
)

API = Api(
    key=10,
    name="FindCoordinator",
    versions="0-6",
    flexible="3+",
    request=REQUEST,
    response=RESPONSE,
)
