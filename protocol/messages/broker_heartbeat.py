"""BrokerHeartbeat, API key 63."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, UUID, Api, Array, Field

# v0: the first known
# v1: request adds offline_log_dirs
# v2: request adds cordoned_log_dirs

REQUEST = (
    Field("broker_id", INT32, "0+"),
    Field("broker_epoch", INT64, "0+", default=-1),
    Field("current_metadata_offset", INT64, "0+"),
    Field("want_fence", BOOLEAN, "0+"),
    Field("want_shut_down", BOOLEAN, "0+"),
    Field("offline_log_dirs", Array(UUID), "1+", tag=0),
    Field("cordoned_log_dirs", Array(UUID), "2+", nullable="2+", tag=1, default=None),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("is_caught_up", BOOLEAN, "0+"),
    Field("is_fenced", BOOLEAN, "0+", default=True),
    Field("should_shut_down", BOOLEAN, "0+"),
)

API = Api(
    key=63,
    name="BrokerHeartbeat",
    versions="0-2",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
