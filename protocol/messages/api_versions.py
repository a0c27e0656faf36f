"""ApiVersions, API key 18."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: response adds throttle_time_ms
# v2: the same on the wire
# v3: request adds client_software_name, client_software_version; response adds
#     supported_features, finalized_features_epoch, finalized_features, zk_migration_ready;
#     flexible
# v4: the same on the wire
# v5: request adds cluster_id, node_id

REQUEST = (
    Field("client_software_name", STRING, "3+"),
    Field("client_software_version", STRING, "3+"),
    Field("cluster_id", STRING, "5+", nullable="5+", default=None),
    Field("node_id", INT32, "5+", default=-1),
)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field(
        "api_keys",
        Array(
            Field("api_key", INT16, "0+"),
            Field("min_version", INT16, "0+"),
            Field("max_version", INT16, "0+"),
        ),
        "0+",
    ),
    Field("throttle_time_ms", INT32, "1+"),
    Field(
        "supported_features",
        Array(
            Field("name", STRING, "3+"),
            Field("min_version", INT16, "3+"),
            Field("max_version", INT16, "3+"),
        ),
        "3+",
        tag=0,
    ),
    Field("finalized_features_epoch", INT64, "3+", tag=1, default=-1),
    Field(
        "finalized_features",
        Array(
            Field("name", STRING, "3+"),
            Field("max_version_level", INT16, "3+"),
            Field("min_version_level", INT16, "3+"),
        ),
        "3+",
        tag=2,
    ),
    Field("zk_migration_ready", BOOLEAN, "3+", tag=3),
)

API = Api(
    key=18,
    name="ApiVersions",
    versions="0-5",
    flexible="3+",
    request=REQUEST,
    response=RESPONSE,
)
