"""A shard with a consumer group and its log. Tests load a second shard from the log and compare the
two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coordinator.calls import ConsumerHeartbeat
from coordinator.config import ConsumerSettings, GroupConfig
from coordinator.consumer.group import ConsumerGroup
from coordinator.events import Event
from coordinator.outcome import ConsumerHeartbeatReply, Outcome
from coordinator.shard import GroupShard
from coordinator.topics_image import Topic, TopicsImage
from offsets.consumer_records import ConsumerGroupRun, ConsumerRecord, EpochRecord
from offsets.record_codec import run_records
from offsets.runs import MarkerRun, OwnBatch, Run, TransactionalRun
from offsets.section_reader import runs_of_section
from protocol.now import Now

GROUP = "g"
T, U = b"t" * 16, b"u" * 16
WALL_MS = 1_700_000_000_000
_TYPES = {
    "EpochRecord": "3",
    "TopicsRecord": "4",
    "MemberRecord": "5",
    "TargetEpochRecord": "6",
    "TargetRecord": "7",
    "CurrentRecord": "8",
    "RegexRecord": "16",
}


def heartbeat_of(member_id: str, epoch: int) -> ConsumerHeartbeat:
    """Returns a heartbeat with only member id and epoch. Null in all other fields means
    "unchanged"."""
    return ConsumerHeartbeat(
        "ticket", GROUP, member_id, epoch, None, None, -1, None, None, None, None, "client",
        "/127.0.0.1",
    )  # fmt: skip


class Groups:
    """A shard with consumer groups, its log, and the current time."""

    def __init__(self, interval_ms: int = 0, **settings: Any) -> None:
        consumer = settings.pop("consumer", ConsumerSettings())
        consumer = consumer._replace(assignment_interval_ms=interval_ms)
        self.config = GroupConfig(consumer=consumer, **settings)
        self.image = TopicsImage()
        self.shard = GroupShard(self.config, self.image)
        self.log: list[Run | OwnBatch] = []
        self.now_ms = 1_000
        self.written: list[ConsumerRecord] = []
        """The records that the last call wrote."""
        self._epochs: dict[str, int] = {}
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
        self.written = []
        for run in outcome.records:
            self.log.append(run)
            self.shard.replay(run, len(self.log))
            if isinstance(run, ConsumerGroupRun):
                self.written += run.records
                self._check_epochs(run)
        return outcome

    def _check_epochs(self, run: ConsumerGroupRun) -> None:
        """Checks that each record with a group epoch increases the epoch."""
        for record in run.records:
            if isinstance(record, EpochRecord):
                before = self._epochs.pop(run.group_id, 0)
                if record.value is not None:
                    assert record.value.epoch > before
                    self._epochs[run.group_id] = record.value.epoch

    def note(self, events: Sequence[Event]) -> None:
        """Does nothing. Subclasses override this method to check the events of each heartbeat."""

    def send(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatReply:
        """Sends one heartbeat, which by default reports no change."""
        fields["group_id"] = fields.pop("group", GROUP)
        call = heartbeat_of(member_id, epoch)
        outcome = self.take(self.shard.handle(replace(call, **fields), self.now))
        self.note(outcome.events)
        [(ticket, reply)] = outcome.replies
        assert ticket == "ticket"
        assert isinstance(reply, ConsumerHeartbeatReply)
        return reply

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerHeartbeatReply:
        """Sends the first heartbeat of a member."""
        fields = {"subscribed_topics": topics or ("t",), "owned": {}, **fields}
        return self.send(member_id, 0, rebalance_timeout_ms=300_000, **fields)

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
    def group(self) -> ConsumerGroup:
        return self.shard.view.consumer_groups[GROUP]

    def kinds(self) -> str:
        """Returns the types of the records that the last call wrote, as numbers. T marks a
        tombstone."""
        return " ".join(
            _TYPES[type(each).__name__] + ("T" if each.value is None else "")
            for each in self.written
        )

    def check_loaded(self) -> None:
        """Checks that a second shard, loaded from the log, has the same groups."""
        loaded = load(batches_of(self.log), self.config, self.now)
        assert hard_state(loaded) == hard_state(self.shard)


Batch = tuple[int, int, bytes]
"""A batch: its base offset, its number of records, and the bytes of its records."""


def batches_of(log: Sequence[Run | OwnBatch]) -> list[Batch]:
    """Returns a batch for each run of ``log``: its log offset, its number of records, and its
    records."""
    batches, offset = [], 0
    for run in log:
        assert not isinstance(run, TransactionalRun | MarkerRun)
        batches.append((offset, len(run), run_records(run, 0)))
        offset += len(run)
    return batches


def load(
    batches: Sequence[Batch], config: GroupConfig, now: Now, topics: TopicsImage | None = None
) -> GroupShard:
    shard = GroupShard(config, topics)
    for base_offset, count, section in batches:
        for offset, run in runs_of_section(section, base_offset, count, None, now.wall_ms):
            shard.replay(run, offset)
    shard.loaded(now)
    return shard


def hard_state(shard: GroupShard) -> dict[str, object]:
    """Returns, for each consumer group, the part of its state that the log stores, and also the ids
    of all classic groups."""
    consumers = {name: facts(group) for name, group in shard.view.consumer_groups.items()}
    classic = {name for name, each in shard.view.groups.items() if each.type == "classic"}
    return {"classic": sorted(classic), **consumers}


def facts(group: ConsumerGroup) -> dict[str, object]:
    """Returns the part of a consumer group's state that the log stores."""
    return {
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "targets": group.targets,
        "regexes": group.regexes,
        "static": group.static_members,
        "holders": group.holders,
        "members": {name: (each.metadata, each.current) for name, each in group.members.items()},
    }
