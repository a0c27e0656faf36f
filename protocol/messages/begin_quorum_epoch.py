"""BeginQuorumEpoch, API key 53."""

from protocol.schema import INT16, INT32, STRING, UINT16, UUID, Api, Array, Field

# v0: the first known
# v1: request adds voter_id, topics.partitions.voter_directory_id, leader_endpoints; response adds
#     node_endpoints; flexible

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
                    Field("voter_directory_id", UUID, "1+"),
                    Field("leader_id", INT32, "0+"),
                    Field("leader_epoch", INT32, "0+"),
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
    key=53,
    name="BeginQuorumEpoch",
    versions="0-1",
    flexible="1+",
    request=REQUEST,
    response=RESPONSE,
)
