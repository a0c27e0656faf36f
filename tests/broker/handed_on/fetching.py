"""Attempts to misuse a fetch session: by another principal than its creator, as a consumer instead
of a follower or the reverse, and after READ was revoked."""

from __future__ import annotations

from typing import Any

from protocol.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    TOPIC_AUTHORIZATION_FAILED,
)
from tests.broker.handed_on.scene import ALICE, BOB, Scene
from tests.broker.handed_on.table import Kind, Misuse, case
from tests.broker.topic_calls import fetch_request
from tests.waiting import until
from tests.wire import Wire, values_of

SECRET = b"secret"
VERSIONS = (7, 12, 15)
LONG_MS = 20_000


def fetch(
    wire: Wire, version: int, topic: Any = "", session: int = 0, epoch: int = 0, **fields: Any
) -> dict[str, Any]:
    """Sends a Fetch of ``topic``, or of the topics of the session if ``topic`` is empty. Returns
    the response."""
    return wire.call("Fetch", version, body(version, topic, session, epoch, **fields))


def body(
    version: int, topic: Any, session: int, epoch: int, replica: int = -1, **fields: Any
) -> dict[str, Any]:
    """Returns the body of a Fetch request for one topic. An empty ``topic`` gives a request without
    topics."""
    by_id = {"topic_id": topic} if isinstance(topic, bytes) else {}
    name = "" if isinstance(topic, bytes) else topic
    value = fetch_request(name, session_id=session, session_epoch=epoch, **by_id, **fields)
    if not topic:
        value["topics"] = []
    state = {"replica_id": replica, "replica_epoch": -1}
    return {**value, **({"replica_state": state} if version >= 15 else {"replica_id": replica})}


def summary(answer: dict[str, Any]) -> tuple[int, list[tuple[int, list[bytes | None]]]]:
    """Returns the error code of the response, and the error code and values of each partition."""
    entries = [each for topic in answer["responses"] for each in topic["partitions"]]
    return answer["error_code"], [(e["error_code"], values_of(e["records"])) for e in entries]


def key(scene: Scene, topic: str, version: int) -> Any:
    """Returns the topic name, or the topic id from version 13 on."""
    if version < 13:
        return topic
    found = scene.broker.registry.topic(topic)
    assert found is not None
    return found.topic_id


NOT_FOUND = (FETCH_SESSION_ID_NOT_FOUND, [])
DENIED = (NONE, [(TOPIC_AUTHORIZATION_FAILED, [])])
READ = (NONE, [(NONE, [SECRET])])


@case(Kind.FETCH_SESSION, Misuse.BY_ANOTHER)
def a_session_is_resumed_and_closed_by_its_principal_alone(scene: Scene) -> None:
    topic = scene.topic()
    for user in (ALICE, BOB):
        scene.grant(user, f"READ TOPIC {topic}")
    alice, bob = scene.both()
    for version in VERSIONS:
        mine = fetch(alice, version, key(scene, topic, version))["session_id"]
        assert mine
        scene.append(topic, SECRET)
        for epoch in (1, 2):
            assert summary(fetch(bob, version, "", mine, epoch)) == NOT_FOUND
        assert fetch(bob, version, key(scene, topic, version), mine, 0)["error_code"] == NONE
        assert fetch(bob, version, key(scene, topic, version), mine, -1)["error_code"] == NONE
        code, entries = summary(fetch(alice, version, "", mine, 1))
        assert (code, [values[-1:] for _, values in entries]) == (NONE, [[SECRET]])


@case(Kind.FETCH_SESSION, Misuse.BY_ANOTHER)
def a_principal_without_rights_reads_nothing_by_a_session_of_another(scene: Scene) -> None:
    topic = scene.topic()
    scene.grant(ALICE, f"READ TOPIC {topic}")
    alice, bob = scene.both()
    mine = fetch(alice, 12, topic)["session_id"]
    scene.append(topic, SECRET)
    assert summary(fetch(bob, 12, "", mine, 1)) == NOT_FOUND
    assert summary(fetch(bob, 12, topic, mine, 1)) == NOT_FOUND
    assert summary(fetch(alice, 12, "", mine, 1)) == READ


@case(Kind.FETCH_SESSION, Misuse.IN_ANOTHER_ROLE)
def a_denied_fetch_leaves_no_session(scene: Scene) -> None:
    topic = scene.topic(SECRET)
    alice = scene.logged_in(ALICE)
    sessions = scene.broker.server.services.fetch_sessions
    for version in VERSIONS:
        named = key(scene, topic, version)
        before = len(sessions)
        for replica in (1, -1, -2):
            answer = fetch(alice, version, named, replica=replica)
            assert summary(answer) == DENIED
            assert answer["session_id"] == 0
        assert len(sessions) == before


@case(Kind.FETCH_SESSION, Misuse.IN_ANOTHER_ROLE)
def a_consumers_session_is_not_resumed_as_a_broker(scene: Scene) -> None:
    topic = scene.topic()
    right = "CLUSTER_ACTION CLUSTER"
    scene.grant(ALICE, f"READ TOPIC {topic}", right)
    alice = scene.logged_in(ALICE)
    for version in VERSIONS:
        named = key(scene, topic, version)
        mine = fetch(alice, version, named)["session_id"]
        assert summary(fetch(alice, version, "", mine, 1, replica=1)) == NOT_FOUND
        opened = fetch(alice, version, named, replica=1)
        assert summary(opened) == (NONE, [(NOT_LEADER_OR_FOLLOWER, [])]), "no replicas here"
        assert opened["session_id"] == 0
        assert summary(fetch(alice, version, "", mine, 1))[0] == NONE
    scene.revoke(ALICE, right)


@case(Kind.FETCH_SESSION, Misuse.AFTER_REVOCATION)
def a_session_does_not_outlive_the_right_to_read(scene: Scene) -> None:
    topic = scene.topic()
    scene.grant(ALICE, f"READ TOPIC {topic}")
    alice = scene.logged_in(ALICE)
    mine = fetch(alice, 12, topic)["session_id"]
    scene.append(topic, SECRET)
    scene.revoke(ALICE, f"READ TOPIC {topic}")
    assert summary(fetch(alice, 12, "", mine, 1)) == DENIED
    scene.grant(ALICE, f"READ TOPIC {topic}")
    assert summary(fetch(alice, 12, "", mine, 2)) == READ


@case(Kind.FETCH_SESSION, Misuse.AFTER_REVOCATION)
def a_fetch_that_waits_does_not_outlive_the_right_to_read(scene: Scene) -> None:
    topic = scene.topic()
    alice = scene.logged_in(ALICE)
    waiting = scene.broker.server.services.long_polls
    for session in (False, True):
        scene.grant(ALICE, f"READ TOPIC {topic}")
        mine = fetch(alice, 12, topic, 0, 0 if session else -1)["session_id"]
        before = len(waiting)
        fields = {"max_wait_ms": LONG_MS, "min_bytes": 1}
        again = ("", mine, 1) if session else (topic, 0, -1)
        alice.send("Fetch", 12, body(12, *again, **fields))
        until("it waits", lambda before=before: len(waiting) > before)
        scene.revoke(ALICE, f"READ TOPIC {topic}")
        scene.append(topic, SECRET)
        assert summary(alice.receive()[1]) == DENIED
        scene.grant(ALICE, f"READ TOPIC {topic}")
        topic = scene.topic()
