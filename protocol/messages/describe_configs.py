"""DescribeConfigs, API key 32."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds include_synonyms; response adds results.configs.config_source,
#     results.configs.synonyms; response drops results.configs.is_default
# v2: the same on the wire
# v3: request adds include_documentation; response adds results.configs.config_type,
#     results.configs.documentation
# v4: flexible

REQUEST = (
    Field(
        "resources",
        Array(
            Field("resource_type", INT8, "0+"),
            Field("resource_name", STRING, "0+"),
            Field("configuration_keys", Array(STRING), "0+", nullable="0+"),
        ),
        "0+",
    ),
    Field("include_synonyms", BOOLEAN, "1+"),
    Field("include_documentation", BOOLEAN, "3+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "results",
        Array(
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+"),
            Field("resource_type", INT8, "0+"),
            Field("resource_name", STRING, "0+"),
            Field(
                "configs",
                Array(
                    Field("name", STRING, "0+"),
                    Field("value", STRING, "0+", nullable="0+"),
                    Field("read_only", BOOLEAN, "0+"),
                    Field("config_source", INT8, "1+", default=-1),
                    Field("is_default", BOOLEAN, "0"),
                    Field("is_sensitive", BOOLEAN, "0+"),
                    Field(
                        "synonyms",
                        Array(
                            Field("name", STRING, "1+"),
                            Field("value", STRING, "1+", nullable="1+"),
                            Field("source", INT8, "1+"),
                        ),
                        "1+",
                    ),
                    Field("config_type", INT8, "3+"),
                    Field("documentation", STRING, "3+", nullable="3+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=32,
    name="DescribeConfigs",
    versions="0-4",
    flexible="4+",
    request=REQUEST,
    response=RESPONSE,
)
