"""Random sequences of requests of streams groups (KIP-1071). Two brokers get the same requests, and
their responses must be equal.

With three members of equal load, Kafka's hash order would decide who gets a task, so a walk has
only two members. Member ids and process ids are chosen so that Kafka's hash order is alphabetical,
like Muster's order. The topics of each group contain the name of the group, because walks create
and delete topics. At the end, the records of the group must be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.interop.streams_group_calls import ROLES, GroupCalls, Tasks, Value, task_ids, tasks
from tests.interop.streams_group_side import JOINING, StreamsSide, heartbeat
from tests.interop.streams_topologies import (
    internal_topics,
    invalid,
    shapes,
    source_topics,
)
from tests.java import RELEASE, RELEASES
from tests.wire import Wire

PROCESSES = {"m1": "p1", "m2": "p1", "m3": "p2"}
"""The process id of each member."""
IS_NEWER = RELEASES[0] != RELEASE
"""True if the tests compare Muster with Kafka 4.4 instead of 4.3. Kafka 4.4 differs from Kafka 4.3
in static members, in endpoint epochs, and in the order in which its assignor assigns tasks. This
order does not matter in a group with only one member."""
PAIRS = (("m1",),) if IS_NEWER else (("m1", "m3"), ("m1", "m3"), ("m1", "m2"))
MISSING_INTERNAL_TOPICS = 3


class StreamsWalk:
    """A group, and the epoch of each member. Both brokers have the same epochs while their
    responses are equal."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.group = f"streams-{seed}"
        self.members = PAIRS[seed % len(PAIRS)]
        named = shapes(self.group)
        self.shape_name = list(named)[seed % len(named)]
        self.shape = named[self.shape_name]
        self.epochs: dict[str, int] = {}
        self.endpoint_epochs: dict[str, int] = {}
        self.missing: set[str] = set()
        self.has_endpoints = (
            not IS_NEWER and seed % 2 == 0 and self.shape_name not in ("uneven", "absent", "fixed")
        )
        """True if the members of this walk have endpoints.

        Kafka 4.3.1 returns UNKNOWN_SERVER_ERROR to a member with an endpoint if a topic of the
        topology is missing. If the topics of a subtopology have different numbers of partitions,
        Kafka returns partitions that do not exist.
        """
        self.is_ready = not internal_topics(self.shape)
        topic = next(iter(source_topics(self.group)))
        self.calls = GroupCalls(self.random, self.group, topic, self.epochs)

    def next(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        """Returns a random step: its name, and a function that executes the step on one broker."""
        steps = (
            (16, self._join),
            (22, self._beat),
            (26, self._acknowledge),
            (5, self._lose),
            (5, self._leave),
            (5, self._wrong_epoch),
            (4, self._change),
            (6, self._invalid),
            (5, self.calls.commit),
            (4, self.calls.fetch),
            (4, self.calls.describe),
            (2, self.calls.list),
            (4, self.calls.other),
            (2, self.calls.delete),
            (1, self.calls.configure),
            (0 if self.has_endpoints else 10 if self.missing else 1, self._change_topics),
            (0.1, self._shut_down),
        )
        weights = [weight for weight, _ in steps]
        (_, step) = self.random.choices(steps, weights)[0]
        return step()

    def _heartbeat(self, side: StreamsSide, member: str, epoch: int, **fields: Any) -> Any:
        is_lost = fields.pop("is_lost", False)
        value = heartbeat(self.group, member, epoch, **fields)
        reply = self._without_repeated_tasks(
            side, member, epoch, side.call("StreamsGroupHeartbeat", 0, value)
        )
        if not reply["error_code"] and not is_lost:
            self._received(side, member, reply)
        codes = [each["status_code"] for each in reply["status"] or ()]
        if MISSING_INTERNAL_TOPICS in codes:
            for name in sorted(internal_topics(self.shape)):
                side.until_seen(name)
            self.is_ready = True
        return comparable(reply)

    def _without_repeated_tasks(
        self, side: StreamsSide, member: str, epoch: int, reply: Value
    ) -> Value:
        """Returns the response, but without its tasks if they equal the tasks of the previous
        response to this member. If a member has not listed its tasks, Muster sends the tasks again,
        and Kafka does not."""
        if reply["error_code"] or reply["active_tasks"] is None:
            return reply
        given = {role: reply[role] for role in ROLES}
        if epoch > 0 and side.given.get(member) == given:
            return {**reply, **dict.fromkeys(ROLES)}
        side.given[member] = given
        return reply

    def _received(self, side: StreamsSide, member: str, reply: Value) -> None:
        self.epochs[member] = reply["member_epoch"]
        self.endpoint_epochs[member] = reply["endpoint_information_epoch"]
        if reply["member_epoch"] < 0:
            side.owned.pop(member, None)
        elif reply["active_tasks"] is not None:
            side.owned[member] = {
                role: tasks(reply[role]) or [] for role in ("active_tasks", "standby_tasks")
            }

    def _member(self) -> tuple[str, int]:
        joined = [each for each, epoch in self.epochs.items() if epoch > 0]
        known = joined if joined and self.random.random() < 0.9 else self.members
        member = self.random.choice(known)
        return member, max(1, self.epochs.get(member, 1))

    def _join(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        member = self.random.choice(self.members)
        fields = {**JOINING, "process_id": PROCESSES[member], "topology": self.shape}
        if member != "m1" and self.has_endpoints and self.is_ready:
            fields["user_endpoint"] = {"host": "localhost", "port": 8000 + int(member[1])}
        if self.random.random() < 0.1:
            fields["topology"] = {**self.shape, "epoch": self.random.choice([0, 2])}
        epoch = fields["topology"]["epoch"]
        return f"join {member} topology {epoch}", lambda side: self._heartbeat(
            side, member, 0, **fields
        )

    def _beat(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        member, epoch = self._member()
        endpoint_epoch = self.random.choice([-1, self.endpoint_epochs.get(member, 0)])
        return f"beat {member} {epoch} {endpoint_epoch}", lambda side: self._heartbeat(
            side, member, epoch, endpoint_information_epoch=endpoint_epoch
        )

    def _owned(self, side: StreamsSide, member: str) -> Value:
        owned = side.owned.get(member, {})
        return {role: task_ids(owned.get(role, [])) for role in ROLES}

    def _acknowledge(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        member, epoch = self._member()
        return f"owns {member} {epoch}", lambda side: self._heartbeat(
            side, member, epoch, **self._owned(side, member)
        )

    def _lose(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        """Returns a step in which a member sends a heartbeat, but does not receive the response."""
        member, epoch = self._member()
        return f"lose {member} {epoch}", lambda side: self._heartbeat(
            side, member, epoch, is_lost=True, **self._owned(side, member)
        )

    def _leave(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        member, _ = self._member()
        return f"leave {member}", lambda side: self._heartbeat(side, member, -1)

    def _wrong_epoch(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        member, epoch = self._member()
        epoch = max(1, epoch + self.random.choice([-2, -1, -1, 1, 7]))
        choices: list[Tasks | None] = [None, [], [("0", (0,))], [("0", (0, 1, 2))]]
        owned = self.random.choice(choices)
        fields: Value = {}
        if owned is not None:
            fields = {
                "active_tasks": task_ids(owned),
                "standby_tasks": [],
                "warmup_tasks": [],
            }
        return f"epoch {member} {epoch} {owned}", lambda side: self._heartbeat(
            side, member, epoch, **fields
        )

    def _change(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        member, epoch = self._member()
        choices: list[Value] = [
            {"rack_id": "r1"},
            {"rebalance_timeout_ms": self.random.choice([200_000, 300_000])},
            {"client_tags": [{"key": "zone", "value": self.random.choice("ab")}]},
            {"client_tags": []},
            {"process_id": None},
            {"process_id": PROCESSES[member]},
        ]
        fields = self.random.choice(choices)
        return f"change {member} {epoch} {fields}", lambda side: self._heartbeat(
            side, member, epoch, **fields
        )

    def _invalid(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        member, epoch = self._member()
        joining = {**JOINING, "topology": self.shape}
        some = task_ids([("0", (0,))])
        empty: Value = {role: [] for role in ROLES}
        pairs: list[tuple[int, Value]] = [
            (0, {**joining, "rebalance_timeout_ms": -1}),
            (0, {**joining, "topology": None}),
            (0, {**joining, "active_tasks": None}),
            (0, {**joining, "standby_tasks": some}),
            (0, {**joining, "topology": self.random.choice(invalid(self.group))}),
            (epoch, {"topology": self.shape}),
            (epoch, {"active_tasks": some}),
            (epoch, {**empty, "active_tasks": task_ids([("9", (0,))])}),
            (epoch, {**empty, "active_tasks": task_ids([("0", (99,))])}),
            (epoch, {"rack_id": ""}),
            (epoch, {"member_id": ""}),
            (epoch, {"group_id": ""}),
            (-2, {}),
            (-3, {}),
        ]
        if not IS_NEWER:
            offsets = [{"subtopology_id": "0", "partition": 0, "offset": 1}]
            pairs += [
                (0, {**joining, "instance_id": "i"}),
                (-2, {"instance_id": "i"}),
                (epoch, {"instance_id": ""}),
                (epoch, {"task_offsets": offsets}),
                (epoch, {**empty, "warmup_tasks": some}),
            ]
        number = self.random.randrange(len(pairs))
        wrong_epoch, fields = pairs[number]
        return f"invalid {number} {member}", lambda side: self._heartbeat(
            side, member, wrong_epoch, is_lost=True, **fields
        )

    def _shut_down(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        member, epoch = self._member()
        return f"shut down {member}", lambda side: self._heartbeat(
            side, member, epoch, shutdown_application=True
        )

    def _change_topics(self) -> tuple[str, Callable[[StreamsSide], Any]]:
        """Returns a step that deletes a topic, or that creates the topic again."""
        topics = source_topics(self.group)
        name = self.random.choice(sorted(self.missing or topics))
        self.missing ^= {name}
        if name in self.missing:
            return f"delete topic {name}", lambda side: side.delete_topic(name)
        return f"create topic {name}", lambda side: side.create_topic(name, topics[name])


def comparable(reply: Value) -> Any:
    endpoints = reply["partitions_by_user_endpoint"]
    return (
        reply["error_code"],
        reply["error_message"],
        reply["member_id"],
        reply["member_epoch"],
        reply["heartbeat_interval_ms"],
        reply["acceptable_recovery_lag"],
        # 4.4 requests the offsets of tasks every 60 s, 4.3.1 does not.
        None if IS_NEWER else reply["task_offset_interval_ms"],
        None if reply["status"] is None else sorted(map(_status, reply["status"])),
        [tasks(reply[role]) for role in ROLES],
        reply["endpoint_information_epoch"],
        None if endpoints is None else sorted(map(_endpoint, endpoints)),
    )


def _status(each: Value) -> Any:
    """Returns the code and the sorted words of a status. Kafka lists topics in hash order."""
    return each["status_code"], sorted(each["status_detail"].replace(",", "").split())


def _endpoint(each: Value) -> Any:
    place = each["user_endpoint"]
    return (
        place["host"],
        place["port"],
        *(
            sorted((topic["topic"], sorted(topic["partitions"])) for topic in each[role])
            for role in ("active_partitions", "standby_partitions")
        ),
    )


def streams_differences(seed: int, ours: Wire, theirs: Wire, steps: int) -> list[str]:
    """Returns the first difference between the two brokers, or an empty list if they do not
    differ."""
    walk = StreamsWalk(seed)
    kafka, muster = StreamsSide(theirs, walk.group), StreamsSide(ours, walk.group)
    for side in (kafka, muster):
        side.create_topics()
    done: list[str] = [walk.shape_name]
    for number in range(steps + 1):
        name, step = walk.next() if number < steps else walk.calls.describe()
        done.append(name)
        expected, found = step(kafka), step(muster)
        if found != expected:
            return [*done[-25:], f"Kafka:  {expected}", f"Muster: {found}"]
    created = internal_topics(walk.shape)
    expected, found = kafka.topics(*created), muster.topics(*created)
    if found != expected:
        return [*done[-25:], "internal topics", f"Kafka:  {expected}", f"Muster: {found}"]
    kafkas, musters = kafka.records(), muster.records()
    for number, (one, other) in enumerate(zip(kafkas, musters, strict=False)):
        if one != other:
            return [*done, f"record {number}", f"Kafka:  {one}", f"Muster: {other}"]
    if len(kafkas) != len(musters):
        return [*done, f"Kafka wrote {len(kafkas)} records, Muster {len(musters)}"]
    return []
