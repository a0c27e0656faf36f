"""Stores what the clients of a trace know from the responses of one broker, and builds the requests
that they send to this broker.

The module uses no sockets and no clock. Generated member ids get names after the client that
received them: "c0#1" is the first id of client 0. With these names, the responses of two brokers
can be compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from protocol.consumer_protocol import encode_subscription
from tests.interop.differential.trace import Actor, Step, Trace

UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID = -1, 25, 79, 82
STRANGER = "stranger-00000000-0000-0000-0000-000000000000"
NO_SUCH_TOPIC_ID = bytes(range(16))
LONG_METADATA = "x" * 4097
_MADE_UP = re.compile(r"^(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


@dataclass
class Known:
    """The values that one client has learned from its responses."""

    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    stale: list[str] = field(default_factory=list)

    def forget_id(self) -> None:
        if self.member_id:
            self.stale.append(self.member_id)
        self.member_id = ""


class Knowledge:
    """The facts that the clients of one trace have learned from one broker. ``group`` is the id of
    the main group."""

    def __init__(self, trace: Trace, group: str, topic_ids: dict[str, bytes]) -> None:
        self.actors = trace.actors
        self.group = group
        self.known = [Known() for _ in trace.actors]
        self.names: dict[str, str] = {"": "", STRANGER: "stranger"}
        self.protocols_of: dict[str, list[str]] = {}
        """The protocols in the last JoinGroup of each member, in order of preference. The key is
        the name of the member."""
        self.instance_of: dict[str, str | None] = {}
        """The instance id in the last JoinGroup of each member. The key is the name of the member.
        """
        self.topics_of: dict[str, set[str]] = {}
        """By instance id: the topics of all protocols in the last JoinGroup with this id."""
        self.came_with_other_topics = False
        """True if the last answered JoinGroup subscribes to other topics than the previous
        JoinGroup with the same instance id."""
        self.leader = ""
        """The name of the leader in the last JoinGroup response."""
        self.leader_gone = False
        """True if the previous leader is not a member of the current generation."""
        self.members: list[str] = []
        """The names of the members in the last JoinGroup response of a leader."""
        self._topic_ids = {**topic_ids, "nope": NO_SUCH_TOPIC_ID}
        self.topic_names = {id_: name for name, id_ in self._topic_ids.items()}

    # ------------------------------------------------------------------------------ requests

    def group_id(self, word: str) -> str:
        """Returns the group id for a word: "main", "empty", or "ghost", which is a group that never
        existed."""
        return {"main": self.group, "ghost": f"{self.group}-ghost", "empty": ""}[word]

    def _member(self, actor: Actor, word: str) -> str:
        known = self.known[actor.index]
        if word.startswith("c"):
            return self.known[int(word[1:])].member_id
        if word == "stale":
            return known.stale[-1] if known.stale else STRANGER
        return {"self": known.member_id, "none": "", "stranger": STRANGER}[word]

    def _instance(self, actor: Actor, word: str) -> str | None:
        if word.startswith("c"):
            return self.actors[int(word[1:])].instance_id
        return {"own": actor.instance_id, "none": None, "stranger": "nobody"}[word]

    def _generation(self, actor: Actor, word: str) -> int:
        own = self.known[actor.index].generation
        return {"own": own, "next": max(own, 0) + 1, "previous": max(own - 1, 0), "none": -1}[word]

    def request(self, step: Step, version: int) -> dict[str, Any]:
        """Returns the request that ``step`` sends to this broker, as a value for the codec of
        ``version``."""
        actor = self.actors[step.actor]
        says = step.says
        made: dict[str, Any] = getattr(self, "_make_" + step.api)(actor, says, version, step)
        if "group" in says or step.api in _NAMES_ONE_GROUP:
            made["group_id"] = self.group_id(says.get("group", "main"))
        return made

    def _make_JoinGroup(self, actor: Actor, says: Any, version: int, step: Step) -> dict[str, Any]:
        made = {
            "session_timeout_ms": says["session_ms"],
            "member_id": self._member(actor, says["member"]),
            "protocol_type": says["type"],
            "protocols": [
                {"name": name, "metadata": encode_subscription([t for t in topics.split(",") if t])}
                for name, topics in says["protocols"]
            ],
        }
        if version >= 1:
            made["rebalance_timeout_ms"] = says["rebalance_ms"]
        if version >= 5:
            made["group_instance_id"] = self._instance(actor, says["instance"])
        if version >= 8:
            made["reason"] = says["reason"]
        return made

    def _make_SyncGroup(self, actor: Actor, says: Any, version: int, step: Step) -> dict[str, Any]:
        known = self.known[actor.index]
        ids = sorted((k.member_id for k in self.known if k.member_id), key=self.name)
        if says["assign"] == "none":
            ids = []
        elif says["assign"] == "partial":
            ids = ids[1:]
        elif says["assign"] == "extra":
            ids = [*ids, STRANGER]
        made: dict[str, Any] = {
            "generation_id": self._generation(actor, says["generation"]),
            "member_id": self._member(actor, says["member"]),
            "assignments": [
                {"member_id": id_, "assignment": f"{self.name(id_)} of {actor.index}".encode()}
                for id_ in ids
            ],
        }
        if version >= 3:
            made["group_instance_id"] = self._instance(actor, says["instance"])
        if version >= 5:
            made["protocol_type"] = _word(says["type"], known.protocol_type or "consumer")
            made["protocol_name"] = _word(says["name"], known.protocol_name or "range")
        return made

    def _make_Heartbeat(self, actor: Actor, says: Any, version: int, step: Step) -> dict[str, Any]:
        made: dict[str, Any] = {
            "generation_id": self._generation(actor, says["generation"]),
            "member_id": self._member(actor, says["member"]),
        }
        if version >= 3:
            made["group_instance_id"] = self._instance(actor, says["instance"])
        return made

    def _make_LeaveGroup(self, actor: Actor, says: Any, version: int, step: Step) -> dict[str, Any]:
        leavers: list[tuple[str, str | None]] = []
        for index, member, instance in says["members"]:
            who = self.actors[index]
            if member == "all stale":
                leavers += [(id_, None) for id_ in self.known[index].stale]
            else:
                leavers.append((self._member(who, member), self._instance(who, instance)))
        if version < 3:
            return {"member_id": leavers[0][0] if leavers else ""}
        reason = {"reason": says["reason"]} if version >= 5 else {}
        return {
            "members": [
                {"member_id": id_, "group_instance_id": instance, **reason}
                for id_, instance in leavers
            ]
        }

    def _make_OffsetCommit(
        self, actor: Actor, says: Any, version: int, step: Step
    ) -> dict[str, Any]:
        topics = []
        for name, positions in says["topics"]:
            partitions = []
            for partition, offset, epoch, text in positions:
                made: dict[str, Any] = {
                    "partition_index": partition,
                    "committed_offset": offset,
                    "committed_metadata": LONG_METADATA if text == "long" else text,
                }
                if version >= 6:
                    made["committed_leader_epoch"] = epoch
                partitions.append(made)
            topics.append({**self._topic(name, version), "partitions": partitions})
        made = {
            "generation_id_or_member_epoch": self._generation(actor, says["generation"]),
            "member_id": self._member(actor, says["member"]),
            "topics": topics,
        }
        if 2 <= version <= 4:
            made["retention_time_ms"] = says["retention_ms"]
        if version >= 7:
            made["group_instance_id"] = self._instance(actor, says["instance"])
        return made

    def _topic(self, name: str, version: int) -> dict[str, Any]:
        return {"topic_id": self._topic_ids[name]} if version >= 10 else {"name": name}

    def _make_OffsetFetch(
        self, actor: Actor, says: Any, version: int, step: Step
    ) -> dict[str, Any]:
        topics = says["topics"]
        if topics is not None:
            topics = [
                {**self._topic(name, version), "partition_indexes": partitions}
                for name, partitions in topics
            ]
        groups = [self.group_id(word) for word in says["groups"]]
        made: dict[str, Any] = {}
        if version >= 8:
            made["groups"] = [{"group_id": group, "topics": topics} for group in groups]
        else:
            made.update(group_id=groups[0], topics=topics)
        if version >= 7:
            made["require_stable"] = says["stable"]
        return made

    def _make_DescribeGroups(
        self, actor: Actor, says: Any, version: int, step: Step
    ) -> dict[str, Any]:
        made: dict[str, Any] = {"groups": [self.group_id(word) for word in says["groups"]]}
        if version >= 3:
            made["include_authorized_operations"] = says["ops"]
        return made

    def _make_ListGroups(self, actor: Actor, says: Any, version: int, step: Step) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if version >= 4:
            made["states_filter"] = says["states"]
        if version >= 5:
            made["types_filter"] = says["types"]
        return made

    def _make_DeleteGroups(
        self, actor: Actor, says: Any, version: int, step: Step
    ) -> dict[str, Any]:
        return {"groups_names": [self.group_id(word) for word in says["groups"]]}

    def _make_OffsetDelete(
        self, actor: Actor, says: Any, version: int, step: Step
    ) -> dict[str, Any]:
        return {
            "topics": [
                {"name": name, "partitions": [{"partition_index": p} for p in partitions]}
                for name, partitions in says["topics"]
            ]
        }

    def _make_FindCoordinator(
        self, actor: Actor, says: Any, version: int, step: Step
    ) -> dict[str, Any]:
        keys = [self.group_id(word) for word in says["groups"]]
        made: dict[str, Any] = {"coordinator_keys": keys} if version >= 4 else {"key": keys[0]}
        if version >= 1:
            made["key_type"] = 0
        return made

    # ------------------------------------------------------------------------------- answers

    def name(self, member_id: str) -> str:
        """Returns the name of a member id. If no client received the id, the name comes from the
        client id that the member id contains."""
        found = self.names.get(member_id)
        if found is not None:
            return found
        made_up = _MADE_UP.match(member_id)
        return f"{made_up[1]}#?" if made_up else member_id

    def learn(self, step: Step, sent: dict[str, Any], answer: dict[str, Any]) -> None:
        """Updates the knowledge from the response to a step. ``sent`` is the request of the
        step."""
        known = self.known[step.actor]
        if step.api == "JoinGroup":
            self._learn_join(known, step, sent, answer)
        elif step.api == "LeaveGroup":
            self._learn_leave(answer, sent)
        elif step.api in ("SyncGroup", "Heartbeat") and sent["member_id"] == known.member_id:
            right = step.says["generation"] == "own" and step.says["instance"] == "own"
            if right and answer["error_code"] in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID):
                known.forget_id()

    def _learn_join(self, known: Known, step: Step, sent: Any, answer: Any) -> None:
        code, member_id = answer["error_code"], answer["member_id"]
        was_right = step.says["member"] == "self" and step.says["instance"] == "own"
        if code in (0, MEMBER_ID_REQUIRED):
            if member_id not in self.names:
                count = sum(name.startswith(f"c{step.actor}#") for name in self.names.values())
                self.names[member_id] = f"c{step.actor}#{count + 1}"
            if member_id != known.member_id:
                known.forget_id()
                known.member_id = member_id
        elif was_right and code in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNKNOWN_SERVER_ERROR):
            known.forget_id()
        if code == 0:
            self.came_with_other_topics = self.has_other_topics(step, sent)
            name = self.names[member_id]
            # A static member that rejoins by a version without instance ids remains static.
            instance = sent.get("group_instance_id") or self.instance_of.get(name)
            self.instance_of[name] = instance
            if instance:
                self.topics_of[instance] = _topics(step)
            self.protocols_of[self.names[member_id]] = [name for name, _ in step.says["protocols"]]
            known.generation = answer["generation_id"]
            known.protocol_name = answer["protocol_name"]
            known.protocol_type = answer["protocol_type"]

    def has_other_topics(self, step: Step, sent: dict[str, Any]) -> bool:
        """Returns True if a JoinGroup subscribes to other topics than the previous JoinGroup with
        the same instance id."""
        before = self.topics_of.get(sent.get("group_instance_id") or "")
        return before is not None and before != _topics(step)

    def learn_generation(self, joins: list[dict[str, Any]]) -> None:
        """Updates leader and members from the successful JoinGroup responses of one step."""
        for answer in joins:
            if answer["members"]:
                self.members = [self.name(member["member_id"]) for member in answer["members"]]
        if joins:
            leader = self.name(joins[-1]["leader"])
            self.leader_gone = not any(self._same_member(self.leader, m) for m in self.members)
            self.leader = leader

    def _same_member(self, name: str, other: str) -> bool:
        """Returns True if two names stand for the same member. A static member can have several
        member ids."""
        instance = self.instance_of.get(name)
        return name == other or (instance is not None and instance == self.instance_of.get(other))

    def offers(self) -> list[list[str]]:
        """Returns the protocols of each member of the last generation, in the order of the
        members."""
        return [self.protocols_of[name] for name in self.members if name in self.protocols_of]

    def _learn_leave(self, answer: dict[str, Any], sent: dict[str, Any]) -> None:
        if answer["error_code"]:
            return
        gone = [m["member_id"] for m in answer["members"] if not m["error_code"]]
        if "member_id" in sent:
            gone.append(sent["member_id"])
        for known in self.known:
            if known.member_id and known.member_id in gone:
                known.forget_id()


def _topics(step: Step) -> set[str]:
    return {topics for _, topics in step.says["protocols"]}


def _word(word: str, own: str | None) -> str | None:
    return {"own": own, "wrong": "wrong", "null": None}[word]


_NAMES_ONE_GROUP = frozenset(
    {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetDelete"}
)
