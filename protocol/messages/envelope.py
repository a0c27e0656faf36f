"""Envelope, API key 58."""

from protocol.schema import BYTES, INT16, Api, Field

# v0: the first known

REQUEST = (
    Field("request_data", BYTES, "0+"),
    Field("request_principal", BYTES, "0+", nullable="0+"),
    Field("client_host_address", BYTES, "0+"),
)

RESPONSE = (
    Field("response_data", BYTES, "0+", nullable="0+", default=None),
    Field("error_code", INT16, "0+"),
)

API = Api(
    key=58,
    name="Envelope",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
