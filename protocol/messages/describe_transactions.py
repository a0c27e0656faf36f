"""DescribeTransactions, API key 65."""

from protocol.schema import INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known

REQUEST = (Field("transactional_ids", Array(STRING), "0+"),)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "transaction_states",
        Array(
            Field("error_code", INT16, "0+"),
            Field("transactional_id", STRING, "0+"),
            Field("transaction_state", STRING, "0+"),
            Field("transaction_timeout_ms", INT32, "0+"),
            Field("transaction_start_time_ms", INT64, "0+"),
            Field("producer_id", INT64, "0+"),
            Field("producer_epoch", INT16, "0+"),
            Field(
                "topics",
                Array(
                    Field("topic", STRING, "0+"),
                    Field("partitions", Array(INT32), "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=65,
    name="DescribeTransactions",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
