"""FetchSnapshot, API key 59."""

from protocol.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    Api,
    Array,
    Field,
    Struct,
)

# v0: the first known
# v1: request adds topics.partitions.replica_directory_id; response adds node_endpoints

REQUEST = (
    Field("replica_id", INT32, "0+", default=-1),
    Field("max_bytes", INT32, "0+", default=2147483647),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition", INT32, "0+"),
                    Field("current_leader_epoch", INT32, "0+"),
                    Field(
                        "snapshot_id",
                        Struct(
                            Field("end_offset", INT64, "0+"),
                            Field("epoch", INT32, "0+"),
                        ),
                        "0+",
                    ),
                    Field("position", INT64, "0+"),
                    Field("replica_directory_id", UUID, "1+", tag=0),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field("cluster_id", STRING, "0+", nullable="0+", tag=0, default=None),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field(
                        "snapshot_id",
                        Struct(
                            Field("end_offset", INT64, "0+"),
                            Field("epoch", INT32, "0+"),
                        ),
                        "0+",
                    ),
                    Field("size", INT64, "0+"),
                    Field("position", INT64, "0+"),
                    Field("unaligned_records", RECORDS, "0+"),
                    Field(
                        "current_leader",
                        Struct(
                            Field("leader_id", INT32, "0+"),
                            Field("leader_epoch", INT32, "0+"),
                        ),
                        "0+",
                        tag=0,
                    ),
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
    key=59,
    name="FetchSnapshot",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
