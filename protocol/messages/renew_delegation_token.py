"""RenewDelegationToken, API key 39."""

from protocol.schema import BYTES, INT16, INT32, INT64, Api, Field

# v0: the first known
# v1: the same on the wire
# v2: flexible

REQUEST = (
    Field("hmac", BYTES, "0+"),
    Field("renew_period_ms", INT64, "0+"),
)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field("expiry_timestamp_ms", INT64, "0+"),
    Field("throttle_time_ms", INT32, "0+"),
)

API = Api(
    key=39,
    name="RenewDelegationToken",
    versions="0-2",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
