"""StreamsGroupHeartbeat, API key 88."""

from protocol.schema import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    Api,
    Array,
    Field,
    Struct,
)

# v0: the first known
# v1: response adds topology_description_required; response changes acceptable_recovery_lag

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field("member_id", STRING, "0+"),
    Field("member_epoch", INT32, "0+"),
    Field("endpoint_information_epoch", INT32, "0+"),
    Field("instance_id", STRING, "0+", nullable="0+", default=None),
    Field("rack_id", STRING, "0+", nullable="0+", default=None),
    Field("rebalance_timeout_ms", INT32, "0+", default=-1),
    Field(
        "topology",
        Struct(
            Field("epoch", INT32, "0+"),
            Field(
                "subtopologies",
                Array(
                    Field("subtopology_id", STRING, "0+"),
                    Field("source_topics", Array(STRING), "0+"),
                    Field("source_topic_regex", Array(STRING), "0+"),
                    Field(
                        "state_changelog_topics",
                        Array(
                            Field("name", STRING, "0+"),
                            Field("partitions", INT32, "0+"),
                            Field("replication_factor", INT16, "0+"),
                            Field(
                                "topic_configs",
                                Array(
                                    Field("key", STRING, "0+"),
                                    Field("value", STRING, "0+"),
                                ),
                                "0+",
                            ),
                        ),
                        "0+",
                    ),
                    Field("repartition_sink_topics", Array(STRING), "0+"),
                    Field(
                        "repartition_source_topics",
                        Array(
                            Field("name", STRING, "0+"),
                            Field("partitions", INT32, "0+"),
                            Field("replication_factor", INT16, "0+"),
                            Field(
                                "topic_configs",
                                Array(
                                    Field("key", STRING, "0+"),
                                    Field("value", STRING, "0+"),
                                ),
                                "0+",
                            ),
                        ),
                        "0+",
                    ),
                    Field(
                        "copartition_groups",
                        Array(
                            Field("source_topics", Array(INT16), "0+"),
                            Field("source_topic_regex", Array(INT16), "0+"),
                            Field("repartition_source_topics", Array(INT16), "0+"),
                        ),
                        "0+",
                    ),
                ),
                "0+",
            ),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field(
        "active_tasks",
        Array(
            Field("subtopology_id", STRING, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field(
        "standby_tasks",
        Array(
            Field("subtopology_id", STRING, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field(
        "warmup_tasks",
        Array(
            Field("subtopology_id", STRING, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field("process_id", STRING, "0+", nullable="0+", default=None),
    Field(
        "user_endpoint",
        Struct(
            Field("host", STRING, "0+"),
            Field("port", UINT16, "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field(
        "client_tags",
        Array(
            Field("key", STRING, "0+"),
            Field("value", STRING, "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field(
        "task_offsets",
        Array(
            Field("subtopology_id", STRING, "0+"),
            Field("partition", INT32, "0+"),
            Field("offset", INT64, "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field(
        "task_end_offsets",
        Array(
            Field("subtopology_id", STRING, "0+"),
            Field("partition", INT32, "0+"),
            Field("offset", INT64, "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field("shutdown_application", BOOLEAN, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+", default=None),
    Field("member_id", STRING, "0+"),
    Field("member_epoch", INT32, "0+"),
    Field("heartbeat_interval_ms", INT32, "0+"),
    Field("acceptable_recovery_lag", INT32, "0"),
    Field("task_offset_interval_ms", INT32, "0+"),
    Field("acceptable_recovery_lag", INT64, "1+"),
    Field(
        "status",
        Array(
            Field("status_code", INT8, "0+"),
            Field("status_detail", STRING, "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field(
        "active_tasks",
        Array(
            Field("subtopology_id", STRING, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field(
        "standby_tasks",
        Array(
            Field("subtopology_id", STRING, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field(
        "warmup_tasks",
        Array(
            Field("subtopology_id", STRING, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
    Field("topology_description_required", BOOLEAN, "1+"),
    Field("endpoint_information_epoch", INT32, "0+"),
    Field(
        "partitions_by_user_endpoint",
        Array(
            Field(
                "user_endpoint",
                Struct(
                    Field("host", STRING, "0+"),
                    Field("port", UINT16, "0+"),
                ),
                "0+",
            ),
            Field(
                "active_partitions",
                Array(
                    Field("topic", STRING, "0+"),
                    Field("partitions", Array(INT32), "0+"),
                ),
                "0+",
            ),
            Field(
                "standby_partitions",
                Array(
                    Field("topic", STRING, "0+"),
                    Field("partitions", Array(INT32), "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
)

API = Api(
    key=88,
    name="StreamsGroupHeartbeat",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
