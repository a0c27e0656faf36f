"""A Muster broker and an Apache Kafka 3.9.2 in one secured cluster.

The brokers log in to each other with SCRAM over TLS, repeatedly, because a SASL session lasts only
a few seconds. ACLs, credentials, quotas and tokens that one broker accepts must also apply on the
other broker.
"""

from __future__ import annotations

import re
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from client.connection import Connection
from client.errors import ClientError
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE, TOPIC_AUTHORIZATION_FAILED
from security.credentials import BY_NAME
from security.sasl.client_side import Credentials
from tests import waiting
from tests.cli.running import run
from tests.commits import commit
from tests.interop.cluster_failures import controller_moves_to
from tests.interop.secured_cluster import (
    BROKER,
    ITERATIONS,
    MECHANISM,
    PASSWORD,
    SecuredCluster,
    running_secured,
)
from tests.interop.zookeeper_cluster import KAFKA, MUSTER

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 37")]

M, K = 1, 2
TWO = {M: MUSTER, K: KAFKA}
TOPIC, PARTITIONS = "t", 4
SESSION_MS = 3000
SETTINGS = {
    "default.replication.factor": "2",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "connections.max.reauth.ms": str(SESSION_MS),
    "delegation.token.secret.key": "a key of the tests",
    "connection.failed.authentication.delay.ms": "20",
}
SOON_S = 10.0
RENEWED = r'^muster_authentication_total\{.*result="reauthentication_success".*\} (\S+)'
TOPICS, GROUPS = 2, 3
LITERAL, ALLOW, ALL = 3, 3, 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with running_secured(tmp_path_factory.mktemp("secured"), TWO, **SETTINGS) as running:
        running.create(TOPIC, PARTITIONS, 2)
        running.whole_s = time.monotonic()
        yield running


class Asked:
    """A connection to one broker on which a user is logged in."""

    def __init__(
        self, cluster: SecuredCluster, broker: int, user: str = BROKER, password: str = PASSWORD
    ) -> None:
        self._connection = cluster.logged_in(broker, Credentials(user, password))

    def __enter__(self) -> Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


class AskedByToken(Asked):
    """A connection to one broker that logs in with a delegation token."""

    def __init__(self, cluster: SecuredCluster, broker: int, token: dict[str, Any]) -> None:
        proof = b64encode(token["hmac"]).decode()
        self._connection = cluster.logged_in(
            broker, Credentials(token["token_id"], proof, by_token=True)
        )


def set_password(cluster: SecuredCluster, user: str, password: str) -> None:
    """Sets the SCRAM password of a user. Sends the request to the controller, because Kafka refuses
    it on other brokers."""
    mechanism, salt = BY_NAME[MECHANISM], f"salt of {user}".encode()
    wanted = {
        "name": user,
        "mechanism": mechanism.code,
        "iterations": ITERATIONS,
        "salt": salt,
        "salted_password": mechanism.salted_password(password.encode(), salt, ITERATIONS),
    }
    with Asked(cluster, cluster.controller()) as connection:
        answer = connection.call(
            "AlterUserScramCredentials", {"deletions": [], "upsertions": [wanted]}
        )
    assert [each["error_code"] for each in answer["results"]] == [NONE], answer


def allow(cluster: SecuredCluster, broker: int, user: str, kind: int, name: str) -> None:
    """Sends an ACL to ``broker`` that allows a user all operations on a resource."""
    creation = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": f"User:{user}",
        "host": "*",
        "operation": ALL,
        "permission_type": ALLOW,
    }
    with Asked(cluster, broker) as connection:
        answer = connection.call("CreateAcls", {"creations": [creation]})
    assert [each["error_code"] for each in answer["results"]] == [NONE], answer


def disallow(cluster: SecuredCluster, broker: int, user: str) -> int:
    """Removes all ACLs of a user through ``broker``. Returns how many were removed."""
    wanted = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": f"User:{user}",
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    with Asked(cluster, broker) as connection:
        [found] = connection.call("DeleteAcls", {"filters": [wanted]})["filter_results"]
    assert {each["error_code"] for each in found["matching_acls"]} == {NONE}, found
    return len(found["matching_acls"])


def topic_error(cluster: SecuredCluster, broker: int, user: str) -> int:
    """Returns the error code of a topic in the Metadata response of ``broker`` to the user."""
    with Asked(cluster, broker, user, user) as connection:
        asked = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
        [topic] = connection.call("Metadata", asked, version=4)["topics"]
    return int(topic["error_code"])


def logs_in(cluster: SecuredCluster, broker: int, user: str) -> bool:
    with Asked(cluster, broker, user, user):
        return True


def produced(cluster: SecuredCluster, user: str) -> dict[int, int]:
    """Produces a record to each partition with acks=all. Returns the offsets."""
    producer = Producer(cluster.client(user, user, acks="all"))
    offsets: dict[int, int] = {}
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is None:
            offsets[message.partition()] = message.offset()
        else:
            failed.append(error)

    for partition in range(PARTITIONS):
        producer.produce(TOPIC, user.encode(), partition=partition, on_delivery=delivered)
    assert producer.flush(30) == 0
    if failed:
        raise KafkaException(failed[0])
    return offsets


def consumed(cluster: SecuredCluster, user: str, group: str, count: int) -> list[bytes]:
    """Joins a group and reads ``count`` records. Returns the values of the records."""
    consumer = Consumer(
        cluster.client(user, user, **{"group.id": group, "auto.offset.reset": "earliest"})
    )
    found: list[bytes] = []
    consumer.subscribe([TOPIC])
    try:

        def read() -> bool:
            for message in consumer.consume(count, 0.5):
                if message.error():
                    raise KafkaException(message.error())
                found.append(message.value())
            return len(found) >= count

        waiting.until("all is read", read, 30)
        commit(consumer, {(TOPIC, 0): 1})
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("controller", [M, K], ids=["Muster", "Kafka"])
def test_acls_created_at_one_broker_apply_at_the_other_broker(
    cluster: SecuredCluster, controller: int
) -> None:
    controller_moves_to(cluster, controller)
    user = f"user-{controller}"
    other = M + K - controller
    set_password(cluster, user, user)
    for broker in TWO:
        waiting.until("the user logs in", lambda b=broker: logs_in(cluster, b, user), SOON_S)
        assert topic_error(cluster, broker, user) == TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as denied:
        produced(cluster, user)
    assert denied.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    began_s = time.monotonic()
    allow(cluster, other, user, TOPICS, TOPIC)
    allow(cluster, controller, user, GROUPS, f"g-{user}")
    for broker in TWO:
        waiting.until(
            "the user may", lambda b=broker: topic_error(cluster, b, user) == NONE, SOON_S
        )
    assert time.monotonic() - began_s < SOON_S
    leaders = {leader for leader, _ in cluster.partitions(TOPIC).values()}
    assert leaders == {M, K}
    offsets = produced(cluster, user)
    assert set(offsets) == set(range(PARTITIONS))
    assert user.encode() in consumed(cluster, user, f"g-{user}", sum(offsets.values()) + PARTITIONS)

    assert disallow(cluster, other, user) == 2
    for broker in TWO:
        waiting.until(
            "the user may no more",
            lambda b=broker: topic_error(cluster, b, user) == TOPIC_AUTHORIZATION_FAILED,
            SOON_S,
        )


@pytest.mark.parametrize("setter", [M, K], ids=["Muster", "Kafka"])
def test_quota_set_at_one_broker_is_described_by_the_other_broker(
    cluster: SecuredCluster, setter: int
) -> None:
    entity = [{"entity_type": "user", "entity_name": f"quoted {setter}"}]
    operation = {"key": "producer_byte_rate", "value": 1024.0, "remove": False}
    with Asked(cluster, setter) as connection:
        answer = connection.call(
            "AlterClientQuotas",
            {"entries": [{"entity": entity, "ops": [operation]}], "validate_only": False},
        )
        assert [each["error_code"] for each in answer["entries"]] == [NONE], answer
    component = {"entity_type": "user", "match_type": 0, "match": f"quoted {setter}"}

    def known(broker: int) -> bool:
        with Asked(cluster, broker) as connection:
            found = connection.call(
                "DescribeClientQuotas", {"components": [component], "strict": True}
            )
        assert found["error_code"] == NONE, found
        return [each["values"] for each in found["entries"]] == [
            [{"key": "producer_byte_rate", "value": 1024.0}]
        ]

    for broker in TWO:
        waiting.until("the quota is known", lambda b=broker: known(b), SOON_S)


@pytest.mark.parametrize("maker", [M, K], ids=["Muster", "Kafka"])
def test_token_issued_by_one_broker_is_accepted_by_both_brokers(
    cluster: SecuredCluster, maker: int
) -> None:
    other = K if maker == M else M
    everybody = {"owners": None}
    with Asked(cluster, maker) as connection:
        asked = {"owner_principal_name": None, "renewers": [], "max_lifetime_ms": 600_000}
        made = connection.call("CreateDelegationToken", asked, version=3)
        assert made["error_code"] == NONE, made

    def told(broker: int) -> dict[str, Any] | None:
        with Asked(cluster, broker) as connection:
            found = connection.call("DescribeDelegationToken", everybody, version=3)["tokens"]
        return next((each for each in found if each["token_id"] == made["token_id"]), None)

    for broker in TWO:
        one = waiting.until("the token is known", lambda b=broker: told(b), SOON_S)
        assert one["hmac"] == made["hmac"], "both have the same secret key"
        assert one["expiry_timestamp"] == made["expiry_timestamp_ms"]
        with AskedByToken(cluster, broker, made) as connection:
            asked = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
            [topic] = connection.call("Metadata", asked, version=4)["topics"]
            assert topic["error_code"] == NONE, "its owner may do everything"
    with Asked(cluster, other) as connection:
        period = {"hmac": made["hmac"], "renew_period_ms": 60_000}
        renewed = connection.call("RenewDelegationToken", period, version=2)
        assert renewed["error_code"] == NONE, renewed
    waiting.until(
        "the other end is known",
        lambda: told(maker)["expiry_timestamp"] == renewed["expiry_timestamp_ms"],
        SOON_S,
    )
    with Asked(cluster, other) as connection:
        at_once = {"hmac": made["hmac"], "expiry_time_period_ms": -1}
        assert connection.call("ExpireDelegationToken", at_once, version=2)["error_code"] == NONE
    waiting.until("it is gone", lambda: told(maker) is None, SOON_S)
    for broker in TWO:
        with pytest.raises(ClientError, match=" login of user "):
            AskedByToken(cluster, broker, made)


def test_inter_broker_request_of_a_user_is_rejected(cluster: SecuredCluster) -> None:
    set_password(cluster, "stranger", "stranger")
    stop = {"controller_id": M, "controller_epoch": 99, "broker_epoch": -1}
    for broker in TWO:
        waiting.until("the user logs in", lambda b=broker: logs_in(cluster, b, "stranger"), SOON_S)
        with Asked(cluster, broker, "stranger", "stranger") as connection:
            asked = {**stop, "delete_partitions": False, "topics": []}
            answer = connection.call("StopReplica", asked, version=2)
            assert answer["error_code"] == CLUSTER_AUTHORIZATION_FAILED, broker


def test_cluster_commands_query_all_brokers_of_a_secured_cluster(
    cluster: SecuredCluster, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.location={cluster.authority.certificate}\n"
        f"sasl.mechanism={MECHANISM}\n"
        f"sasl.username={BROKER}\nsasl.password={PASSWORD}\n"
    )

    def asked(*words: str) -> Any:
        at = ("-b", cluster.bootstrap, "--command-config", str(file))
        ran = run(*words, "--json", *at)
        assert ran.code == 0, ran.err
        return ran.json

    described = asked("cluster", "describe")
    assert [(each["broker"], each["down"]) for each in described["brokers"]] == [
        (M, False),
        (K, False),
    ]
    waiting.until("nothing is wrong", lambda: asked("cluster", "check")["faults"] == [], 60)
    assert asked("cluster", "why", f"{TOPIC}-0")["isr"]
    seen = asked("top", "--once", "--every", "0.05")
    assert TOPIC in {each["topic"] for each in seen["topics"]}


def test_replication_continues_when_broker_sessions_are_reauthenticated(
    cluster: SecuredCluster,
) -> None:
    """Each broker is a leader and a follower. A broker closes a connection whose SASL session is
    not renewed in time."""
    waiting.until(
        "some sessions are over",
        lambda: time.monotonic() - cluster.whole_s > 2.5 * SESSION_MS / 1000,
        30,
    )
    cluster.until_whole(TOPIC, len(TWO))
    lines = cluster.log(M).read_text().splitlines()
    lost = [each for each in lines if "closed the connection" in each or "lets" in each]
    assert lost == []
    metrics = urllib.request.urlopen(f"http://{cluster.http[M]}/metrics", timeout=10).read()
    renewed = re.search(RENEWED, metrics.decode(), re.M)
    assert renewed is not None
    assert float(renewed[1]) > 0
