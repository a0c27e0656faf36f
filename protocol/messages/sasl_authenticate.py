"""SaslAuthenticate, API key 36."""

from protocol.schema import BYTES, INT16, INT64, STRING, Api, Field

# v0: the first known
# v1: response adds session_lifetime_ms
# v2: flexible

REQUEST = (Field("auth_bytes", BYTES, "0+"),)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("auth_bytes", BYTES, "0+"),
    Field("session_lifetime_ms", INT64, "1+"),
)

API = Api(
    key=36,
    name="SaslAuthenticate",
    versions="0-2",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
