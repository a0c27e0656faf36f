"""A shard with a streams group and its log. Tests load a second shard from the log and compare the
two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coordinator.calls import Call
from coordinator.config import GroupConfig, StreamsSettings
from coordinator.events import Event, MemberLeft
from coordinator.outcome import Outcome, Reply, StreamsHeartbeatReply
from coordinator.shard import GroupShard
from coordinator.streams.calls import StreamsHeartbeat
from coordinator.streams.group import StreamsGroup
from coordinator.topics_image import Topic, TopicsImage
from offsets.runs import OwnBatch, Run
from offsets.streams_records import (
    InternalTopic,
    StreamsGroupRun,
    StreamsRecord,
    Subtopology,
    Topology,
)
from protocol.now import Now
from tests.coordinator.consumer.groups import WALL_MS, batches_of, load

GROUP = "g"
SUB = "0"
TOPOLOGY = Topology(0, (Subtopology(SUB, ("t",)),))
"""One stateless subtopology that reads topic t."""
STORE = InternalTopic("g-store-changelog", configs=(("cleanup.policy", "compact"),))
STATEFUL = Topology(0, (Subtopology(SUB, ("t",), state_changelog_topics=(STORE,)),))
"""One subtopology that reads topic t and has a state store with a changelog topic."""
NO_TASKS: dict[str, tuple[int, ...]] = {}
_TYPES = {
    "StreamsEpochRecord": "17",
    "StreamsMemberRecord": "19",
    "StreamsTargetEpochRecord": "20",
    "StreamsTargetRecord": "21",
    "StreamsCurrentRecord": "22",
    "StreamsTopologyRecord": "23",
}


class StreamsGroups:
    """A shard with streams groups, its log, and the current time."""

    def __init__(
        self, interval_ms: int = 0, delay_ms: int = 0, standby: int = 0, **settings: Any
    ) -> None:
        streams = StreamsSettings(
            assignment_interval_ms=interval_ms,
            initial_rebalance_delay_ms=delay_ms,
            num_standby_replicas=standby,
        )
        self.config = GroupConfig(streams=streams, **settings)
        self.image = TopicsImage()
        self.shard = GroupShard(self.config, self.image)
        self.log: list[Run | OwnBatch] = []
        self.now_ms = 1_000
        self.written: list[StreamsRecord] = []
        """The records that the last call wrote."""
        self.events: Sequence[Event] = ()
        """The events of the last call."""
        self.left: list[MemberLeft] = []
        """The events of all removed members."""
        self.shard.loaded(self.now)
        self.topics(t=2)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    def topics(self, **partitions: int) -> None:
        """Creates topics, or changes their numbers of partitions. The number -1 deletes a topic."""
        for name, count in partitions.items():
            self.topic(name, count)

    def topic(self, name: str, count: int) -> None:
        """Creates a topic, or changes its number of partitions. The number -1 deletes the topic."""
        if count < 0:
            self.image.remove(name)
        else:
            self.image.put(Topic(name.encode().ljust(16)[:16], name, count))
        self.shard.topic_changed(name)

    def take(self, outcome: Outcome) -> Outcome:
        """Replays the records of an outcome, as the runtime does."""
        self.written, self.events = [], outcome.events
        self.left += [each for each in outcome.events if isinstance(each, MemberLeft)]
        for run in outcome.records:
            self.log.append(run)
            self.shard.replay(run, len(self.log))
            if isinstance(run, StreamsGroupRun):
                self.written += run.records
        return outcome

    def ask(self, call: Call) -> Reply:
        """Sends a call that must be answered immediately, and returns the reply."""
        [(_, reply)] = self.take(self.shard.handle(call, self.now)).replies
        return reply

    def send(self, member_id: str, epoch: int, **fields: Any) -> StreamsHeartbeatReply:
        """Sends one heartbeat, which by default reports no change."""
        call = StreamsHeartbeat("ticket", GROUP, member_id, epoch, "client", "/127.0.0.1")
        reply = self.ask(replace(call, **fields))
        assert isinstance(reply, StreamsHeartbeatReply)
        return reply

    def join(self, member_id: str, **fields: Any) -> StreamsHeartbeatReply:
        """Sends the first heartbeat of a member. By default, the member has its own process."""
        given = {
            "rebalance_timeout_ms": 60_000,
            "topology": TOPOLOGY,
            "process_id": f"process-{member_id}",
            "active": NO_TASKS,
            "standby": NO_TASKS,
            "warmup": NO_TASKS,
            **fields,
        }
        return self.send(member_id, 0, **given)

    def owning(self, member_id: str, epoch: int, **fields: Any) -> StreamsHeartbeatReply:
        """Sends a heartbeat that lists the tasks that the member owns. By default, the lists are
        empty."""
        given = {"active": NO_TASKS, "standby": NO_TASKS, "warmup": NO_TASKS, **fields}
        return self.send(member_id, epoch, **given)

    def settle(self) -> None:
        """Lets all members send heartbeats until each member has its target."""
        for _ in range(10):
            for member_id, member in list(self.group.members.items()):
                current = member.current
                self.owning(
                    member_id,
                    current.epoch,
                    active={name: tuple(tasks) for name, tasks in current.active.items()},
                    standby=current.standby,
                )

    def stable(self, *members: str, **fields: Any) -> int:
        """Lets members join and get their tasks. Returns the group epoch."""
        for member_id in members:
            self.join(member_id, **fields)
            self.settle()
        return self.group.epoch.epoch

    def pass_ms(self, passed_ms: int) -> None:
        """Advances the time, and runs the work that is due at each deadline of the shard."""
        until = self.now_ms + passed_ms
        while (due := self.shard.next_deadline()) is not None and due <= until:
            self.now_ms = max(self.now_ms, due)
            outcome = self.shard.expire(self.now, 100)
            if outcome.records or outcome.events:  # else an extended deadline
                self.take(outcome)
        self.now_ms = until

    @property
    def group(self) -> StreamsGroup:
        return self.shard.view.streams_groups[GROUP]

    def active(self, member_id: str) -> dict[str, tuple[int, ...]]:
        current = self.group.members[member_id].current
        return {name: tuple(tasks) for name, tasks in current.active.items()}

    def kinds(self) -> str:
        """Returns the types of the records that the last call wrote, as numbers. T marks a
        tombstone."""
        return " ".join(
            _TYPES[type(each).__name__] + ("T" if each.value is None else "")
            for each in self.written
        )

    def check_loaded(self) -> None:
        """Checks that a second shard, loaded from the log, has the same groups."""
        loaded = load(batches_of(self.log), self.config, self.now, self.image)
        assert hard_state(loaded) == hard_state(self.shard)


def hard_state(shard: GroupShard) -> dict[str, object]:
    """Returns the state that the shard can restore from its log: the logged state of each streams
    group. Of other groups, only the ids are included."""
    others = {name for name, each in shard.view.groups.items() if each.type != "streams"}
    streams = {name: facts(group) for name, group in shard.view.streams_groups.items()}
    return {"others": sorted(others), **streams}


def facts(group: StreamsGroup) -> dict[str, object]:
    """Returns the part of a streams group's state that the log stores."""
    return {
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "targets": group.targets,
        "topology": group.topology,
        "members": {name: (each.metadata, each.current) for name, each in group.members.items()},
        "state": group.state(),
    }
