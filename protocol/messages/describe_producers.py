"""DescribeProducers, API key 61."""

from protocol.schema import INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known

REQUEST = (
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field("partition_indexes", Array(INT32), "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("error_message", STRING, "0+", nullable="0+", default=None),
                    Field(
                        "active_producers",
                        Array(
                            Field("producer_id", INT64, "0+"),
                            Field("producer_epoch", INT32, "0+"),
                            Field("last_sequence", INT32, "0+", default=-1),
                            Field("last_timestamp", INT64, "0+", default=-1),
                            Field("coordinator_epoch", INT32, "0+"),
                            Field("current_txn_start_offset", INT64, "0+", default=-1),
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
    key=61,
    name="DescribeProducers",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
