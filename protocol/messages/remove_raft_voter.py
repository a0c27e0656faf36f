"""RemoveRaftVoter, API key 81."""

from protocol.schema import INT16, INT32, STRING, UUID, Api, Field

# v0: the first known

REQUEST = (
    Field("cluster_id", STRING, "0+", nullable="0+"),
    Field("voter_id", INT32, "0+"),
    Field("voter_directory_id", UUID, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
)

API = Api(
    key=81,
    name="RemoveRaftVoter",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
