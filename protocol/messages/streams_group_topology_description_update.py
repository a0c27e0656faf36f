"""StreamsGroupTopologyDescriptionUpdate, API key 93."""

from protocol.schema import INT8, INT16, INT32, STRING, Api, Array, Field, Struct

# v0: the first known

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field("member_id", STRING, "0+"),
    Field("topology_epoch", INT32, "0+"),
    Field(
        "topology_description",
        Struct(
            Field(
                "subtopologies",
                Array(
                    Field("subtopology_id", STRING, "0+"),
                    Field(
                        "nodes",
                        Array(
                            Field("name", STRING, "0+"),
                            Field("node_type", INT8, "0+"),
                            Field("source_topics", Array(STRING), "0+"),
                            Field("sink_topic", STRING, "0+", nullable="0+"),
                            Field("stores", Array(STRING), "0+"),
                            Field("successors", Array(STRING), "0+"),
                        ),
                        "0+",
                    ),
                ),
                "0+",
            ),
            Field(
                "global_stores",
                Array(
                    Field(
                        "source",
                        Struct(
                            Field("name", STRING, "0+"),
                            Field("node_type", INT8, "0+"),
                            Field("source_topics", Array(STRING), "0+"),
                            Field("sink_topic", STRING, "0+", nullable="0+"),
                            Field("stores", Array(STRING), "0+"),
                            Field("successors", Array(STRING), "0+"),
                        ),
                        "0+",
                    ),
                    Field(
                        "processor",
                        Struct(
                            Field("name", STRING, "0+"),
                            Field("node_type", INT8, "0+"),
                            Field("source_topics", Array(STRING), "0+"),
                            Field("sink_topic", STRING, "0+", nullable="0+"),
                            Field("stores", Array(STRING), "0+"),
                            Field("successors", Array(STRING), "0+"),
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

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+", default=None),
)

API = Api(
    key=93,
    name="StreamsGroupTopologyDescriptionUpdate",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
