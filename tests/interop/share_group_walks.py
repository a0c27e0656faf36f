"""Random sequences of requests of share groups (KIP-932). Two brokers get the same requests, and
their responses must be equal.

Kafka assigns partitions in hash order, so only the numbers of assigned partitions are compared.
There are fewer members than partitions, so that each partition has one member. At the end, the
records of the groups must be equal.

The walks avoid one case: if no member subscribes to a topic any more, Kafka keeps the topic in
targets (docs/internals/coordinator.md).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any

from offsets.share_codec import decode
from offsets.share_records import ShareRecord, StatePartitions, StatePartitionsRecord
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.interop.consumer_group_walks import OFFSETS_TOPIC, OTHER, PARTITIONS, TOPIC, Side
from tests.waiting import until

MEMBERS = tuple(f"m{number}" for number in range(1, 7))
Value = dict[str, Any]


class ShareSide:
    """One of the two brokers, and the records of one group in its log."""

    def __init__(self, side: Side, group: str) -> None:
        self.side = side
        self.group = group
        self.records: list[ShareRecord] = []
        self.held: dict[str, int | None] = {}
        """The number of partitions in the last assignment of each member."""
        self._offset = 0

    def call(self, api: str, version: int, value: Value) -> Value:
        return self.side.wire.call(api, version, value)

    def read(self) -> list[ShareRecord]:
        """Returns the records that were written since the last call."""
        while True:
            part = {
                "partition": 0,
                "current_leader_epoch": -1,
                "fetch_offset": self._offset,
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
            reply = self.call("Fetch", 12, value)
            data = bytes(reply["responses"][0]["partitions"][0]["records"] or b"")
            headers = [header for header, _ in iter_stored(data, partial=True)]
            if not headers:
                return self.records
            for header in headers:
                for record in records_of(data, header):
                    decoded = decode(record.key or b"", record.value)
                    if decoded is not None and decoded[0] == self.group:
                        self.records.append(decoded[1])
                self._offset = header.last_offset + 1

    def settle(self) -> None:
        until("the initialization of the partitions", self._is_settled)

    def _is_settled(self) -> bool:
        states = [each for each in self.read() if isinstance(each, StatePartitionsRecord)]
        return not states or states[-1].value is None or not states[-1].value.initializing


class ShareWalk:
    """A random sequence of requests of one group, which is sent to two brokers. ``epochs`` has the
    epoch of each member; it is the same on both brokers, since their responses must be equal."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.group = f"share-{seed}"
        self.names = [[TOPIC], [TOPIC], ["absent"] if seed % 2 else [OTHER, TOPIC]]
        self.epochs: dict[str, int] = {}

    def next(self) -> tuple[str, Callable[[ShareSide], Any]]:
        """Returns a random step: its name, and a function that executes the step on one broker."""
        steps = (
            (16, self._join),
            (50, self._beat),
            (6, self._leave),
            (6, self._wrong_epoch),
            (6, self._resubscribe),
            (4, self._invalid),
            (4, self._describe),
            (3, self._list),
            (3, self._other),
            (2, self._delete),
        )
        weights = [weight for weight, _ in steps]
        (_, step) = self.random.choices(steps, weights)[0]
        return step()

    def _heartbeat(self, side: ShareSide, member: str, epoch: int, **fields: Any) -> Any:
        value = {"group_id": self.group, "member_id": member, "member_epoch": epoch, **fields}
        reply = side.call("ShareGroupHeartbeat", 1, value)
        count = _count(reply["assignment"])
        if not reply["error_code"]:
            self.epochs[member] = reply["member_epoch"]
            if count is not None:
                side.held[member] = count
            side.settle()
        # A partition that a member lost and got again may be another one.
        is_new = None if reply["member_epoch"] != epoch else count is not None
        return (
            reply["error_code"],
            reply["error_message"],
            reply["member_id"],
            reply["member_epoch"],
            reply["heartbeat_interval_ms"],
            side.held.get(member),
            is_new,
        )

    def _join(self) -> tuple[str, Callable[[ShareSide], Any]]:
        member = self.random.choice(MEMBERS)
        names = self.random.choice(self.names)
        fields = {"subscribed_topic_names": names, "rack_id": self.random.choice([None, "r"])}
        return f"join {member} {fields}", lambda side: self._heartbeat(side, member, 0, **fields)

    def _beat(self) -> tuple[str, Callable[[ShareSide], Any]]:
        member = self.random.choice(MEMBERS)
        epoch = max(1, self.epochs.get(member, 1))
        return f"beat {member} {epoch}", lambda side: self._heartbeat(side, member, epoch)

    def _leave(self) -> tuple[str, Callable[[ShareSide], Any]]:
        member = self.random.choice(MEMBERS)
        return f"leave {member}", lambda side: self._heartbeat(side, member, -1)

    def _wrong_epoch(self) -> tuple[str, Callable[[ShareSide], Any]]:
        member = self.random.choice(MEMBERS)
        epoch = max(1, self.epochs.get(member, 1) + self.random.choice([-2, -1, 1, 7]))
        return f"epoch {member} {epoch}", lambda side: self._heartbeat(side, member, epoch)

    def _resubscribe(self) -> tuple[str, Callable[[ShareSide], Any]]:
        member = self.random.choice(MEMBERS)
        epoch = max(1, self.epochs.get(member, 1))
        names = self.random.choice(self.names)
        return f"subscribe {member} {epoch} {names}", lambda side: self._heartbeat(
            side, member, epoch, subscribed_topic_names=names
        )

    def _invalid(self) -> tuple[str, Callable[[ShareSide], Any]]:
        member = self.random.choice([*MEMBERS, "", " ", "m" * 36, "m" * 37])
        epoch = self.random.choice([-3, -2, 0, 1])
        fields = self.random.choice(
            [{"rack_id": " "}, {"subscribed_topic_names": []}, {"group_id": " "}, {}]
        )
        return f"invalid {member!r} {epoch} {fields}", lambda side: self._heartbeat(
            side, member, epoch, **fields
        )

    def _describe(self) -> tuple[str, Callable[[ShareSide], Any]]:
        return "describe", self.described

    def described(self, side: ShareSide) -> Any:
        """Returns the group as ShareGroupDescribe, ConsumerGroupDescribe and DescribeGroups return
        it."""
        ask = {"group_ids": [self.group], "include_authorized_operations": False}
        (group,) = side.call("ShareGroupDescribe", 1, ask)["groups"]
        (consumer,) = side.call("ConsumerGroupDescribe", 1, ask)["groups"]
        old = {"groups": [self.group], "include_authorized_operations": False}
        (classic,) = side.call("DescribeGroups", 6, old)["groups"]
        members = [
            (
                each["member_id"],
                each["rack_id"],
                each["member_epoch"],
                each["client_id"],
                each["client_host"],
                sorted(each["subscribed_topic_names"]),
                _count(each["assignment"]),
            )
            for each in group["members"]
        ]
        return (
            group["error_code"],
            group["error_message"],
            group["group_state"],
            group["group_epoch"],
            group["assignment_epoch"],
            group["assignor_name"],
            sorted(members),
            (consumer["error_code"], consumer["error_message"]),
            (classic["error_code"], classic["error_message"], classic["group_state"]),
        )

    def _list(self) -> tuple[str, Callable[[ShareSide], Any]]:
        types = self.random.choice([[], ["share"], ["classic"], ["Share", "x"]])
        states = self.random.choice([[], ["stable"], ["Empty", "dead"]])

        def step(side: ShareSide) -> Any:
            value = {"states_filter": states, "types_filter": types}
            return sorted(
                (each["group_id"], each["protocol_type"], each["group_state"], each["group_type"])
                for each in side.call("ListGroups", 5, value)["groups"]
                if each["group_id"] == self.group
            )

        return f"list {types} {states}", step

    def _other(self) -> tuple[str, Callable[[ShareSide], Any]]:
        """Returns a request of another group protocol. The walk sends it only if the group exists:
        if the group did not exist, the request could create it with the other protocol."""
        member = self.random.choice(["", "m1"])
        entry = {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        commit = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.random.choice([-1, 1]),
            "member_id": member,
            "group_instance_id": None,
            "topics": [{"name": TOPIC, "partitions": [entry]}],
        }
        join = {
            "group_id": self.group,
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 300_000,
            "member_id": member,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\0\0\0\0\0"}],
            "reason": None,
        }
        beat = {
            "group_id": self.group,
            "member_id": "m1",
            "member_epoch": 0,
            "rebalance_timeout_ms": 1_000,
            "topic_partitions": [],
            "subscribed_topic_names": [TOPIC],
        }
        leaver = {"member_id": "m1", "group_instance_id": None, "reason": None}
        classic = {"group_id": self.group, "generation_id": 1, "member_id": "m1"}
        partitions = {"name": TOPIC, "partitions": [{"partition_index": 0}]}
        requests: list[tuple[str, int, Value]] = [
            ("OffsetCommit", 9, commit),
            ("OffsetCommit", 8, commit),
            ("OffsetDelete", 0, {"group_id": self.group, "topics": [partitions]}),
            ("JoinGroup", 9, join),
            ("ConsumerGroupHeartbeat", 1, beat),
            ("LeaveGroup", 5, {"group_id": self.group, "members": [leaver]}),
            ("Heartbeat", 4, {**classic, "group_instance_id": None}),
        ]
        api, version, value = self.random.choice(requests)

        def step(side: ShareSide) -> Any:
            ask = {"group_ids": [self.group], "include_authorized_operations": False}
            if side.call("ShareGroupDescribe", 1, ask)["groups"][0]["error_code"]:
                return "no share group"
            return side.call(api, version, value)

        return f"{api} v{version}", step

    def _delete(self) -> tuple[str, Callable[[ShareSide], Any]]:
        def step(side: ShareSide) -> Any:
            reply = side.call("DeleteGroups", 2, {"groups_names": [self.group]})
            return [each["error_code"] for each in reply["results"]]

        return "delete", step


def _count(assignment: Value | None) -> int | None:
    """Returns the number of partitions in an assignment, or None without an assignment."""
    if assignment is None:
        return None
    return sum(len(topic["partitions"]) for topic in assignment["topic_partitions"])


def _plain(record: ShareRecord) -> Any:
    """Returns a record as a tuple without topic ids, so that the records of two brokers can be
    compared."""
    value: Any = record.value
    if isinstance(value, StatePartitions):
        value = (
            sorted(value.initializing.values()),
            sorted(value.initialized.values()),
            sorted(value.deleting.values()),
        )
    elif isinstance(value, dict):
        value = sum(map(len, value.values()))
    elif value is not None:
        value = {
            name: sum(map(len, each.values())) if isinstance(each, dict) else each
            for name in value.__dataclass_fields__
            if name not in ("metadata_hash", "timestamp_ms")
            for each in (getattr(value, name),)
        }
    return type(record).__name__, getattr(record, "member_id", None), value


def _ordered(records: list[Any]) -> list[Any]:
    """Returns the records, with adjacent target assignments sorted by member id. Kafka writes such
    assignments in hash order."""
    ordered: list[Any] = []
    for name, neighbours in groupby(records, itemgetter(0)):
        some = list(neighbours)
        is_target = name == "ShareTargetRecord"
        ordered += sorted(some, key=itemgetter(1)) if is_target else some
    return ordered


def _without_equal_targets(records: list[Any]) -> list[Any]:
    """Returns the records without each target assignment that has as many partitions as the
    previous target assignment of the same member.

    Kafka writes such a record if the only difference is a topic without partitions.
    """
    kept: list[Any] = []
    counts: dict[str, int | None] = {}
    for each in records:
        name, member_id, value = each
        if name == "ShareTargetRecord":
            if value is not None and counts.get(member_id) == value:
                continue
            counts[member_id] = value
        kept.append(each)
    return kept


def share_differences(seed: int, ours: Side, theirs: Side, steps: int) -> list[str]:
    """Returns the first difference between the two brokers, or an empty list if they do not
    differ."""
    assert len(MEMBERS) < PARTITIONS
    walk = ShareWalk(seed)
    kafka, muster = ShareSide(theirs, walk.group), ShareSide(ours, walk.group)
    done: list[str] = []
    for number in range(steps + 1):
        name, step = walk.next() if number < steps else ("describe", walk.described)
        done.append(name)
        expected, found = step(kafka), step(muster)
        if found != expected:
            return [*done[-25:], f"Kafka:  {expected}", f"Muster: {found}"]
    kafkas, musters = (
        _ordered(_without_equal_targets([_plain(each) for each in side.read()]))
        for side in (kafka, muster)
    )
    for number, (one, other) in enumerate(zip(kafkas, musters, strict=False)):
        if one != other:
            return [*done, f"record {number}", f"Kafka:  {one}", f"Muster: {other}"]
    if len(kafkas) != len(musters):
        return [*done, f"Kafka wrote {len(kafkas)} records, Muster {len(musters)}"]
    return []
