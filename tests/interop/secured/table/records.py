"""Requests about existing records and topics."""

from __future__ import annotations

from tests.interop.secured.matrix import OWN, Request, Value, id_of
from tests.wire import batch

PLAIN_TOPICS = ("open", "shut")
UNKNOWN_TOPIC = 3


IN_TRANSACTION = batch(
    b"x", producer_id=4711, producer_epoch=0, base_sequence=0, is_transactional=True
)
"""A transactional batch with a producer id that no broker has assigned."""


def produce(
    *topics: str,
    by_id: bool = False,
    transactional_id: str | None = None,
    records: bytes = batch(b"x"),
) -> Value:
    """Returns a Produce request for the first partition of each topic."""
    data = [
        {
            **({"topic_id": id_of(topic)} if by_id else {"name": topic}),
            "partition_data": [{"index": 0, "records": records}],
        }
        for topic in topics
    ]
    return {
        "transactional_id": transactional_id, "acks": 1, "timeout_ms": 20_000, "topic_data": data,
    }  # fmt: skip


def fetch(*topics: str, by_id: bool = False, **fields: int) -> Value:
    """Returns a Fetch request for the first partition of each topic, from offset 0 and without
    waiting."""
    asked = [
        {
            **({"topic_id": id_of(topic)} if by_id else {"topic": topic}),
            "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
        }
        for topic in topics
    ]
    return {
        "max_wait_ms": 0, "min_bytes": 0, "topics": asked, "forgotten_topics_data": [], **fields,
    }  # fmt: skip


def list_offsets(*topics: str) -> Value:
    """Returns a ListOffsets request for the log end offset of the first partition of each topic."""
    partitions = [{"partition_index": 0, "timestamp": -1}]
    topics_ = [{"name": topic, "partitions": partitions} for topic in topics]
    return {"replica_id": -1, "topics": topics_}


def metadata(*topics: str, **fields: bool) -> Value:
    asked = [{"topic_id": bytes(16), "name": topic} for topic in topics]
    return {"topics": asked, "allow_auto_topic_creation": False, **fields}


def epochs(*topics: str) -> Value:
    """Returns an OffsetForLeaderEpoch request for the first partition of each topic."""
    partitions = [{"partition": 0, "leader_epoch": 0}]
    return {"topics": [{"topic": topic, "partitions": partitions} for topic in topics]}


BOTH = list(PLAIN_TOPICS)
REQUESTS = [
    Request(
        "produce",
        "Produce",
        9,
        produce(*BOTH),
        {
            "": "open 0:29 shut 0:29",
            "as admin": "open 0:0 shut 0:0",
            "as ANONYMOUS": "open 0:29 shut 0:29",
            "as certificate": "open 0:29 shut 0:29",
            "WRITE TOPIC open": "open 0:0 shut 0:29",
            "WRITE TOPIC *": "open 0:0 shut 0:0",
            "WRITE TOPIC op*": "open 0:0 shut 0:29",
            "ALL TOPIC open": "open 0:0 shut 0:29",
            "deny WRITE TOPIC open; WRITE TOPIC *": "open 0:29 shut 0:0",
            "deny ALL TOPIC op*; WRITE TOPIC open": "open 0:29 shut 0:29",
            "deny WRITE TOPIC open@10.1.1.1; WRITE TOPIC *": "open 0:0 shut 0:0",
            "READ TOPIC open; DESCRIBE TOPIC open": "open 0:29 shut 0:29",
            "WRITE TOPIC open@127.0.0.1; WRITE TOPIC shut@10.1.1.1": "open 0:0 shut 0:29",
        },
    ),
    Request(
        "produce, as old clients",
        "Produce",
        3,
        produce(*BOTH),
        {
            "": "open 0:29 shut 0:29",
            "WRITE TOPIC open": "open 0:0 shut 0:29",
        },
    ),
    Request(
        "produce by id",
        "Produce",
        13,
        produce(*BOTH, "absent", by_id=True),
        {
            "": "<absent> 0:100 <open> 0:29 <shut> 0:29",
            "WRITE TOPIC open": "<absent> 0:100 <open> 0:0 <shut> 0:29",
        },
    ),
    Request(
        "produce to no topic",
        "Produce",
        9,
        produce("absent"),
        {
            "": "absent 0:29",
            "WRITE TOPIC *": "absent 0:3",
        },
    ),
    Request(
        "produce to an internal topic",
        "Produce",
        9,
        produce("__consumer_offsets"),
        {
            "": "__consumer_offsets 0:29",
            "WRITE TOPIC __consumer_offsets": "__consumer_offsets 0:17",
        },
    ),
    Request(
        "produce in a transaction",
        "Produce",
        9,
        produce(*BOTH, transactional_id=OWN, records=IN_TRANSACTION),
        {
            "": "open 0:53 shut 0:53",
            "WRITE TOPIC *": "open 0:53 shut 0:53",
            f"WRITE TRANSACTIONAL_ID {OWN}": "open 0:29 shut 0:29",
            f"WRITE TRANSACTIONAL_ID {OWN}; WRITE TOPIC open": "open 0:49 shut 0:29",
        },
    ),
    Request(
        "produce in a transaction of no name",
        "Produce",
        9,
        produce("open", records=IN_TRANSACTION),
        {
            "WRITE TOPIC *; WRITE TRANSACTIONAL_ID *": "open 0:53",
        },
    ),
    Request(
        "fetch what is committed",
        "Fetch",
        11,
        fetch("open", "absent", isolation_level=1),
        {
            "": ":0 absent 0:29 open 0:29",
            "READ TOPIC *": ":0 absent 0:3 open 0:0",
        },
    ),
    Request(
        "fetch",
        "Fetch",
        12,
        fetch(*BOTH),
        {
            "": ":0 open 0:29 shut 0:29",
            "READ TOPIC open": ":0 open 0:0 shut 0:29",
            "DESCRIBE TOPIC *": ":0 open 0:29 shut 0:29",
            "READ TOPIC s*": ":0 open 0:29 shut 0:0",
            "READ TOPIC *; deny READ TOPIC shut": ":0 open 0:0 shut 0:29",
        },
    ),
    Request(
        "fetch, as old clients",
        "Fetch",
        4,
        fetch(*BOTH, "absent"),
        {
            "": ":0 absent 0:29 open 0:29 shut 0:29",
            "READ TOPIC open": ":0 absent 0:29 open 0:0 shut 0:29",
            "READ TOPIC *": ":0 absent 0:3 open 0:0 shut 0:0",
        },
    ),
    Request(
        "fetch by id",
        "Fetch",
        16,
        fetch(*BOTH, "absent", by_id=True),
        {
            "": ":0 <absent> 0:100 <open> 0:29 <shut> 0:29",
            "READ TOPIC open": ":0 <absent> 0:100 <open> 0:0 <shut> 0:29",
        },
    ),
    Request(
        "fetch in a session",
        "Fetch",
        12,
        fetch(*BOTH, session_epoch=0),
        {
            "": ":0 open 0:29 shut 0:29",
            "READ TOPIC open": ":0 open 0:0 shut 0:29",
        },
    ),
    Request(
        "fetch as a follower",
        "Fetch",
        12,
        fetch(*BOTH, replica_id=1),
        {
            "READ TOPIC *": ":0 open 0:29 shut 0:29",
        },
    ),
    Request(
        "ends",
        "ListOffsets",
        7,
        list_offsets(*BOTH, "absent"),
        {
            "": "absent 0:29 open 0:29 shut 0:29",
            "DESCRIBE TOPIC open": "absent 0:29 open 0:0 shut 0:29",
            "READ TOPIC open; WRITE TOPIC shut": "absent 0:29 open 0:0 shut 0:0",
            "READ TOPIC *; deny DESCRIBE TOPIC *": "absent 0:29 open 0:29 shut 0:29",
            "DESCRIBE TOPIC *; deny READ TOPIC *": "absent 0:3 open 0:0 shut 0:0",
            "ALTER_CONFIGS TOPIC *": "absent 0:29 open 0:29 shut 0:29",
        },
    ),
    Request(
        "ends, as old clients",
        "ListOffsets",
        1,
        list_offsets(*BOTH),
        {
            "": "open 0:29 shut 0:29",
            "DELETE TOPIC open": "open 0:0 shut 0:29",
        },
    ),
    Request(
        "epochs",
        "OffsetForLeaderEpoch",
        4,
        epochs(*BOTH),
        {
            "": "open 0:29 shut 0:29",
            "DESCRIBE TOPIC open": "open 0:0 shut 0:29",
            "CLUSTER_ACTION CLUSTER": "open 0:0 shut 0:0",
        },
    ),
    Request(
        "delete records",
        "DeleteRecords",
        2,
        {
            "topics": [
                {"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}
                for topic in (f"{OWN}-cut", "shut")
            ],
            "timeout_ms": 20_000,
        },
        {
            "": "own-cut 0:29 shut 0:29",
            f"DELETE TOPIC {OWN}-cut": "own-cut 0:0 shut 0:29",
            f"WRITE TOPIC {OWN}-cut": "own-cut 0:29 shut 0:29",
        },
        topic=f"{OWN}-cut",
    ),
    Request(
        "producers",
        "DescribeProducers",
        0,
        {"topics": [{"name": topic, "partition_indexes": [0]} for topic in (*BOTH, "absent")]},
        {
            "": "absent 0:29 open 0:29 shut 0:29",
            "READ TOPIC open; READ TOPIC absent": "absent 0:3 open 0:0 shut 0:29",
            "DESCRIBE TOPIC open": "absent 0:29 open 0:29 shut 0:29",
        },
    ),
    Request(
        "metadata of some",
        "Metadata",
        9,
        metadata(*BOTH, "absent"),
        {
            "": ":0 absent:29 open:29 shut:29",
            "DESCRIBE TOPIC open": ":0 open:0 0:0 1:0 absent:29 shut:29",
            "DESCRIBE TOPIC open; DESCRIBE TOPIC absent": ":0 open:0 0:0 1:0 shut:29 absent:3",
            "as ANONYMOUS": ":0 absent:29 open:29 shut:29",
        },
    ),
    Request(
        "metadata of all",
        "Metadata",
        9,
        {"topics": None},
        {
            "": ":0",
            "DESCRIBE TOPIC open": ":0 open:0 0:0 1:0",
            "WRITE TOPIC sh*; READ TOPIC open": ":0 open:0 0:0 1:0 shut:0 0:0",
            "READ TOPIC open; deny DESCRIBE TOPIC open": ":0",
        },
    ),
    Request(
        "metadata of all, as old clients",
        "Metadata",
        1,
        {"topics": None},
        {
            "": ":0",
            "DESCRIBE TOPIC open": ":0 open:0 0:0 1:0",
        },
    ),
    Request(
        "metadata with operations",
        "Metadata",
        9,
        metadata(
            *BOTH,
            "absent",
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        {
            "": ":0 absent:29 open:29 shut:29 may=0",
            "READ TOPIC open; DESCRIBE TOPIC absent": ":0 open:0 0:0 1:0 may=264 shut:29 absent:3 may=256 may=0",
            "ALL TOPIC open; deny WRITE TOPIC open; DESCRIBE CLUSTER": ":0 open:0 0:0 1:0 may=3560 absent:29 shut:29 may=256",
            "DESCRIBE CLUSTER; ALTER CLUSTER; CREATE CLUSTER; ALL TOPIC shut": ":0 shut:0 0:0 may=3576 absent:29 open:29 may=416",
            "as admin": ":0 open:0 0:0 1:0 may=3576 shut:0 0:0 may=3576 absent:3 may=3576 may=8096",
        },
    ),
    Request(
        "metadata by id",
        "Metadata",
        12,
        {
            "topics": [{"topic_id": id_of(t), "name": None} for t in (*BOTH, "absent")],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
        {
            "": ":0 <absent>:100 <open>:29 <shut>:29",
            "DESCRIBE TOPIC open": ":0 open:0 0:0 1:0 may=256 <absent>:100 <shut>:29",
        },
    ),
    Request(
        "metadata that creates",
        "Metadata",
        9,
        metadata(f"{OWN}-new") | {"allow_auto_topic_creation": True},
        {
            "": ":0 own-new:29",
            f"DESCRIBE TOPIC {OWN}-new": ":0 own-new:29",
            f"CREATE TOPIC {OWN}-new": ":0 own-new:29",
            f"DESCRIBE TOPIC {OWN}-new; CREATE TOPIC {OWN}-new": ":0 own-new:0 0:0",
            f"READ TOPIC {OWN}-new; CREATE CLUSTER": ":0 own-new:0 0:0",
        },
        again_after=UNKNOWN_TOPIC,
    ),
    Request(
        "partitions of some",
        "DescribeTopicPartitions",
        0,
        {"topics": [{"name": topic} for topic in (*BOTH, "absent")]},
        {
            "": "absent:29 open:29 shut:29",
            "DESCRIBE TOPIC open": "open:0 0:0 1:0 may=256 absent:29 shut:29",
            "DESCRIBE TOPIC *": "open:0 0:0 1:0 may=256 shut:0 0:0 may=256 absent:3 may=256",
        },
    ),
    Request(
        "partitions of all",
        "DescribeTopicPartitions",
        0,
        {"topics": []},
        {
            "": "",
            "READ TOPIC open": "open:0 0:0 1:0 may=264",
        },
    ),
]
