"""WriteTxnMarkers, API key 27."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: flexible
# v2: request adds markers.transaction_version

REQUEST = (
    Field(
        "markers",
        Array(
            Field("producer_id", INT64, "0+"),
            Field("producer_epoch", INT16, "0+"),
            Field("transaction_result", BOOLEAN, "0+"),
            Field(
                "topics",
                Array(
                    Field("name", STRING, "0+"),
                    Field("partition_indexes", Array(INT32), "0+"),
                ),
                "0+",
            ),
            Field("coordinator_epoch", INT32, "0+"),
            Field("transaction_version", INT8, "2+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field(
        "markers",
        Array(
            Field("producer_id", INT64, "0+"),
            Field(
                "topics",
                Array(
                    Field("name", STRING, "0+"),
                    Field(
                        "partitions",
                        Array(
                            Field("partition_index", INT32, "0+"),
                            Field("error_code", INT16, "0+"),
                        ),
                        "0+",
                    ),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=27,
    name="WriteTxnMarkers",
    versions="0-2",
    flexible="1+",
    request=REQUEST,
    response=RESPONSE,
)
