"""AddRaftVoter, API key 80."""

from protocol.schema import BOOLEAN, INT16, INT32, STRING, UINT16, UUID, Api, Array, Field

# v0: the first known
# v1: request adds ack_when_committed

REQUEST = (
    Field("cluster_id", STRING, "0+", nullable="0+"),
    Field("timeout_ms", INT32, "0+"),
    Field("voter_id", INT32, "0+"),
    Field("voter_directory_id", UUID, "0+"),
    Field(
        "listeners",
        Array(
            Field("name", STRING, "0+"),
            Field("host", STRING, "0+"),
            Field("port", UINT16, "0+"),
        ),
        "0+",
    ),
    Field("ack_when_committed", BOOLEAN, "1+", default=True),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
)

API = Api(
    key=80,
    name="AddRaftVoter",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
