"""Changes of ACLs and quotas apply to connected clients, as in Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from client.connection import Connection
from tests.brokers import KIND
from tests.interop.secured.brokers import Secured, called
from tests.interop.secured.least_rights import READER, TOPICS, WRITER, make_topic
from tests.interop.secured.matrix import ALLOW, DENY, LITERAL, OPERATIONS
from tests.waiting import until
from tests.wire import batch

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 23")]
FETCH_BYTES = 1 << 20
MUTATED_TOPICS = 12


def on_each(
    kafka: Secured, request: pytest.FixtureRequest, told: Callable[[Secured], Any]
) -> list[Any]:
    """Runs ``told`` on Kafka and on the broker under test, and returns the results."""
    others = [request.getfixturevalue("secured")] if KIND == "muster" else []
    return [told(each) for each in (kafka, *others)]


def entry(user: str, operation: str, topic: str, permission: int) -> dict[str, Any]:
    return {
        "resource_type": 2, "resource_name": topic, "resource_pattern_type": LITERAL,
        "principal": f"User:{user}", "host": "*", "operation": OPERATIONS[operation],
        "permission_type": permission,
    }  # fmt: skip


def add(secured: Secured, acl: dict[str, Any]) -> None:
    answer = called(secured, "CreateAcls", {"creations": [acl]}, 3)
    assert answer["results"][0]["error_code"] == 0, answer


def remove(secured: Secured, acl: dict[str, Any]) -> None:
    asked = {
        "resource_type_filter": 2, "resource_name_filter": acl["resource_name"],
        "pattern_type_filter": LITERAL, "principal_filter": acl["principal"], "host_filter": None,
        "operation": acl["operation"], "permission_type": acl["permission_type"],
    }  # fmt: skip
    answer = called(secured, "DeleteAcls", {"filters": [asked]}, 3)
    assert len(answer["filter_results"][0]["matching_acls"]) == 1, answer


def produce(connection: Connection, topic: str, value: bytes = b"x") -> dict[str, Any]:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch(value)}]}]
    asked = {"acks": 1, "timeout_ms": 20_000, "topic_data": data}
    return connection.call("Produce", asked, version=9)


def code_of_produce(connection: Connection, topic: str) -> int:
    code: int = produce(connection, topic)["responses"][0]["partition_responses"][0]["error_code"]
    return code


def fetch(connection: Connection, topics: list[str], session: int, epoch: int) -> dict[str, Any]:
    asked = [
        {"topic": topic, "partitions": [
            {"partition": 0, "fetch_offset": 0, "partition_max_bytes": FETCH_BYTES}]}
        for topic in topics
    ]  # fmt: skip
    return connection.call("Fetch", {
        "max_wait_ms": 0, "min_bytes": 0, "session_id": session, "session_epoch": epoch,
        "topics": asked, "forgotten_topics_data": [],
    }, version=12)  # fmt: skip


def codes_of_fetch(answer: dict[str, Any]) -> list[int]:
    return [p["error_code"] for topic in answer["responses"] for p in topic["partitions"]]


def test_new_deny_acl_applies_to_the_next_produce_request(
    kafka: Secured, request: pytest.FixtureRequest, name: str
) -> None:
    def told(secured: Secured) -> list[int]:
        topic = make_topic(secured, name)
        denial = entry(WRITER, "WRITE", topic, DENY)
        connection = secured.connect("SASL_SSL", "PLAIN", WRITER)
        codes = [code_of_produce(connection, topic)]
        add(secured, denial)
        codes.append(until("it is denied", lambda: code_of_produce(connection, topic)))
        remove(secured, denial)
        until("it is allowed", lambda: code_of_produce(connection, topic) == 0)
        connection.close()
        return codes

    assert on_each(kafka, request, told) == [[0, 29]] * (2 if KIND == "muster" else 1)


def test_new_deny_acl_applies_to_an_existing_fetch_session(
    kafka: Secured, request: pytest.FixtureRequest, name: str
) -> None:
    def told(secured: Secured) -> list[Any]:
        topic = make_topic(secured, name)
        denial = entry(READER, "READ", topic, DENY)
        connection = secured.connect("SASL_PLAINTEXT", "PLAIN", READER)
        first = fetch(connection, [topic], 0, 0)
        heard: list[Any] = [codes_of_fetch(first)]
        add(secured, denial)
        until("nobody may read", lambda: codes_of_fetch(fetch(connection, [topic], 0, -1)) == [29])
        session = first["session_id"]
        heard += [codes_of_fetch(fetch(connection, [], session, epoch)) for epoch in (1, 2)]
        remove(secured, denial)
        until("one may", lambda: codes_of_fetch(fetch(connection, [topic], 0, -1)) == [0])
        heard.append(codes_of_fetch(fetch(connection, [], session, 3)))
        connection.close()
        return heard

    answers = on_each(kafka, request, told)

    assert answers[0][:2] == [[0], [29]]
    assert answers[1:] == answers[:1] * (len(answers) - 1)


def set_quota(secured: Secured, user: str, key: str, value: float | None) -> None:
    change = {"key": key, "value": value or 0.0, "remove": value is None}
    asked = {
        "entries": [{"entity": [{"entity_type": "user", "entity_name": user}], "ops": [change]}],
        "validate_only": False,
    }
    answer = called(secured, "AlterClientQuotas", asked, 1)
    assert answer["entries"][0]["error_code"] == 0, answer
    components = [{"entity_type": "user", "match_type": 0, "match": user}]
    until("the quota is told", lambda: bool(called(
        secured, "DescribeClientQuotas", {"components": components, "strict": True}, 1
    )["entries"]) == (value is not None))  # fmt: skip


def test_produce_response_has_the_throttle_time_when_a_quota_is_exceeded(
    kafka: Secured, request: pytest.FixtureRequest, name: str
) -> None:
    def told(secured: Secured) -> int:
        topic, user = make_topic(secured, name), f"slow-{name}"
        secured.add_scram_users(user)
        for operation in ("WRITE", "DESCRIBE"):  # DESCRIBE is added last
            add(secured, entry(user, operation, topic, ALLOW))
        set_quota(secured, user, "producer_byte_rate", 1000.0)
        connection = until(
            "the user may enter", lambda: secured.connect("SASL_SSL", "SCRAM-SHA-512", user)
        )
        # A rejected Produce would also count against the quota.
        until("it may see the topic", lambda: may_see(connection, topic))
        answer = until("it may write", lambda: _taken(produce(connection, topic, b"x" * 30_000)))
        connection.close()
        set_quota(secured, user, "producer_byte_rate", None)
        throttle_ms: int = answer["throttle_time_ms"]
        return throttle_ms

    waits = on_each(kafka, request, told)

    # 30,000 bytes and the rest of the frame, at 1,000 bytes/s, less a window of 10 s.
    assert all(20_000 <= each <= 20_400 for each in waits), waits


def may_see(connection: Connection, topic: str) -> bool:
    asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    [found] = connection.call("Metadata", asked, version=4)["topics"]
    return bool(found["error_code"] == 0)


def _taken(answer: dict[str, Any]) -> dict[str, Any] | None:
    code = answer["responses"][0]["partition_responses"][0]["error_code"]
    return None if code else answer


def test_create_topics_above_a_mutation_quota_is_rejected_or_throttled(
    kafka: Secured, request: pytest.FixtureRequest, name: str
) -> None:
    def created(secured: Secured, version: int, stem: str, user: str) -> tuple[list[int], bool]:
        topics = [
            {"name": f"{TOPICS}{name}-{stem}-{number}", "num_partitions": 1,
             "replication_factor": 1}
            for number in range(MUTATED_TOPICS)
        ]  # fmt: skip
        connection = secured.connect("SASL_SSL", "SCRAM-SHA-512", user)
        answer = connection.call(
            "CreateTopics", {"topics": topics, "timeout_ms": 20_000}, version=version
        )
        connection.close()
        codes = sorted(topic["error_code"] for topic in answer["topics"])
        return codes, answer["throttle_time_ms"] > 0

    def told(secured: Secured) -> list[Any]:
        heard = []
        for version in (6, 5):
            user = f"{name}-{version}"
            secured.add_scram_users(user)
            creation = entry(user, "CREATE", f"{TOPICS}{name}", ALLOW)
            add(secured, {**creation, "resource_pattern_type": 4})
            set_quota(secured, user, "controller_mutation_rate", 0.2)
            until("the user may enter", lambda user=user: secured.connect(
                "SASL_SSL", "SCRAM-SHA-512", user).close() or True)  # fmt: skip
            heard.append(created(secured, version, f"v{version}", user))
        return heard

    answers = on_each(kafka, request, told)

    strict, permissive = answers[0]
    assert set(strict[0]) == {0, 89}
    assert permissive == ([0] * MUTATED_TOPICS, True)
    assert answers[1:] == answers[:1] * (len(answers) - 1)
