"""Requests that create, change and describe topics, settings and log directories."""

from __future__ import annotations

from tests.interop.secured.matrix import OWN, Request, Value, id_of

TOPIC, BROKER = 2, 4
BOTH = ("open", "shut")
NEW = f"{OWN}-new"


def create(*names: str, is_checked: bool = False) -> Value:
    """Returns a CreateTopics request. Each topic has one partition."""
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return {"topics": topics, "timeout_ms": 20_000, "validate_only": is_checked}


def described(*resources: tuple[int, str], key: str = "retention.ms") -> Value:
    """Returns a DescribeConfigs request for one setting of each resource."""
    return {"resources": [
        {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
        for kind, name in resources
    ]}  # fmt: skip


def changes(**fields: int) -> Value:
    """Returns an AlterConfigs or IncrementalAlterConfigs request with validate_only, for one
    setting of each resource."""
    of_topics = [(TOPIC, name, "retention.ms", "1000") for name in (*BOTH, "absent")]
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name,
             "configs": [{"name": key, "value": value, **fields}]}
            for kind, name, key, value in (*of_topics, (BROKER, "1", "message.max.bytes", "900000"))
        ],
        "validate_only": True,
    }  # fmt: skip


DIRECTORIES = {"topics": [{"topic": topic, "partitions": [0]} for topic in BOTH]}
REQUESTS = [
    Request(
        "create",
        "CreateTopics",
        7,
        create(NEW, f"{OWN}-more"),
        {
            "": "own-more:29,0 own-new:29,0",
            "CREATE CLUSTER": "own-more/<another>:0,29 own-new/<another>:0,29",
            f"CREATE TOPIC {NEW}": "own-more:29,0 own-new/<another>:0,29",
            f"CREATE TOPIC {NEW}; DESCRIBE_CONFIGS TOPIC {NEW}": "own-more:29,0 own-new/<another>:0,0",
            f"ALL TOPIC {OWN}*": "own-more/<another>:0,0 own-new/<another>:0,0",
            f"CREATE CLUSTER; deny CREATE TOPIC {NEW}": "own-more/<another>:0,29 own-new/<another>:0,29",
            f"deny CREATE CLUSTER; CREATE TOPIC {NEW}": "own-more:29,0 own-new/<another>:0,29",
        },
    ),
    Request(
        "create, as old clients",
        "CreateTopics",
        4,
        create(NEW),
        {
            "": "own-new:29,0",
            f"CREATE TOPIC {NEW}": "own-new:0,0",
        },
    ),
    Request(
        "create what is there",
        "CreateTopics",
        5,
        create("open", is_checked=True),
        {
            "": "open:29,0",
            "CREATE CLUSTER": "open:36,0",
        },
    ),
    Request(
        "create twice",
        "CreateTopics",
        7,
        create(NEW, NEW),
        {
            "": "own-new:42,0",
        },
    ),
    Request(
        "delete",
        "DeleteTopics",
        5,
        {"topic_names": [f"{OWN}-old", "shut", "absent"], "timeout_ms": 20_000},
        {
            "": "absent:29 own-old:29 shut:29",
            f"DELETE TOPIC {OWN}-old": "absent:29 own-old:0 shut:29",
            f"DESCRIBE TOPIC {OWN}-old; DESCRIBE TOPIC absent": "absent:3 own-old:29 shut:29",
        },
        topic=f"{OWN}-old",
    ),
    Request(
        "delete by right on the cluster",
        "DeleteTopics",
        5,
        {"topic_names": [f"{OWN}-old"], "timeout_ms": 20_000},
        {
            "DELETE CLUSTER": "own-old:0",
        },
        topic=f"{OWN}-old",
    ),
    Request(
        "delete by id",
        "DeleteTopics",
        6,
        {
            "topics": [
                {"name": None, "topic_id": id_of(name)} for name in (f"{OWN}-old", "shut", "absent")
            ],
            "timeout_ms": 20_000,
        },
        {
            "": "<absent>:100 <own-old>:29 <shut>:29",
            f"DELETE TOPIC {OWN}-old": "own-old:0 <absent>:100 <shut>:29",
            f"DESCRIBE TOPIC {OWN}-old": "own-old:29 <absent>:100 <shut>:29",
        },
        topic=f"{OWN}-old",
    ),
    Request(
        "more partitions",
        "CreatePartitions",
        3,
        {
            "topics": [
                {"name": name, "count": 3, "assignments": None}
                for name in (f"{OWN}-few", "shut", "absent")
            ],
            "timeout_ms": 20_000,
            "validate_only": True,
        },
        {
            "": "absent:29 own-few:29 shut:29",
            f"ALTER TOPIC {OWN}-few": "absent:29 own-few:0 shut:29",
            "ALTER TOPIC *": "absent:3 own-few:0 shut:0",
        },
        topic=f"{OWN}-few",
    ),
    Request(
        "settings",
        "DescribeConfigs",
        4,
        described((TOPIC, "open"), (TOPIC, "shut"), (TOPIC, "absent")),
        {
            "": "absent:29 open:29 shut:29",
            "DESCRIBE_CONFIGS TOPIC open": "open:0 absent:29 shut:29",
            "ALTER_CONFIGS TOPIC open; DESCRIBE_CONFIGS TOPIC absent": "open:0 shut:29 absent:3",
            "READ TOPIC open": "absent:29 open:29 shut:29",
        },
    ),
    Request(
        "settings of a broker",
        "DescribeConfigs",
        4,
        described((BROKER, "1"), (TOPIC, "open"), key="message.max.bytes"),
        {
            "": "open:29 1:31",
            "DESCRIBE_CONFIGS CLUSTER": "1:0 open:29",
            "DESCRIBE CLUSTER": "open:29 1:31",
        },
    ),
    Request(
        "alter settings",
        "AlterConfigs",
        2,
        changes(),
        {
            "": "absent:29 open:29 shut:29 1:31",
            "ALTER_CONFIGS TOPIC open": "open:0 absent:29 shut:29 1:31",
            "ALTER_CONFIGS TOPIC *; ALTER_CONFIGS CLUSTER": "open:0 shut:0 1:0 absent:3",
            "DESCRIBE_CONFIGS TOPIC open": "absent:29 open:29 shut:29 1:31",
        },
    ),
    Request(
        "alter some settings",
        "IncrementalAlterConfigs",
        1,
        changes(config_operation=0),
        {
            "": "absent:29 open:29 shut:29 1:31",
            "ALTER_CONFIGS TOPIC open": "open:0 absent:29 shut:29 1:31",
            "ALTER_CONFIGS CLUSTER": "1:0 absent:29 open:29 shut:29",
        },
    ),
    Request(
        "resources",
        "ListConfigResources",
        1,
        {"resource_types": [BROKER]},
        {
            "": ":31",
            "DESCRIBE_CONFIGS CLUSTER": ":0 1",
        },
    ),
    Request(
        "directories",
        "DescribeLogDirs",
        4,
        DIRECTORIES,
        {
            "": ":31",
            "DESCRIBE CLUSTER": ":0 :0 open 0 shut 0",
            "ALTER CLUSTER": ":0 :0 open 0 shut 0",
            "DESCRIBE TOPIC *": ":31",
        },
    ),
    Request(
        "leaders",
        "ElectLeaders",
        2,
        {
            "election_type": 0,
            "timeout_ms": 20_000,
            "topic_partitions": [{"topic": "open", "partitions": [0]}],
        },
        {
            "": ":31 open 0:31",
            "ALTER CLUSTER": ":0 open 0:84",
            "ALTER TOPIC open": ":31 open 0:31",
        },
    ),
    Request(
        "moves",
        "ListPartitionReassignments",
        0,
        {"topics": None},
        {
            "": ":31",
            "DESCRIBE CLUSTER": ":0",
        },
    ),
    Request(
        "the cluster",
        "DescribeCluster",
        1,
        {
            "include_cluster_authorized_operations": True,
        },
        {
            "": ":0 may=0",
            "DESCRIBE CLUSTER": ":0 may=256",
            "ALL CLUSTER; deny ALTER CLUSTER": ":0 may=7968",
            "CREATE CLUSTER": ":0 may=0",
            "as admin": ":0 may=8096",
        },
    ),
]
