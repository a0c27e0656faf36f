"""A user that only produces and a user that only consumes, with the ACLs that `kafka-acls` adds for
such users."""

from __future__ import annotations

from tests.interop.secured.brokers import MECHANISMS, Secured, called
from tests.interop.secured.matrix import ALLOW, OPERATIONS, PREFIXED, RESOURCES
from tests.waiting import until

WRITER, READER = "writer", "reader"
TOPICS, GROUPS = "orders-", "billing-"
"""The prefixes of the topics and groups that the users WRITER and READER may use."""
GRANTED = [
    *((WRITER, operation, "TOPIC", TOPICS) for operation in ("WRITE", "DESCRIBE", "CREATE")),
    *((READER, operation, "TOPIC", TOPICS) for operation in ("READ", "DESCRIBE")),
    (READER, "READ", "GROUP", GROUPS),
]
"""The ACLs that `kafka-acls --producer` and `kafka-acls --consumer` add."""
LOGINS = [
    ("PLAINTEXT", None),
    ("SSL", None),
    *((protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL")
      for mechanism in MECHANISMS),
]  # fmt: skip


def prepare(secured: Secured) -> None:
    """Adds the passwords and ACLs of the two users. ANONYMOUS gets the ACLs of both users."""
    secured.add_scram_users(WRITER, READER)
    creations = [
        {
            "resource_type": RESOURCES[kind],
            "resource_name": name,
            "resource_pattern_type": PREFIXED,
            "principal": f"User:{who}",
            "host": "*",
            "operation": OPERATIONS[operation],
            "permission_type": ALLOW,
        }
        for user, operation, kind, name in GRANTED
        for who in (user, "ANONYMOUS")
    ]
    answer = called(secured, "CreateAcls", {"creations": creations}, 3)
    assert {each["error_code"] for each in answer["results"]} == {0}, answer
    until("the coordinator is there", lambda: called(
        secured, "FindCoordinator", {"key": "x", "key_type": 0}, 3)["error_code"] == 0)  # fmt: skip


def make_topic(secured: Secured, name: str) -> str:
    """Creates a topic with one partition, and waits until the partition has a leader. Returns the
    name of the topic, which begins with `TOPICS`."""
    topic = f"{TOPICS}{name}"
    asked = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    answer = called(secured, "CreateTopics", {"topics": [asked], "timeout_ms": 20_000}, 5)
    assert answer["topics"][0]["error_code"] == 0, answer
    until("the topic is led", lambda: called(secured, "ListOffsets", {
        "replica_id": -1, "topics": [
            {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    }, 4)["topics"][0]["partitions"][0]["error_code"] == 0)  # fmt: skip
    return topic
