"""EndQuorumEpoch, API key 54."""

from protocol.schema import INT16, INT32, STRING, UINT16, UUID, Api, Array, Field

# v0: the first known
# v1: request adds topics.partitions.preferred_candidates, leader_endpoints; request drops
#     topics.partitions.preferred_successors; response adds node_endpoints; flexible

REQUEST = (
    Field("cluster_id", STRING, "0+", nullable="0+", default=None),
    Field(
        "topics",
        Array(
            Field("topic_name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("leader_id", INT32, "0+"),
                    Field("leader_epoch", INT32, "0+"),
                    Field(
                        "preferred_candidates",
                        Array(
                            Field("candidate_id", INT32, "1+"),
                            Field("candidate_directory_id", UUID, "1+"),
                        ),
                        "1+",
                    ),
                    Field("preferred_successors", Array(INT32), "0"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field(
        "leader_endpoints",
        Array(
            Field("name", STRING, "1+"),
            Field("host", STRING, "1+"),
            Field("port", UINT16, "1+"),
        ),
        "1+",
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
    key=54,
    name="EndQuorumEpoch",
    versions="0-1",
    flexible="1+",
    request=REQUEST,
    response=RESPONSE,
)
