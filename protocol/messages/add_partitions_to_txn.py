"""AddPartitionsToTxn, API key 24."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: the same on the wire
# v3: flexible
# v4: request adds transactions; request drops v3_and_below_transactional_id,
#     v3_and_below_producer_id, v3_and_below_producer_epoch, v3_and_below_topics; response adds
#     error_code, results_by_transaction; response drops results_by_topic_v3_and_below
# v5: the same on the wire

REQUEST = (
    Field(
        "transactions",
        Array(
            Field("transactional_id", STRING, "4+"),
            Field("producer_id", INT64, "4+"),
            Field("producer_epoch", INT16, "4+"),
            Field("verify_only", BOOLEAN, "4+"),
            Field(
                "topics",
                Array(
                    Field("name", STRING, "4+"),
                    Field("partitions", Array(INT32), "4+"),
                ),
                "4+",
            ),
        ),
        "4+",
    ),
    Field("v3_and_below_transactional_id", STRING, "0-3"),
    Field("v3_and_below_producer_id", INT64, "0-3"),
    Field("v3_and_below_producer_epoch", INT16, "0-3"),
    Field(
        "v3_and_below_topics",
        Array(
            Field("name", STRING, "0-3"),
            Field("partitions", Array(INT32), "0-3"),
        ),
        "0-3",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "4+"),
    Field(
        "results_by_transaction",
        Array(
            Field("transactional_id", STRING, "4+"),
            Field(
                "topic_results",
                Array(
                    Field("name", STRING, "4+"),
                    Field(
                        "results_by_partition",
                        Array(
                            Field("partition_index", INT32, "4+"),
                            Field("partition_error_code", INT16, "4+"),
                        ),
                        "4+",
                    ),
                ),
                "4+",
            ),
        ),
        "4+",
    ),
    Field(
        "results_by_topic_v3_and_below",
        Array(
            Field("name", STRING, "0-3"),
            Field(
                "results_by_partition",
                Array(
                    Field("partition_index", INT32, "0-3"),
                    Field("partition_error_code", INT16, "0-3"),
                ),
                "0-3",
            ),
        ),
        "0-3",
    ),
)

API = Api(
    key=24,
    name="AddPartitionsToTxn",
    versions="0-5",
    flexible="3+",
    request=REQUEST,
    response=RESPONSE,
)
