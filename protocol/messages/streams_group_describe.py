"""StreamsGroupDescribe, API key 89."""

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
# v1: request adds include_topology_description; response adds groups.topology_description,
#     groups.topology_description_status, groups.assignor_name

REQUEST = (
    Field("group_ids", Array(STRING), "0+"),
    Field("include_authorized_operations", BOOLEAN, "0+"),
    Field("include_topology_description", BOOLEAN, "1+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "groups",
        Array(
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+", default=None),
            Field("group_id", STRING, "0+"),
            Field("group_state", STRING, "0+"),
            Field("group_epoch", INT32, "0+"),
            Field("assignment_epoch", INT32, "0+"),
            Field(
                "topology",
                Struct(
                    Field("epoch", INT32, "0+"),
                    Field(
                        "subtopologies",
                        Array(
                            Field("subtopology_id", STRING, "0+"),
                            Field("source_topics", Array(STRING), "0+"),
                            Field("repartition_sink_topics", Array(STRING), "0+"),
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
                        ),
                        "0+",
                        nullable="0+",
                    ),
                ),
                "0+",
                nullable="0+",
                default=None,
            ),
            Field(
                "members",
                Array(
                    Field("member_id", STRING, "0+"),
                    Field("member_epoch", INT32, "0+"),
                    Field("instance_id", STRING, "0+", nullable="0+", default=None),
                    Field("rack_id", STRING, "0+", nullable="0+", default=None),
                    Field("client_id", STRING, "0+"),
                    Field("client_host", STRING, "0+"),
                    Field("topology_epoch", INT32, "0+"),
                    Field("process_id", STRING, "0+"),
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
                    ),
                    Field(
                        "task_offsets",
                        Array(
                            Field("subtopology_id", STRING, "0+"),
                            Field("partition", INT32, "0+"),
                            Field("offset", INT64, "0+"),
                        ),
                        "0+",
                    ),
                    Field(
                        "task_end_offsets",
                        Array(
                            Field("subtopology_id", STRING, "0+"),
                            Field("partition", INT32, "0+"),
                            Field("offset", INT64, "0+"),
                        ),
                        "0+",
                    ),
                    Field(
                        "assignment",
                        Struct(
                            Field(
                                "active_tasks",
                                Array(
                                    Field("subtopology_id", STRING, "0+"),
                                    Field("partitions", Array(INT32), "0+"),
                                ),
                                "0+",
                            ),
                            Field(
                                "standby_tasks",
                                Array(
                                    Field("subtopology_id", STRING, "0+"),
                                    Field("partitions", Array(INT32), "0+"),
                                ),
                                "0+",
                            ),
                            Field(
                                "warmup_tasks",
                                Array(
                                    Field("subtopology_id", STRING, "0+"),
                                    Field("partitions", Array(INT32), "0+"),
                                ),
                                "0+",
                            ),
                        ),
                        "0+",
                    ),
                    Field(
                        "target_assignment",
                        Struct(
                            Field(
                                "active_tasks",
                                Array(
                                    Field("subtopology_id", STRING, "0+"),
                                    Field("partitions", Array(INT32), "0+"),
                                ),
                                "0+",
                            ),
                            Field(
                                "standby_tasks",
                                Array(
                                    Field("subtopology_id", STRING, "0+"),
                                    Field("partitions", Array(INT32), "0+"),
                                ),
                                "0+",
                            ),
                            Field(
                                "warmup_tasks",
                                Array(
                                    Field("subtopology_id", STRING, "0+"),
                                    Field("partitions", Array(INT32), "0+"),
                                ),
                                "0+",
                            ),
                        ),
                        "0+",
                    ),
                    Field("is_classic", BOOLEAN, "0+"),
                ),
                "0+",
            ),
            Field("authorized_operations", INT32, "0+", default=-2147483648),
            Field(
                "topology_description",
                Struct(
                    Field(
                        "subtopologies",
                        Array(
                            Field("subtopology_id", STRING, "1+"),
                            Field(
                                "nodes",
                                Array(
                                    Field("name", STRING, "1+"),
                                    Field("node_type", INT8, "1+"),
                                    Field("source_topics", Array(STRING), "1+"),
                                    Field("sink_topic", STRING, "1+", nullable="1+"),
                                    Field("stores", Array(STRING), "1+"),
                                    Field("successors", Array(STRING), "1+"),
                                ),
                                "1+",
                            ),
                        ),
                        "1+",
                    ),
                    Field(
                        "global_stores",
                        Array(
                            Field(
                                "source",
                                Struct(
                                    Field("name", STRING, "1+"),
                                    Field("node_type", INT8, "1+"),
                                    Field("source_topics", Array(STRING), "1+"),
                                    Field("sink_topic", STRING, "1+", nullable="1+"),
                                    Field("stores", Array(STRING), "1+"),
                                    Field("successors", Array(STRING), "1+"),
                                ),
                                "1+",
                            ),
                            Field(
                                "processor",
                                Struct(
                                    Field("name", STRING, "1+"),
                                    Field("node_type", INT8, "1+"),
                                    Field("source_topics", Array(STRING), "1+"),
                                    Field("sink_topic", STRING, "1+", nullable="1+"),
                                    Field("stores", Array(STRING), "1+"),
                                    Field("successors", Array(STRING), "1+"),
                                ),
                                "1+",
                            ),
                        ),
                        "1+",
                    ),
                ),
                "1+",
                nullable="1+",
                default=None,
            ),
            Field("topology_description_status", INT8, "1+"),
            Field("assignor_name", STRING, "1+", nullable="1+", default=None),
        ),
        "0+",
    ),
)

API = Api(
    key=89,
    name="StreamsGroupDescribe",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
