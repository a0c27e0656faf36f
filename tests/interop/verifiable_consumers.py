"""Runs Kafka's VerifiableConsumer as a group member, and reads groups as ConsumerGroupDescribe
returns them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests import java, waiting
from tests.interop.cluster import Cluster, Key
from tests.interop.cluster import Described as ClassicGroup
from tests.interop.programs import Program
from tests.waiting import Watch

QUICK = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "0",
}
"""Broker settings with which consumer groups rebalance within a second."""
WITHIN_S = 60.0
T = TypeVar("T", "Described", ClassicGroup)


class VerifiableConsumer(Program):
    """A process of VerifiableConsumer, and what it has reported. It commits after each poll."""

    def __init__(self, name: str, command: list[str], watch: Watch) -> None:
        self.assigned: set[Key] = set()
        self.moves = 0
        """How often the member has gained or lost partitions."""
        self.seen: list[tuple[str, int, int]] = []
        """Topic, partition and offset of each record that the member has consumed."""
        self.committed: dict[Key, int] = {}
        super().__init__(name, command, watch)

    def _said(self, line: str) -> None:
        super()._said(line)
        if not line.startswith("{"):
            return
        event = json.loads(line)
        name = event["name"]
        if name in ("partitions_assigned", "partitions_revoked", "partitions_lost"):
            keys = {(each["topic"], each["partition"]) for each in event["partitions"]}
            self.assigned = (
                self.assigned | keys if name == "partitions_assigned" else self.assigned - keys
            )
            self.moves += bool(keys)
        elif name == "records_consumed":
            for each in event["partitions"]:
                offsets = range(each["minOffset"], each["maxOffset"] + 1)
                self.seen += [(each["topic"], each["partition"], offset) for offset in offsets]
        elif name == "offsets_committed" and event["success"]:
            self.committed |= {
                (each["topic"], each["partition"]): each["offset"] for each in event["offsets"]
            }


class VerifiableGroup:
    """The VerifiableConsumers of one group. The end of the `with` block kills them."""

    def __init__(self, bootstrap: str, group: str, topic: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.topic = topic
        self.cluster = Cluster(bootstrap)
        self.watch = Watch()
        self.members: list[VerifiableConsumer] = []
        self._folder = folder

    def __enter__(self) -> VerifiableGroup:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    def start(
        self, name: str, *options: str, protocol: str = "consumer", **config: str
    ) -> VerifiableConsumer:
        """Starts a member. ``name`` is also its client id."""
        file = self._folder / f"{self.group}-{name}.properties"
        ours = {"client.id": name, "metadata.max.age.ms": "1000", **dotted(config)}
        file.write_text("".join(f"{key}={value}\n" for key, value in ours.items()))
        command = java.command(
            java.KAFKA_NEW,
            "org.apache.kafka.tools.VerifiableConsumer",
            *("--bootstrap-server", self.bootstrap),
            *("--topic", self.topic),
            *("--group-id", self.group),
            *("--group-protocol", protocol),
            *("--command-config", str(file)),
            *options,
        )
        self.members.append(VerifiableConsumer(name, command, self.watch))
        return self.members[-1]

    def balanced(self, *sizes: int, within_s: float = WITHIN_S) -> Described:
        """Waits until the group is Stable and ``sizes`` are the numbers of partitions of its
        members, both in ConsumerGroupDescribe and in the reports of the members."""

        return self._settled(lambda: described(self.cluster, self.group), sizes, within_s)

    def classic_balanced(self, *sizes: int, within_s: float = WITHIN_S) -> ClassicGroup:
        """Waits like `balanced`, but for a classic group, which DescribeGroups returns."""
        return self._settled(lambda: self.cluster.describe(self.group), sizes, within_s)

    def _settled(self, look: Callable[[], T], sizes: Sequence[int], within_s: float) -> T:
        def settled() -> T | None:
            found = look()
            told = sorted(len(member.assigned) for member in self.members if member.runs)
            fits = found.sizes() == sorted(sizes) == told
            return found if found.state == "Stable" and fits else None

        try:
            return waiting.until(f"{self.group} is Stable with {sizes}", settled, within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def until_read(self, ends: Mapping[Key, int], within_s: float = WITHIN_S) -> None:
        """Waits until the members have consumed all records before the offsets ``ends`` and have
        committed these offsets."""
        wanted = {(*key, offset) for key, end in ends.items() for offset in range(end)}
        self.watch.until(
            f"{self.group} consumes {len(wanted)} records",
            lambda: wanted <= set(self.seen()),
            within_s,
            lambda: f"missing {sorted(wanted - set(self.seen()))[:20]}\n{self.story()}",
        )
        waiting.until(
            f"{self.group} has committed them",
            lambda: self.cluster.committed(self.group) == dict(ends),
            within_s,
        )

    def seen(self) -> list[tuple[str, int, int]]:
        """Returns the records that the members have consumed. Records that were consumed twice are
        included twice."""
        return [record for member in self.members for record in list(member.seen)]

    def story(self) -> str:
        """Returns the last output lines of all members, for the message of a failed test."""
        return "\n".join(member.story() for member in self.members)


def dotted(config: Mapping[str, str]) -> dict[str, str]:
    """Returns settings with dots instead of underscores in their names."""
    return {key.replace("_", "."): value for key, value in config.items()}


class DescribedMember(NamedTuple):
    """A member of a consumer group in a ConsumerGroupDescribe response."""

    client_id: str
    instance_id: str | None
    epoch: int
    names: tuple[str, ...]
    regex: str | None
    assigned: frozenset[Key]
    target: frozenset[Key]
    member_type: int
    rack_id: str | None
    client_host: str


class Described(NamedTuple):
    """A consumer group in a ConsumerGroupDescribe response. The members are listed by member id."""

    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: dict[str, DescribedMember]

    def sizes(self) -> list[int]:
        """Returns how many partitions each member has, in ascending order."""
        return sorted(len(member.assigned) for member in self.members.values())

    def epochs(self) -> dict[str, int]:
        """Returns the member epoch of each member, by client id."""
        return {member.client_id: member.epoch for member in self.members.values()}


def described(cluster: Cluster, group: str) -> Described:
    """Returns the ConsumerGroupDescribe response about a group. Raises AssertionError if it has an
    error."""
    asked = {"group_ids": [group], "include_authorized_operations": False}
    [found] = cluster.call("ConsumerGroupDescribe", 1, **asked)["groups"]
    assert found["error_code"] == 0, found
    members = {
        each["member_id"]: DescribedMember(
            each["client_id"],
            each["instance_id"],
            each["member_epoch"],
            tuple(sorted(each["subscribed_topic_names"])),
            each["subscribed_topic_regex"],
            _keys(each["assignment"]),
            _keys(each["target_assignment"]),
            each["member_type"],
            each["rack_id"],
            each["client_host"],
        )
        for each in found["members"]
    }
    return Described(
        found["group_state"],
        found["group_epoch"],
        found["assignment_epoch"],
        found["assignor_name"],
        members,
    )


def _keys(assignment: dict[str, Any]) -> frozenset[Key]:
    return frozenset(
        (each["topic_name"], partition)
        for each in assignment["topic_partitions"]
        for partition in each["partitions"]
    )
