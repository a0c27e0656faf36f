"""SaslHandshake, API key 17."""

from protocol.schema import INT16, STRING, Api, Array, Field

# v0: the first known
# v1: the same on the wire

REQUEST = (Field("mechanism", STRING, "0+"),)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field("mechanisms", Array(STRING), "0+"),
)

API = Api(
    key=17,
    name="SaslHandshake",
    versions="0-1",
    flexible="",
    request=REQUEST,
    response=RESPONSE,
)
