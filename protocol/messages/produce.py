"""Produce, API key 0."""

from protocol.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Api, Array, Field, Struct

# v0: the first known
# v1: response adds throttle_time_ms
# v2: response adds responses.partition_responses.log_append_time_ms
# v3: request adds transactional_id
# v4: the same on the wire
# v5: response adds responses.partition_responses.log_start_offset
# v6: the same on the wire
# v7: the same on the wire
# v8: response adds responses.partition_responses.record_errors,
#     responses.partition_responses.error_message
# v9: flexible
# v10: response adds responses.partition_responses.current_leader, node_endpoints
# v11: the same on the wire
# v12: the same on the wire
# v13: request adds topic_data.topic_id; request drops topic_data.name; response adds
#     responses.topic_id; response drops responses.name

REQUEST = (
    Field("transactional_id", STRING, "3+", nullable="3+", default=None),
    Field("acks", INT16, "0+"),
    Field("timeout_ms", INT32, "0+"),
    Field(
        "topic_data",
        Array(
            Field("topic_id", UUID, "13+"),
            Field("name", STRING, "0-12"),
            Field(
                "partition_data",
                Array(
                    Field("index", INT32, "0+"),
                    Field("records", RECORDS, "0+", nullable="0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field(
        "responses",
        Array(
            Field("topic_id", UUID, "13+"),
            Field("name", STRING, "0-12"),
            Field(
                "partition_responses",
                Array(
                    Field("index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("base_offset", INT64, "0+"),
                    Field("log_append_time_ms", INT64, "2+", default=-1),
                    Field("log_start_offset", INT64, "5+", default=-1),
                    Field(
                        "record_errors",
                        Array(
                            Field("batch_index", INT32, "8+"),
                            Field(
                                "batch_index_error_message",
                                STRING,
                                "8+",
                                nullable="8+",
                                default=None,
                            ),
                        ),
                        "8+",
                    ),
                    Field("error_message", STRING, "8+", nullable="8+", default=None),
                    Field(
                        "current_leader",
                        Struct(
                            Field("leader_id", INT32, "10+", default=-1),
                            Field("leader_epoch", INT32, "10+", default=-1),
                        ),
                        "10+",
                        tag=0,
                    ),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field("throttle_time_ms", INT32, "1+"),
    Field(
        "node_endpoints",
        Array(
            Field("node_id", INT32, "10+"),
            Field("host", STRING, "10+"),
            Field("port", INT32, "10+"),
            Field("rack", STRING, "10+", nullable="10+", default=None),
        ),
        "10+",
        tag=0,
    ),
)

API = Api(
    key=0,
    name="Produce",
    versions="0-13",
    flexible="9+",
    request=REQUEST,
    response=RESPONSE,
)
