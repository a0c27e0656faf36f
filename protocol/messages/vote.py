"""Vote, API key 52."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, STRING, UINT16, UUID, Api, Array, Field

# v0: the first known
# v1: request adds voter_id, topics.partitions.replica_directory_id,
#     topics.partitions.voter_directory_id; response adds node_endpoints
# v2: request adds topics.partitions.pre_vote

REQUEST = (
    Field("cluster_id", STRING, "0+", nullable="0+", default=None),
    Field("voter_id", INT32, "1+", default=-1),
    Field(
        "topics",
        Array(
            Field("topic_name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("replica_epoch", INT32, "0+"),
                    Field("replica_id", INT32, "0+"),
                    Field("replica_directory_id", UUID, "1+"),
                    Field("voter_directory_id", UUID, "1+"),
                    Field("last_offset_epoch", INT32, "0+"),
                    Field("last_offset", INT64, "0+"),
                    Field("pre_vote", BOOLEAN, "2+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field(
        "topics",
        Array(
            Field("topic_name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("leader_id", INT32, "0+"),
                    Field("leader_epoch", INT32, "0+"),
                    Field("vote_granted", BOOLEAN, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field(
        "node_endpoints",
        Array(
            Field("node_id", INT32, "1+"),
            Field("host", STRING, "1+"),
            Field("port", UINT16, "1+"),
        ),
        "1+",
        tag=0,
    ),
)

API = Api(
    key=52,
    name="Vote",
    versions="0-2",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
