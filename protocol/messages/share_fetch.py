"""ShareFetch, API key 78."""

from protocol.schema import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Struct,
)

# v0: the first known
# v1: request adds max_records, batch_size; request drops topics.partitions.partition_max_bytes;
#     response adds acquisition_lock_timeout_ms
# v2: request adds share_acquire_mode, is_renew_ack

REQUEST = (
    Field("group_id", STRING, "0+", nullable="0+", default=None),
    Field("member_id", STRING, "0+", nullable="0+"),
    Field("share_session_epoch", INT32, "0+"),
    Field("max_wait_ms", INT32, "0+"),
    Field("min_bytes", INT32, "0+"),
    Field("max_bytes", INT32, "0+", default=2147483647),
    Field("max_records", INT32, "1+"),
    Field("batch_size", INT32, "1+"),
    Field("share_acquire_mode", INT8, "2+"),
    Field("is_renew_ack", BOOLEAN, "2+"),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("partition_max_bytes", INT32, "0"),
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
    Field(
        "forgotten_topics_data",
        Array(
            Field("topic_id", UUID, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+", default=None),
    Field("acquisition_lock_timeout_ms", INT32, "1+"),
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
                    Field("acknowledge_error_code", INT16, "0+"),
                    Field("acknowledge_error_message", STRING, "0+", nullable="0+", default=None),
                    Field(
                        "current_leader",
                        Struct(
                            Field("leader_id", INT32, "0+"),
                            Field("leader_epoch", INT32, "0+"),
                        ),
                        "0+",
                    ),
                    Field("records", RECORDS, "0+", nullable="0+"),
                    Field(
                        "acquired_records",
                        Array(
                            Field("first_offset", INT64, "0+"),
                            Field("last_offset", INT64, "0+"),
                            Field("delivery_count", INT16, "0+"),
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
    key=78,
    name="ShareFetch",
    versions="0-2",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
