"""Attempts to misuse a member id: by another principal, in another role than that in which it was
created, and after READ was revoked.

As in Kafka, every principal with READ on the group can use a member id, and administrators remove
members with LeaveGroup. The broker checks the right at each request.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from protocol.errors import (
    FENCED_INSTANCE_ID,
    GROUP_AUTHORIZATION_FAILED,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_MEMBER_ID,
)
from tests.broker.handed_on.scene import ALICE, Scene
from tests.broker.handed_on.table import Kind, Misuse, case
from tests.wire import Wire


class Member(NamedTuple):
    """The only member of a group."""

    group: str
    member_id: str
    generation: int
    instance: str


def joined(scene: Scene, wire: Wire, topic: str) -> Member:
    """Joins a static member to a new group that alice can read. Adds an ACL that allows alice to
    read the topic."""
    group, instance = scene.group(), scene.name("instance")
    scene.grant(ALICE, f"READ GROUP {group}", f"READ TOPIC {topic}")
    answer = wire.call("JoinGroup", 5, join(group, instance))
    assert answer["error_code"] == NONE
    member = Member(group, answer["member_id"], answer["generation_id"], instance)
    assert sync_error(wire, member) == NONE
    return member


def join(group: str, instance: str | None, member_id: str = "") -> dict[str, Any]:
    return {
        "group_id": group, "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000,
        "member_id": member_id, "group_instance_id": instance, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip


def member_fields(member: Member) -> dict[str, Any]:
    """Returns the fields that identify a member in most requests."""
    return {
        "group_id": member.group, "member_id": member.member_id,
        "generation_id": member.generation, "group_instance_id": member.instance,
    }  # fmt: skip


def sync_error(wire: Wire, member: Member) -> int:
    mine = [{"member_id": member.member_id, "assignment": b"mine"}]
    code: int = wire.call("SyncGroup", 3, {**member_fields(member), "assignments": mine})[
        "error_code"
    ]
    return code


def heartbeat_error(wire: Wire, member: Member) -> int:
    code: int = wire.call("Heartbeat", 3, member_fields(member))["error_code"]
    return code


def commit_error(wire: Wire, member: Member, topic: str) -> int:
    """Sends OffsetCommit. Returns the error code of the partition."""
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    about = member_fields(member)
    about["generation_id_or_member_epoch"] = about.pop("generation_id")
    asked = {**about, "topics": [{"name": topic, "partitions": partitions}]}
    answer = wire.call("OffsetCommit", 8, asked)
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def leave_error(wire: Wire, member: Member) -> int:
    """Sends LeaveGroup. Returns the error code of the response. If this code is 0, returns the
    error code of the member."""
    who = {"member_id": member.member_id, "group_instance_id": member.instance}
    answer = wire.call("LeaveGroup", 3, {"group_id": member.group, "members": [who]})
    code: int = answer["error_code"] or answer["members"][0]["error_code"]
    return code


def errors_of_every_use(wire: Wire, member: Member, topic: str) -> set[int]:
    """Sends every request that contains a member id, LeaveGroup last. Returns their error codes."""
    again = join(member.group, member.instance, member.member_id)
    return {
        heartbeat_error(wire, member),
        sync_error(wire, member),
        commit_error(wire, member, topic),
        wire.call("JoinGroup", 5, again)["error_code"],
        leave_error(wire, member),
    }


@case(Kind.MEMBER_ID, Misuse.BY_ANOTHER)
def a_member_id_is_of_no_use_without_a_right_to_the_group(scene: Scene) -> None:
    topic = scene.topic()
    alice, bob = scene.both()
    member = joined(scene, alice, topic)
    assert errors_of_every_use(bob, member, topic) == {GROUP_AUTHORIZATION_FAILED}
    assert heartbeat_error(alice, member) == NONE


@case(Kind.MEMBER_ID, Misuse.IN_ANOTHER_ROLE)
def a_member_id_is_of_its_group_and_instance_alone(scene: Scene) -> None:
    topic = scene.topic()
    alice = scene.logged_in(ALICE)
    one, other = joined(scene, alice, topic), joined(scene, alice, topic)
    assert errors_of_every_use(alice, one._replace(group=other.group), topic) == {
        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    } - {FENCED_INSTANCE_ID}  # fmt: skip
    crossed = other._replace(member_id=one.member_id)
    assert errors_of_every_use(alice, crossed, topic) == {FENCED_INSTANCE_ID}
    simple = one._replace(member_id="", generation=-1)
    assert commit_error(alice, simple._replace(instance=None), topic) == UNKNOWN_MEMBER_ID  # type: ignore[arg-type]
    assert heartbeat_error(alice, one) == heartbeat_error(alice, other) == NONE


@case(Kind.MEMBER_ID, Misuse.AFTER_REVOCATION)
def a_member_does_nothing_when_its_right_to_the_group_is_revoked(scene: Scene) -> None:
    topic = scene.topic()
    alice = scene.logged_in(ALICE)
    member = joined(scene, alice, topic)
    assert heartbeat_error(alice, member) == commit_error(alice, member, topic) == NONE
    scene.revoke(ALICE, f"READ TOPIC {topic}")
    assert heartbeat_error(alice, member) == NONE
    assert commit_error(alice, member, topic) == TOPIC_AUTHORIZATION_FAILED
    scene.revoke(ALICE, f"READ GROUP {member.group}")
    assert errors_of_every_use(alice, member, topic) == {GROUP_AUTHORIZATION_FAILED}
