"""ShareAcknowledge, API key 79."""

from protocol.schema import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Struct,
)

# v0: the first known
# v1: the same on the wire
# v2: request adds is_renew_ack; response adds acquisition_lock_timeout_ms

REQUEST = (
    Field("group_id", STRING, "0+", nullable="0+", default=None),
    Field("member_id", STRING, "0+", nullable="0+"),
    Field("share_session_epoch", INT32, "0+"),
    Field("is_renew_ack", BOOLEAN, "2+"),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field(
                        "acknowledgement_batches",
                        Array(
                            Field("first_offset", INT64, "0+"),
                            Field("last_offset", INT64, "0+"),
                            Field("acknowledge_types", Array(INT8), "0+"),
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
    Field("error_message", STRING, "0+", nullable="0+", default=None),
    Field("acquisition_lock_timeout_ms", INT32, "2+"),
    Field(
        "responses",
        Array(
            Field("topic_id", UUID, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("error_message", STRING, "0+", nullable="0+", default=None),
                    Field(
                        "current_leader",
                        Struct(
                            Field("leader_id", INT32, "0+"),
                            Field("leader_epoch", INT32, "0+"),
                        ),
                        "0+",
                    ),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field(
        "node_endpoints",
        Array(
            Field("node_id", INT32, "0+"),
            Field("host", STRING, "0+"),
            Field("port", INT32, "0+"),
            Field("rack", STRING, "0+", nullable="0+", default=None),
        ),
        "0+",
    ),
)

API = Api(
    key=79,
    name="ShareAcknowledge",
    versions="0-2",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
