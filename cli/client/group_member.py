"""A minimal consumer group member with range assignment, heartbeats and commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cli import clock
from cli.client.cluster import Cluster
from cli.client.offsets_at import Partition
from cli.errors import refused
from client.connection import Value
from protocol import errors
from protocol.consumer_protocol import (
    assigned_partitions,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)

SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 30_000
HEARTBEAT_S = 3.0
_REJOIN = {
    errors.REBALANCE_IN_PROGRESS,
    errors.ILLEGAL_GENERATION,
    errors.UNKNOWN_MEMBER_ID,
    errors.MEMBER_ID_REQUIRED,
}
_FIND_AGAIN = {errors.NOT_COORDINATOR, errors.COORDINATOR_NOT_AVAILABLE}
_WAIT = {errors.COORDINATOR_LOAD_IN_PROGRESS}


def range_assignment(
    members: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, dict[str, list[int]]]:
    """Returns the partitions of each member and topic: contiguous ranges, as in Kafka's range
    assignor."""
    assigned: dict[str, dict[str, list[int]]] = {member: {} for member in members}
    for topic, count in sorted(partition_counts.items()):
        subscribers = sorted(member for member, topics in members.items() if topic in topics)
        if not subscribers:
            continue
        share, extra = divmod(count, len(subscribers))
        start = 0
        for position, member in enumerate(subscribers):
            size = share + (position < extra)
            if size:
                assigned[member][topic] = list(range(start, start + size))
            start += size
    return assigned


class GroupMember:
    """One member. Callers `join`, then regularly call `beat` and `commit`, and finally `leave`."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Sequence[str]) -> None:
        self.cluster, self.group_id, self.topics = cluster, group_id, list(topics)
        self.member_id = ""
        self.generation_id = -1
        self.assigned: list[Partition] = []
        self._stored: dict[Partition, int] = {}
        """The offsets that were committed last, for the assigned partitions."""
        self._beaten_s = 0.0

    def _call(self, name: str, value: Value) -> Value:
        coordinator = self.cluster.coordinator(self.group_id)
        return coordinator.call(name, {"group_id": self.group_id, **value}, 60)

    def join(self) -> list[Partition]:
        """Joins the group. Repeats this while the group rebalances. Returns the assigned
        partitions."""
        while True:
            code = self._join_once()
            if code == errors.NONE:
                self._beaten_s = clock.monotonic_s()
                return self.assigned
            if code == errors.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            elif code in _FIND_AGAIN | _WAIT:
                clock.sleep(0.1)
            elif code not in _REJOIN:
                raise refused(f"joining group {self.group_id}", code)

    def _join_once(self) -> int:
        subscription = encode_subscription(self.topics)
        answer = self._call(
            "JoinGroup",
            {
                "session_timeout_ms": SESSION_TIMEOUT_MS,
                "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
                "member_id": self.member_id,
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": subscription}],
            },
        )
        if answer["error_code"]:
            if answer["error_code"] == errors.MEMBER_ID_REQUIRED:
                self.member_id = answer["member_id"]
            return int(answer["error_code"])
        self.member_id, self.generation_id = answer["member_id"], answer["generation_id"]
        assignments = []
        if answer["leader"] == self.member_id:
            assignments = self._assign(answer["members"])
        synced = self._call(
            "SyncGroup",
            {
                "generation_id": self.generation_id,
                "member_id": self.member_id,
                "protocol_type": "consumer",
                "protocol_name": answer["protocol_name"],
                "assignments": assignments,
            },
        )
        if not synced["error_code"]:
            owned = assigned_partitions(bytes(synced["assignment"]))
            self.assigned = sorted((topic, p) for topic, ps in owned.items() for p in ps)
            self._stored = {}
        return int(synced["error_code"])

    def _assign(self, members: list[Value]) -> list[Value]:
        subscriptions = {m["member_id"]: subscribed_topics(bytes(m["metadata"])) for m in members}
        topics = sorted({topic for wanted in subscriptions.values() for topic in wanted})
        counts = {
            topic["name"]: len(topic["partitions"])
            for topic in self.cluster.metadata(topics)["topics"]
            if not topic["error_code"]
        }
        assigned = range_assignment(subscriptions, counts)
        return [
            {"member_id": member, "assignment": encode_assignment(owned)}
            for member, owned in assigned.items()
        ]

    def beat(self) -> bool:
        """Sends a heartbeat if HEARTBEAT_S seconds have passed. Returns False if the member must
        rejoin."""
        if clock.monotonic_s() - self._beaten_s < HEARTBEAT_S:
            return True
        self._beaten_s = clock.monotonic_s()
        return self._accepted("Heartbeat", self._call("Heartbeat", self._identity())["error_code"])

    def _identity(self) -> Value:
        return {
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": None,
        }

    def _accepted(self, what: str, code: int) -> bool:
        if code in _REJOIN or code in _FIND_AGAIN:
            return False
        if code and code not in _WAIT:
            raise refused(f"{what} of group {self.group_id}", code)
        return True

    def commit(self, positions: Mapping[Partition, int]) -> bool:
        """Commits the positions of assigned partitions. Returns False if the member must rejoin.
        Unchanged positions are not committed, so that an idle consumer writes nothing."""
        topics: dict[str, list[Value]] = {}
        for topic, partition in self.assigned:
            position = positions.get((topic, partition))
            if position is not None and position != self._stored.get((topic, partition)):
                entry = {
                    "partition_index": partition,
                    "committed_offset": position,
                    "committed_metadata": "",
                }
                topics.setdefault(topic, []).append(entry)
        if not topics:
            return True
        request = {
            "generation_id_or_member_epoch": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": entries} for topic, entries in topics.items()],
        }
        answer = self._call("OffsetCommit", request)
        accepted = True
        for topic in answer["topics"]:
            for answered in topic["partitions"]:
                key, code = (topic["name"], answered["partition_index"]), answered["error_code"]
                accepted = self._accepted("commit", code) and accepted
                if not code:
                    self._stored[key] = positions[key]
        return accepted

    def committed(self) -> dict[Partition, int]:
        """Returns the group's committed offsets of the assigned partitions."""
        topics: dict[str, list[int]] = {}
        for topic, partition in self.assigned:
            topics.setdefault(topic, []).append(partition)
        asked = [{"name": topic, "partition_indexes": ps} for topic, ps in topics.items()]
        answer = self._call(
            "OffsetFetch",
            {
                "topics": asked,
                "groups": [{"group_id": self.group_id, "topics": asked}],
                "require_stable": True,
            },
        )
        group = answer["groups"][0] if answer["groups"] else answer
        if group["error_code"]:
            raise refused(f"offsets of group {self.group_id}", group["error_code"])
        self._stored = {
            (topic["name"], p["partition_index"]): p["committed_offset"]
            for topic in group["topics"]
            for p in topic["partitions"]
            if p["committed_offset"] >= 0
        }
        return dict(self._stored)

    def leave(self) -> None:
        """Leaves the group, so that the group rebalances at once instead of after the session
        timeout."""
        member = {"member_id": self.member_id, "group_instance_id": None}
        self._call("LeaveGroup", {"member_id": self.member_id, "members": [member]})
