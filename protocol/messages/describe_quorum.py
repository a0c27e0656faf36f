"""DescribeQuorum, API key 55."""

from protocol.schema import INT16, INT32, INT64, STRING, UINT16, UUID, Api, Array, Field

# v0: the first known
# v1: response adds topics.partitions.current_voters.last_fetch_timestamp,
#     topics.partitions.current_voters.last_caught_up_timestamp,
#     topics.partitions.observers.last_fetch_timestamp,
#     topics.partitions.observers.last_caught_up_timestamp
# v2: response adds error_message, topics.partitions.error_message,
#     topics.partitions.current_voters.replica_directory_id,
#     topics.partitions.observers.replica_directory_id, nodes

REQUEST = (
    Field(
        "topics",
        Array(
            Field("topic_name", STRING, "0+"),
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
)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "2+", nullable="2+"),
    Field(
        "topics",
        Array(
            Field("topic_name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("error_message", STRING, "2+", nullable="2+"),
                    Field("leader_id", INT32, "0+"),
                    Field("leader_epoch", INT32, "0+"),
                    Field("high_watermark", INT64, "0+"),
                    Field(
                        "current_voters",
                        Array(
                            Field("replica_id", INT32, "0+"),
                            Field("replica_directory_id", UUID, "2+"),
                            Field("log_end_offset", INT64, "0+"),
                            Field("last_fetch_timestamp", INT64, "1+", default=-1),
                            Field("last_caught_up_timestamp", INT64, "1+", default=-1),
                        ),
                        "0+",
                    ),
                    Field(
                        "observers",
                        Array(
                            Field("replica_id", INT32, "0+"),
                            Field("replica_directory_id", UUID, "2+"),
                            Field("log_end_offset", INT64, "0+"),
                            Field("last_fetch_timestamp", INT64, "1+", default=-1),
                            Field("last_caught_up_timestamp", INT64, "1+", default=-1),
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
        "nodes",
        Array(
            Field("node_id", INT32, "2+"),
            Field(
                "listeners",
                Array(
                    Field("name", STRING, "2+"),
                    Field("host", STRING, "2+"),
                    Field("port", UINT16, "2+"),
                ),
                "2+",
            ),
        ),
        "2+",
    ),
)

API = Api(
    key=55,
    name="DescribeQuorum",
    versions="0-2",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
