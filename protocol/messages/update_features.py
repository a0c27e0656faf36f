"""UpdateFeatures, API key 57."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds feature_updates.upgrade_type, validate_only; request drops
#     feature_updates.allow_downgrade
# v2: response drops results

REQUEST = (
    Field("timeout_ms", INT32, "0+", default=60000),
    Field(
        "feature_updates",
        Array(
            Field("feature", STRING, "0+"),
            Field("max_version_level", INT16, "0+"),
            Field("upgrade_type", INT8, "1+", default=1),
            Field("allow_downgrade", BOOLEAN, "0"),
        ),
        "0+",
    ),
    Field("validate_only", BOOLEAN, "1+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field(
        "results",
        Array(
            Field("feature", STRING, "0-1"),
            Field("error_code", INT16, "0-1"),
            Field("error_message", STRING, "0-1", nullable="0+"),
        ),
        "0-1",
    ),
)

API = Api(
    key=57,
    name="UpdateFeatures",
    versions="0-2",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
