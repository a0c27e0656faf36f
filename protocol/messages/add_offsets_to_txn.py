"""AddOffsetsToTxn, API key 25."""

from protocol.schema import INT16, INT32, INT64, STRING, Api, Field

# v0: the first known
# v1: the same on the wire
# v2: the same on the wire
# v3: flexible
# v4: the same on the wire

REQUEST = (
    Field("transactional_id", STRING, "0+"),
    Field("producer_id", INT64, "0+"),
    Field("producer_epoch", INT16, "0+"),
    Field("group_id", STRING, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
)

API = Api(
    key=25,
    name="AddOffsetsToTxn",
    versions="0-4",
    flexible="3+",
    request=REQUEST,
    response=RESPONSE,
)
