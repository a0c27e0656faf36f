"""Fetch, API key 1."""

from protocol.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Struct,
)

# v0: the first known
# v1: response adds throttle_time_ms
# v2: the same on the wire
# v3: request adds max_bytes
# v4: request adds isolation_level; response adds responses.partitions.last_stable_offset,
#     responses.partitions.aborted_transactions
# v5: request adds topics.partitions.log_start_offset; response adds
#     responses.partitions.log_start_offset
# v6: the same on the wire
# v7: request adds session_id, session_epoch, forgotten_topics_data; response adds error_code,
#     session_id
# v8: the same on the wire
# v9: request adds topics.partitions.current_leader_epoch
# v10: the same on the wire
# v11: request adds rack_id; response adds responses.partitions.preferred_read_replica
# v12: request adds topics.partitions.last_fetched_epoch, cluster_id; response adds
#     responses.partitions.diverging_epoch, responses.partitions.current_leader,
#     responses.partitions.snapshot_id; flexible
# v13: request adds topics.topic_id, forgotten_topics_data.topic_id; request drops topics.topic,
#     forgotten_topics_data.topic; response adds responses.topic_id; response drops
#     responses.topic
# v14: the same on the wire
# v15: request adds replica_state; request drops replica_id
# v16: response adds node_endpoints
# v17: request adds topics.partitions.replica_directory_id
# v18: request adds topics.partitions.high_watermark

REQUEST = (
    Field("replica_id", INT32, "0-14", default=-1),
    Field("max_wait_ms", INT32, "0+"),
    Field("min_bytes", INT32, "0+"),
    Field("max_bytes", INT32, "3+", default=2147483647),
    Field("isolation_level", INT8, "4+"),
    Field("session_id", INT32, "7+"),
    Field("session_epoch", INT32, "7+", default=-1),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "13+"),
            Field("topic", STRING, "0-12"),
            Field(
                "partitions",
                Array(
                    Field("partition", INT32, "0+"),
                    Field("current_leader_epoch", INT32, "9+", default=-1),
                    Field("fetch_offset", INT64, "0+"),
                    Field("last_fetched_epoch", INT32, "12+", default=-1),
                    Field("log_start_offset", INT64, "5+", default=-1),
                    Field("partition_max_bytes", INT32, "0+"),
                    Field("replica_directory_id", UUID, "17+", tag=0),
                    Field("high_watermark", INT64, "18+", tag=1, default=9223372036854775807),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field(
        "forgotten_topics_data",
        Array(
            Field("topic_id", UUID, "13+"),
            Field("topic", STRING, "7-12"),
            Field("partitions", Array(INT32), "7+"),
        ),
        "7+",
    ),
    Field("rack_id", STRING, "11+"),
    Field("cluster_id", STRING, "12+", nullable="12+", tag=0, default=None),
    Field(
        "replica_state",
        Struct(
            Field("replica_id", INT32, "15+", default=-1),
            Field("replica_epoch", INT64, "15+", default=-1),
        ),
        "15+",
        tag=1,
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "1+"),
    Field("error_code", INT16, "7+"),
    Field("session_id", INT32, "7+"),
    Field(
        "responses",
        Array(
            Field("topic_id", UUID, "13+"),
            Field("topic", STRING, "0-12"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("high_watermark", INT64, "0+"),
                    Field("last_stable_offset", INT64, "4+", default=-1),
                    Field("log_start_offset", INT64, "5+", default=-1),
                    Field(
                        "aborted_transactions",
                        Array(
                            Field("producer_id", INT64, "4+"),
                            Field("first_offset", INT64, "4+"),
                        ),
                        "4+",
                        nullable="4+",
                    ),
                    Field("preferred_read_replica", INT32, "11+", default=-1),
                    Field("records", RECORDS, "0+", nullable="0+"),
                    Field(
                        "diverging_epoch",
                        Struct(
                            Field("epoch", INT32, "12+", default=-1),
                            Field("end_offset", INT64, "12+", default=-1),
                        ),
                        "12+",
                        tag=0,
                    ),
                    Field(
                        "current_leader",
                        Struct(
                            Field("leader_id", INT32, "12+", default=-1),
                            Field("leader_epoch", INT32, "12+", default=-1),
                        ),
                        "12+",
                        tag=1,
                    ),
                    Field(
                        "snapshot_id",
                        Struct(
                            Field("end_offset", INT64, "12+", default=-1),
                            Field("epoch", INT32, "12+", default=-1),
                        ),
                        "12+",
                        tag=2,
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
            Field("node_id", INT32, "16+"),
            Field("host", STRING, "16+"),
            Field("port", INT32, "16+"),
            Field("rack", STRING, "16+", nullable="16+", default=None),
        ),
        "16+",
        tag=0,
    ),
)

API = Api(
    key=1,
    name="Fetch",
    versions="0-18",
    flexible="12+",
    request=REQUEST,
    response=RESPONSE,
)
