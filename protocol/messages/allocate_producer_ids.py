"""AllocateProducerIds, API key 67."""

from protocol.schema import INT16, INT32, INT64, Api, Field

# v0: the first known

REQUEST = (
    Field("broker_id", INT32, "0+"),
    Field("broker_epoch", INT64, "0+", default=-1),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("producer_id_start", INT64, "0+"),
    Field("producer_id_len", INT32, "0+"),
)

API = Api(
    key=67,
    name="AllocateProducerIds",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
