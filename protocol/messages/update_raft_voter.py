"""UpdateRaftVoter, API key 82."""

from protocol.schema import INT16, INT32, STRING, UINT16, UUID, Api, Array, Field, Struct

# v0: the first known

REQUEST = (
    Field("cluster_id", STRING, "0+", nullable="0+"),
    Field("current_leader_epoch", INT32, "0+"),
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
    Field(
        "kraft_version_feature",
        Struct(
            Field("min_supported_version", INT16, "0+"),
            Field("max_supported_version", INT16, "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field(
        "current_leader",
        Struct(
            Field("leader_id", INT32, "0+", default=-1),
            Field("leader_epoch", INT32, "0+", default=-1),
            Field("host", STRING, "0+"),
            Field("port", INT32, "0+"),
        ),
        "0+",
        tag=0,
    ),
)

API = Api(
    key=82,
    name="UpdateRaftVoter",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
