"""Random sequences of requests of consumer groups (KIP-848). Two brokers get the same requests, and
their responses must be equal.

The member ids are chosen so that Kafka's hash order is alphabetical, like Muster's order. Then both
brokers assign the same partitions: with one topic by the uniform assignors, with several topics by
the range assignors. At the end, the records of the groups must be equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any

from offsets.consumer_codec import decode
from protocol.consumer_protocol import assigned_partitions, encode_subscription
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.wire import Wire

MEMBERS = tuple(f"m{number}" for number in range(1, 10))
"""Member ids. Kafka's hash maps iterate over them in this order."""
STATIC = {"m7": "i7", "m8": "i8"}
"""The instance id of each static member."""
TOPIC, OTHER = "t", "u"
PARTITIONS = 8
OFFSETS_TOPIC = "__consumer_offsets"
SESSION_MS = 45_000
Value = dict[str, Any]


class Side:
    """One of the two brokers that are compared: a connection to the broker, and the topic names by
    topic id."""

    def __init__(self, port: int) -> None:
        self.wire = Wire(port, "walker")
        self.names: dict[bytes, str] = {}

    def learn(self, *topics: str) -> None:
        asked = [{"topic_id": bytes(16), "name": name} for name in topics]
        for topic in self.wire.call("Metadata", 12, {"topics": asked})["topics"]:
            self.names[topic["topic_id"]] = topic["name"]

    @property
    def ids(self) -> dict[str, bytes]:
        return {name: topic_id for topic_id, name in self.names.items()}

    def named(self, assignment: Value | None) -> Any:
        """Returns an assignment with the names of the topics instead of their ids."""
        if assignment is None:
            return None
        return sorted(
            (self.names[each["topic_id"]], tuple(sorted(each["partitions"])))
            for each in assignment["topic_partitions"]
        )


class Walk:
    """A random sequence of requests for one group, and the state of the group's members. Two
    brokers receive the same requests. While both brokers return equal responses, one state
    describes the members on both brokers."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.group = f"walk-{seed}"
        self.assignor = "range" if seed % 3 == 2 else None
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        self.classic: dict[str, int] = {}

    def next(self) -> tuple[str, Callable[[Side], Any]]:
        """Returns a random step: its name, and a function that executes the step on one broker."""
        steps = (
            (14, self._join),
            (30, self._beat),
            (20, self._acknowledge),
            (5, self._leave),
            (5, self._wrong_epoch),
            (4, self._resubscribe),
            (6, self._commit),
            (4, self._fetch),
            (4, self._describe),
            (2, self._leave_for_a_while),
            (3, self._invalid),
            (2, self._list),
            (3, self._classic_join),
            (3, self._classic_sync),
            (3, self._classic_beat),
            (1, self._classic_leave),
        )
        weights = [weight for weight, _ in steps]
        (_, step) = self.random.choices(steps, weights)[0]
        return step()

    def _member(self) -> str:
        return self.random.choice(MEMBERS[:8])

    def _heartbeat(self, side: Side, member: str, epoch: int, **fields: Any) -> Any:
        owned = fields.pop("owned", None)
        partitions = None
        if owned is not None:
            partitions = [
                {"topic_id": side.ids[name], "partitions": list(numbers)} for name, numbers in owned
            ]
        value = {
            "group_id": self.group,
            "member_id": member,
            "member_epoch": epoch,
            "instance_id": STATIC.get(member),
            "topic_partitions": partitions,
            **fields,
        }
        reply = side.wire.call("ConsumerGroupHeartbeat", 1, value)
        assignment = side.named(reply["assignment"])
        if not reply["error_code"]:
            self.epochs[member] = reply["member_epoch"]
            if assignment is not None:
                self.owned[member] = assignment
            if epoch < 0:
                self.owned.pop(member, None)
        return reply["error_code"], reply["member_id"], reply["member_epoch"], assignment

    def _join(self) -> tuple[str, Callable[[Side], Any]]:
        member = self._member()
        if self.epochs.get(member, 0) > 0 and member in STATIC:
            return self._beat()  # Kafka refuses a static member's own retry (differences.md)
        # A new member without topics may get a target from Kafka, which keeps the type of the
        # subscriptions before it.
        names = self.random.choice([[TOPIC], [TOPIC], [TOPIC], ["absent"]])
        assignor = self.random.choice([None, None, None, "uniform"])
        if self.assignor is not None:
            names = self.random.choice([[TOPIC], [OTHER, TOPIC], [TOPIC, OTHER], [OTHER]])
            assignor = self.assignor
        more = {
            "rebalance_timeout_ms": 300_000,
            "subscribed_topic_names": names,
            "server_assignor": assignor,
            "owned": [],
        }
        return f"join {member} {names} {assignor}", lambda side: self._heartbeat(
            side, member, 0, **more
        )

    def _beat(self) -> tuple[str, Callable[[Side], Any]]:
        member = self._member()
        epoch = max(1, self.epochs.get(member, 1))
        return f"beat {member} {epoch}", lambda side: self._heartbeat(side, member, epoch)

    def _acknowledge(self) -> tuple[str, Callable[[Side], Any]]:
        member = self._member()
        epoch = max(1, self.epochs.get(member, 1))
        owned = self.owned.get(member, [])
        return f"owns {member} {epoch} {owned}", lambda side: self._heartbeat(
            side, member, epoch, owned=owned
        )

    def _leave(self) -> tuple[str, Callable[[Side], Any]]:
        member = self._member()
        return f"leave {member}", lambda side: self._heartbeat(side, member, -1)

    def _leave_for_a_while(self) -> tuple[str, Callable[[Side], Any]]:
        member = self.random.choice([*STATIC, "m1"])
        return f"leave {member} for a while", lambda side: self._heartbeat(side, member, -2)

    def _wrong_epoch(self) -> tuple[str, Callable[[Side], Any]]:
        member = self._member()
        epoch = max(1, self.epochs.get(member, 1) + self.random.choice([-2, -1, 1, 7]))
        owned = self.random.choice([None, [], self.owned.get(member, []), [(TOPIC, (0, 7))]])
        return f"epoch {member} {epoch} {owned}", lambda side: self._heartbeat(
            side, member, epoch, owned=owned
        )

    def _resubscribe(self) -> tuple[str, Callable[[Side], Any]]:
        member = self._member()
        epoch = max(1, self.epochs.get(member, 1))
        names = self.random.choice([[TOPIC], [], ["absent"]])
        return f"subscribe {member} {epoch} {names}", lambda side: self._heartbeat(
            side, member, epoch, subscribed_topic_names=names
        )

    def _invalid(self) -> tuple[str, Callable[[Side], Any]]:
        member, epoch = self._member(), self.random.choice([-3, 0, 1])
        fields = self.random.choice(
            [
                {"server_assignor": "none"},
                {"rack_id": " "},
                {"instance_id": ""},
                {"subscribed_topic_names": [TOPIC]},
                {"subscribed_topic_regex": "("},
            ]
        )
        return f"invalid {member} {epoch} {fields}", lambda side: self._heartbeat(
            side, member, epoch, **fields
        )

    def _commit(self) -> tuple[str, Callable[[Side], Any]]:
        member, version = self.random.choice([self._member(), self._member(), "m9"]), 8
        version += self.random.choice([0, 1])
        known = self.classic if member == "m9" else self.epochs
        epoch = known.get(member, 1) + self.random.choice([-1, 0, 0, 0, 1])
        partition = self.random.randrange(PARTITIONS)
        entry = {
            "partition_index": partition,
            "committed_offset": 1,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        value = {
            "group_id": self.group,
            "generation_id_or_member_epoch": epoch,
            "member_id": self.random.choice([member, member, member, ""]),
            "group_instance_id": None,
            "topics": [{"name": TOPIC, "partitions": [entry]}],
        }

        def step(side: Side) -> Any:
            reply = side.wire.call("OffsetCommit", version, value)
            return reply["topics"][0]["partitions"][0]["error_code"]

        return f"commit v{version} {value['member_id']!r} {epoch} {partition}", step

    def _fetch(self) -> tuple[str, Callable[[Side], Any]]:
        member = self.random.choice([self._member(), None, ""])
        epoch = self.random.choice([-1, self.epochs.get(member or "", 1)])
        if member is None:
            epoch = -1  # another epoch gets UNKNOWN_SERVER_ERROR from Kafka: a null key
        group = {
            "group_id": self.group,
            "member_id": member,
            "member_epoch": epoch,
            "topics": [{"name": TOPIC, "partition_indexes": list(range(PARTITIONS))}],
        }

        def step(side: Side) -> Any:
            value = {"groups": [group], "require_stable": False}
            (found,) = side.wire.call("OffsetFetch", 9, value)["groups"]
            offsets = [
                (part["partition_index"], part["committed_offset"])
                for topic in found["topics"]
                for part in topic["partitions"]
            ]
            return found["error_code"], sorted(offsets)

        return f"fetch {member!r} {epoch}", step

    def _describe(self) -> tuple[str, Callable[[Side], Any]]:
        return "describe", self.described

    def described(self, side: Side) -> Any:
        """Returns the group as ConsumerGroupDescribe and DescribeGroups return it."""
        ask = {"group_ids": [self.group], "include_authorized_operations": False}
        (group,) = side.wire.call("ConsumerGroupDescribe", 1, ask)["groups"]
        old = {"groups": [self.group], "include_authorized_operations": False}
        (classic,) = side.wire.call("DescribeGroups", 6, old)["groups"]
        members = [
            (
                each["member_id"],
                each["instance_id"],
                each["member_epoch"],
                each["client_id"],
                each["client_host"],
                sorted(each["subscribed_topic_names"]),
                each["subscribed_topic_regex"],
                side.named(each["assignment"]),
                side.named(each["target_assignment"]),
                each["member_type"],
            )
            for each in group["members"]
        ]
        return (
            group["error_code"],
            group["group_state"],
            group["group_epoch"],
            # 4.4 raises the epoch of the target when the last member leaves, 4.3.1 does not.
            group["assignment_epoch"] if members else None,
            group["assignor_name"],
            sorted(members),
            classic["error_code"],
            classic["group_state"],
            sorted(each["member_id"] for each in classic["members"]),
        )

    def _list(self) -> tuple[str, Callable[[Side], Any]]:
        types = self.random.choice([[], ["consumer"], ["classic"], ["Consumer", "x"]])
        states = self.random.choice([[], ["stable"], ["Empty", "reconciling"]])

        def step(side: Side) -> Any:
            value = {"states_filter": states, "types_filter": types}
            reply = side.wire.call("ListGroups", 5, value)
            return sorted(
                (each["group_id"], each["protocol_type"], each["group_state"], each["group_type"])
                for each in reply["groups"]
                if each["group_id"] == self.group
            )

        return f"list {types} {states}", step

    # -- classic members of a consumer group; a parked JoinGroup would block the connection

    def _is_consumer_group(self, side: Side) -> bool:
        ask = {"group_ids": [self.group], "include_authorized_operations": False}
        (group,) = side.wire.call("ConsumerGroupDescribe", 1, ask)["groups"]
        return any(each["member_type"] == 1 for each in group["members"])

    def _classic_join(self) -> tuple[str, Callable[[Side], Any]]:
        member = self.random.choice(["m9", "m9", ""])
        protocol_type = self.random.choice(["consumer", "consumer", "connect"])

        def step(side: Side) -> Any:
            if not self._is_consumer_group(side):
                return "not a consumer group"
            value = {
                "group_id": self.group,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": 300_000,
                "member_id": member,
                "group_instance_id": None,
                "protocol_type": protocol_type,
                "protocols": [{"name": "range", "metadata": encode_subscription([TOPIC])}],
                "reason": None,
            }
            reply = side.wire.call("JoinGroup", 9, value)
            if not reply["error_code"]:
                self.classic[member] = reply["generation_id"]
            shown = reply["member_id"] if member else bool(reply["member_id"])
            return (
                reply["error_code"],
                shown,
                reply["generation_id"],
                reply["protocol_type"],
                reply["protocol_name"],
                reply["leader"],
                reply["members"],
            )

        return f"classic join {member!r} {protocol_type}", step

    def _classic_sync(self) -> tuple[str, Callable[[Side], Any]]:
        generation = self.classic.get("m9", 1) + self.random.choice([0, 0, 0, 1])

        def step(side: Side) -> Any:
            if not self._is_consumer_group(side):
                return "not a consumer group"
            value = {
                "group_id": self.group,
                "generation_id": generation,
                "member_id": "m9",
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [],
            }
            reply = side.wire.call("SyncGroup", 5, value)
            assigned = assigned_partitions(bytes(reply["assignment"]))
            return reply["error_code"], {name: sorted(own) for name, own in assigned.items()}

        return f"classic sync {generation}", step

    def _classic_beat(self) -> tuple[str, Callable[[Side], Any]]:
        generation = self.classic.get("m9", 1) + self.random.choice([0, 0, 0, 1])

        def step(side: Side) -> Any:
            if not self._is_consumer_group(side):
                return "not a consumer group"
            value = {
                "group_id": self.group,
                "generation_id": generation,
                "member_id": self.random_member,
                "group_instance_id": None,
            }
            return side.wire.call("Heartbeat", 4, value)["error_code"]

        self.random_member = self.random.choice(["m9", "m9", "m1"])
        return f"classic beat {self.random_member} {generation}", step

    def _classic_leave(self) -> tuple[str, Callable[[Side], Any]]:
        leaver = self.random.choice([("m9", None), ("", "i7"), ("m2", None)])

        def step(side: Side) -> Any:
            if not self._is_consumer_group(side):
                return "not a consumer group"
            member = {"member_id": leaver[0], "group_instance_id": leaver[1], "reason": None}
            value = {"group_id": self.group, "members": [member]}
            reply = side.wire.call("LeaveGroup", 5, value)
            return reply["error_code"], [each["error_code"] for each in reply["members"]]

        return f"classic leave {leaver}", step


def group_records(side: Side, group: str) -> list[Any]:
    """Returns the records of a group in the offsets topic, with topic names and without
    timestamps."""
    found: list[Any] = []
    offset = 0
    while True:
        part = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        value = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": OFFSETS_TOPIC, "partitions": [part]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        reply = side.wire.call("Fetch", 12, value)
        data = bytes(reply["responses"][0]["partitions"][0]["records"] or b"")
        headers = [header for header, _ in iter_stored(data, partial=True)]
        if not headers:
            return _ordered(_without_last_targets(found))
        for header in headers:
            for record in records_of(data, header):
                decoded = decode(record.key or b"", record.value)
                if decoded is not None and decoded[0] == group:
                    found.append(_plain(decoded[1], side.names))
            offset = header.last_offset + 1


def _without_last_targets(records: list[Any]) -> list[Any]:
    """Returns the records without tombstones that only Kafka 4.4 writes. When the last member is
    removed, Kafka 4.4 writes a tombstone of the target epoch directly after the tombstone of the
    group epoch."""
    kept: list[Any] = []
    for each in records:
        names = [name for name, _, _ in kept[-2:]] + [each[0]]
        if names[1:] == ["EpochRecord", "TargetEpochRecord"] and kept[-2][2] is None:
            continue
        kept.append(each)
    return kept


def _ordered(records: list[Any]) -> list[Any]:
    """Returns the records, with adjacent target assignments sorted by member id. Kafka writes such
    assignments in hash order."""
    ordered: list[Any] = []
    for are_targets, neighbours in groupby(records, lambda each: bool(each[0] == "TargetRecord")):
        some = list(neighbours)
        ordered += sorted(some, key=itemgetter(1)) if are_targets else some
    return ordered


def _plain(record: Any, names: Mapping[bytes, str]) -> Any:
    """Returns a record as a tuple in which topic names replace topic ids, so that the records of
    two brokers can be compared."""
    value = record.value
    who = getattr(record, "member_id", getattr(record, "regex", None))
    return type(record).__name__, who, _without_ids(value, names)


def _without_ids(value: Any, names: Mapping[bytes, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _without_ids(each, names) for key, each in value.items()}
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None:
        left_out = ("metadata_hash", "timestamp_ms", "version")
        return {
            name: _without_ids(getattr(value, name), names)
            for name in fields
            if name not in left_out
        }
    return value


def differences(seed: int, ours: Side, theirs: Side, steps: int) -> list[str]:
    """Returns the first difference between the two brokers, or an empty list if they do not
    differ."""
    walk = Walk(seed)
    done: list[str] = []
    for _ in range(steps):
        name, step = walk.next()
        done.append(name)
        expected, found = step(theirs), step(ours)
        if found != expected:
            return [*done[-25:], f"Kafka:  {expected}", f"Muster: {found}"]
        time.sleep(0.001)
    expected, found = walk.described(theirs), walk.described(ours)
    if found != expected:
        return [*done[-25:], "describe", f"Kafka:  {expected}", f"Muster: {found}"]
    kafkas, musters = group_records(theirs, walk.group), group_records(ours, walk.group)
    for number, (one, other) in enumerate(zip(kafkas, musters, strict=False)):
        if one != other:
            return [*done, f"record {number}", f"Kafka:  {one}", f"Muster: {other}"]
    if len(kafkas) != len(musters):
        return [*done, f"Kafka wrote {len(kafkas)} records, Muster {len(musters)}"]
    return []
