"""DescribeCluster, API key 60."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds endpoint_type; response adds endpoint_type
# v2: request adds include_fenced_brokers; response adds brokers.is_fenced

REQUEST = (
    Field("include_cluster_authorized_operations", BOOLEAN, "0+"),
    Field("endpoint_type", INT8, "1+", default=1),
    Field("include_fenced_brokers", BOOLEAN, "2+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+", default=None),
    Field("endpoint_type", INT8, "1+", default=1),
    Field("cluster_id", STRING, "0+"),
    Field("controller_id", INT32, "0+", default=-1),
    Field(
        "brokers",
        Array(
            Field("broker_id", INT32, "0+"),
            Field("host", STRING, "0+"),
            Field("port", INT32, "0+"),
            Field("rack", STRING, "0+", nullable="0+", default=None),
            Field("is_fenced", BOOLEAN, "2+"),
        ),
        "0+",
    ),
    Field("cluster_authorized_operations", INT32, "0+", default=-2147483648),
)

API = Api(
    key=60,
    name="DescribeCluster",
    versions="0-2",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
