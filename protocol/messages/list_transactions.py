"""ListTransactions, API key 66."""

from protocol.schema import INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: request adds duration_filter
# v2: request adds transactional_id_pattern

REQUEST = (
    Field("state_filters", Array(STRING), "0+"),
    Field("producer_id_filters", Array(INT64), "0+"),
    Field("duration_filter", INT64, "1+", default=-1),
    Field("transactional_id_pattern", STRING, "2+", nullable="2+", default=None),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("unknown_state_filters", Array(STRING), "0+"),
    Field(
        "transaction_states",
        Array(
            Field("transactional_id", STRING, "0+"),
            Field("producer_id", INT64, "0+"),
            Field("transaction_state", STRING, "0+"),
        ),
        "0+",
    ),
)

API = Api(
    key=66,
    name="ListTransactions",
    versions="0-2",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
