"""EndTxn, API key 26."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, STRING, Api, Field

# v0: the first known
# v1: the same on the wire
# v2: the same on the wire
# v3: flexible
# v4: the same on the wire
# v5: response adds producer_id, producer_epoch

REQUEST = (
    Field("transactional_id", STRING, "0+"),
    Field("producer_id", INT64, "0+"),
    Field("producer_epoch", INT16, "0+"),
    Field("committed", BOOLEAN, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("producer_id", INT64, "5+", default=-1),
    Field("producer_epoch", INT16, "5+", default=-1),
)

API = Api(
    key=26,
    name="EndTxn",
    versions="0-5",
    flexible="3+",
    request=REQUEST,
    response=RESPONSE,
)
