"""A shard with a share group and its log. Tests load a second shard from the log and compare the
two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coordinator.calls import Call, ShareHeartbeat
from coordinator.config import GroupConfig, ShareSettings
from coordinator.events import Event
from coordinator.outcome import Outcome, Reply, ShareHeartbeatReply
from coordinator.shard import GroupShard
from coordinator.share.events import ShareStateDeletion, ShareStateWanted
from coordinator.share.group import ShareGroup
from coordinator.topics_image import Topic, TopicsImage
from offsets.runs import OwnBatch, Run
from offsets.share_records import ShareGroupRun, ShareRecord
from protocol.now import Now
from tests.coordinator.consumer.groups import WALL_MS, batches_of, load

GROUP = "g"
T, U = b"t" * 16, b"u" * 16
_TYPES = {
    "ShareMemberRecord": "10",
    "ShareEpochRecord": "11",
    "ShareTargetEpochRecord": "12",
    "ShareTargetRecord": "13",
    "ShareCurrentRecord": "14",
    "StatePartitionsRecord": "15",
}


class ShareGroups:
    """A shard with share groups, its log, and the current time."""

    def __init__(self, interval_ms: int = 0, **settings: Any) -> None:
        share = ShareSettings(assignment_interval_ms=interval_ms)
        self.config = GroupConfig(share=share, **settings)
        self.image = TopicsImage()
        self.shard = GroupShard(self.config, self.image)
        self.log: list[Run | OwnBatch] = []
        self.now_ms = 1_000
        self.written: list[ShareRecord] = []
        """The records that the last call wrote."""
        self.events: Sequence[Event] = ()
        """The events of the last call."""
        self.shard.loaded(self.now)
        self.topics(t=2)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    def topics(self, **partitions: int) -> None:
        """Creates topics, or changes their numbers of partitions. The number -1 deletes a topic."""
        for name, count in partitions.items():
            if count < 0:
                self.image.remove(name)
            else:
                self.image.put(Topic(name.encode()[:1] * 16, name, count))
            self.shard.topic_changed(name)

    def take(self, outcome: Outcome) -> Outcome:
        """Replays the records of an outcome, as the runtime does."""
        self.written, self.events = [], outcome.events
        for run in outcome.records:
            self.log.append(run)
            self.shard.replay(run, len(self.log))
            if isinstance(run, ShareGroupRun):
                self.written += run.records
        return outcome

    def ask(self, call: Call) -> Reply:
        """Sends a call that must be answered immediately, and returns the reply."""
        [(_, reply)] = self.take(self.shard.handle(call, self.now)).replies
        return reply

    def send(self, member_id: str, epoch: int, **fields: Any) -> ShareHeartbeatReply:
        """Sends one heartbeat, which by default reports no change."""
        call = ShareHeartbeat("ticket", GROUP, member_id, epoch, None, None, "client", "/127.0.0.1")
        reply = self.ask(replace(call, **fields))
        assert isinstance(reply, ShareHeartbeatReply)
        return reply

    def join(self, member_id: str, *topics: str) -> ShareHeartbeatReply:
        """Sends the first heartbeat of a member."""
        return self.send(member_id, 0, subscribed_topics=topics or ("t",))

    def wanted(self) -> ShareStateWanted | None:
        """Returns the `ShareStateWanted` event of the last call, which requests the initialization
        of share partitions; None if the last call emitted no such event."""
        found = [each for each in self.events if isinstance(each, ShareStateWanted)]
        return found[0] if found else None

    def initialize(self) -> None:
        """If the last call emitted ShareStateWanted, reports to the shard that the share partitions
        in this event are initialized."""
        wanted = self.wanted()
        if wanted is not None:
            self.take(self.shard.share_state_initialized(wanted.group_id, wanted.topics, self.now))

    def deletion(self) -> ShareStateDeletion:
        """Returns the deletion of share partition states that the last call requested."""
        [found] = [each for each in self.events if isinstance(each, ShareStateDeletion)]
        return found

    def stable(self, *members: str) -> int:
        """Lets members join and get partitions of topic t. Returns the group epoch."""
        for number, member_id in enumerate(members, 1):
            self.join(member_id)
            self.initialize()
            for each in members[:number]:
                self.send(each, self.group.members[each].current.epoch)
        return self.group.epoch.epoch

    def pass_ms(self, passed_ms: int) -> None:
        """Advances the time, and runs the work that is due at each deadline of the shard."""
        until = self.now_ms + passed_ms
        while (due := self.shard.next_deadline()) is not None and due <= until:
            self.now_ms = max(self.now_ms, due)
            outcome = self.shard.expire(self.now, 100)
            if outcome.records:  # else an extended deadline
                self.take(outcome)
        self.now_ms = until

    @property
    def group(self) -> ShareGroup:
        return self.shard.view.share_groups[GROUP]

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
    """Returns the state that a load must restore: the part of each share group that the log stores,
    and the ids of the groups of other types."""
    others = {name for name, each in shard.view.groups.items() if each.type != "share"}
    shares = {name: facts(group) for name, group in shard.view.share_groups.items()}
    return {"others": sorted(others), **shares}


def facts(group: ShareGroup) -> dict[str, object]:
    """Returns the part of a share group's state that the log stores."""
    return {
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "targets": group.targets,
        "state": group.state_partitions,
        "members": {name: (each.metadata, each.current) for name, each in group.members.items()},
        "names": group.subscribed_names(),
    }
