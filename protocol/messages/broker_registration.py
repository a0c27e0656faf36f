"""BrokerRegistration, API key 62."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, STRING, UINT16, UUID, Api, Array, Field

# v0: the first known
# v1: request adds is_migrating_zk_broker
# v2: request adds log_dirs
# v3: request adds previous_broker_epoch
# v4: the same on the wire

REQUEST = (
    Field("broker_id", INT32, "0+"),
    Field("cluster_id", STRING, "0+"),
    Field("incarnation_id", UUID, "0+"),
    Field(
        "listeners",
        Array(
            Field("name", STRING, "0+"),
            Field("host", STRING, "0+"),
            Field("port", UINT16, "0+"),
            Field("security_protocol", INT16, "0+"),
        ),
        "0+",
    ),
    Field(
        "features",
        Array(
            Field("name", STRING, "0+"),
            Field("min_supported_version", INT16, "0+"),
            Field("max_supported_version", INT16, "0+"),
        ),
        "0+",
    ),
    Field("rack", STRING, "0+", nullable="0+"),
    Field("is_migrating_zk_broker", BOOLEAN, "1+"),
    Field("log_dirs", Array(UUID), "2+"),
    Field("previous_broker_epoch", INT64, "3+", default=-1),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("broker_epoch", INT64, "0+", default=-1),
)

API = Api(
    key=62,
    name="BrokerRegistration",
    versions="0-4",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
