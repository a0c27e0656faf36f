"""Invariants of consumer groups, which are checked after every step of a simulation.

1. No partition has two owners: no two clients of a group believe that they own the same partition.
   A client owns a partition only after the broker has assigned it and before the broker frees it.
2. No member waits forever. Each member has a session. Each member that must revoke partitions has
   a deadline. The owner of an awaited partition changes within a bounded time.
3. A commit is accepted only if the member has owned the partitions since the epoch in the commit.
4. A loaded shard has the same groups as the live shard. The log may have been cleaned, and a
   snapshot may be used. Kafka's loader accepts the log. No acknowledged record is lost
   (promises.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from coordinator.calls import Call, DeleteGroup, DescribeGroup, OffsetCommit
from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.consumer.group import ConsumerGroup, session_timeout_ms
from coordinator.consumer.states import ConsumerGroupState, MemberState
from coordinator.events import Event, GroupConverted, Transition
from coordinator.outcome import (
    CommitReply,
    ConsumerHeartbeatReply,
    DescribeReply,
    JoinReply,
    Outcome,
    Reply,
    SyncReply,
)
from coordinator.shard import GroupShard
from offsets.consumer_records import ConsumerGroupRun, CurrentAssignment
from offsets.runs import GroupRun, OwnBatch, Run
from protocol.errors import NONE
from tests.coordinator.consumer.groups import facts
from tests.coordinator.consumer.kafka_loader import CanNotLoad, KafkaLoader
from tests.simulation.checkers import Checkers
from tests.simulation.clients import REBALANCES_MS as CLASSIC_REBALANCES_MS
from tests.simulation.consumer.clients import REBALANCES_MS, ClassicConsumer, Consumer
from tests.simulation.reply_checks import Before

if TYPE_CHECKING:
    from tests.simulation.consumer.world import ConsumerWorld

SLACK_MS = 2_000
CLASSIC_SESSION_MS = 30_000
HEARTBEATS_MS = 30_000
"""The time in ms within which each live client sends a request."""


class ConsumerCheckers(Checkers):
    """All checks of one simulation of consumer groups, and the state of these checks."""

    world: ConsumerWorld

    def __init__(self, world: ConsumerWorld) -> None:
        super().__init__(world)
        self.known: dict[str, CurrentAssignment] | None = None
        """The assignment of each member before the current call, or None for a classic group."""
        self.awaited: dict[tuple[Any, ...], int] = {}
        """By (group, target epoch, member, partition, owner): the time in ms since which the member
        waits for the owner to give up the partition."""
        self.converting: set[str] = set()
        self.rebalancing: set[str] = set()
        """Groups that were downgraded to classic groups and have not yet formed a generation."""

    def classic_groups(self) -> Mapping[str, Group]:
        view = self.world.shard.view
        return {
            name: cast(Group, group)
            for name, group in view.groups.items()
            if name not in view.consumer_groups
        }

    # ----------------------------------------------------------------- reports of the world

    def before_call(self, call: Call) -> None:
        group = self.world.shard.view.consumer_groups.get(getattr(call, "group_id", ""))
        self.known = None
        if group is None:
            super().before_call(call)
            return
        self.touched.add(group.group_id)
        self.before = Before()
        self.known = {name: each.current for name, each in group.members.items()}

    def after_call(self, call: Call, outcome: Outcome) -> None:
        consumers = self.world.shard.view.consumer_groups
        if self.known is None and getattr(call, "group_id", "") not in consumers:
            super().after_call(call, outcome)
            return
        for ticket, reply in outcome.replies:
            if ticket != call.ticket:
                continue
            if isinstance(call, OffsetCommit) and isinstance(reply, CommitReply):
                self._check_commit_of_member(call, reply)
            elif isinstance(call, DescribeGroup) and isinstance(reply, DescribeReply):
                assert reply.state == "Dead"

    def _check_commit_of_member(self, call: OffsetCommit, reply: CommitReply) -> None:
        """Asserts that a commit is accepted only if the member has owned all committed partitions
        at all times since the epoch that the commit contains."""
        if isinstance(reply.errors, int) and reply.errors != NONE:
            self.count("commit refused")
            return
        known = self.known or {}
        self._check_stored(call, reply.errors)
        if call.generation_id < 0:
            assert not known, "a simple commit into a group with members"
            return
        current = known[call.member_id]
        assert call.generation_id <= current.epoch, f"{call} of a later epoch"
        group = self.world.shard.view.consumer_groups[call.group_id]
        is_classic = group.members[call.member_id].metadata.classic is not None
        assert call.knows_member_epochs or is_classic, f"{call} with a generation"
        self.count("commit of a member")
        if call.generation_id == current.epoch:
            return
        ids = self.world.image.by_name
        for topic in call.topics:
            for partition in topic.partitions:
                topic_id = ids[topic.topic].topic_id
                sides = [side.get(topic_id, {}) for side in (current.assigned, current.revoking)]
                got = [side[partition] for side in sides if partition in side]
                assert got, f"{call} for a partition of another member"
                assert got[0] <= call.generation_id, f"{call} before the member got the partition"
        self.count("commit of an older epoch")

    def replied(self, call: Call, reply: Reply) -> None:
        group_id = getattr(call, "group_id", "")
        if isinstance(call, DeleteGroup) and reply == NONE:
            assert group_id not in self.world.shard.view.groups, f"{group_id} is deleted, and here"
            self.count("deleted")
        if isinstance(reply, ConsumerHeartbeatReply):
            self._check_heartbeat(group_id, reply)
        elif group_id in self.world.shard.view.consumer_groups and isinstance(
            reply, JoinReply | SyncReply
        ):
            self.count(f"{type(reply).__name__} of a consumer group")
        else:
            super().replied(call, reply)

    def _check_heartbeat(self, group_id: str, reply: ConsumerHeartbeatReply) -> None:
        """Asserts that the epoch and assignment in a heartbeat reply equal those in the records."""
        self.count(f"heartbeat answered {reply.error_code}")
        if reply.error_code != NONE or reply.member_epoch < 0:
            return
        group = self.world.shard.view.consumer_groups[group_id]
        current = group.members[reply.member_id or ""].current
        assert reply.member_epoch == current.epoch
        if reply.assignment is not None:
            assert {topic: set(found) for topic, found in reply.assignment.items()} == {
                topic: set(epochs) for topic, epochs in current.assigned.items()
            }

    def told(self, events: Iterable[Event]) -> None:
        events = list(events)
        converted = [each for each in events if isinstance(each, GroupConverted)]
        for event in events:
            if isinstance(event, GroupConverted):
                self.count(f"converted to {event.type}")
                self._new_life(event.group_id)
                self.rebalancing.discard(event.group_id)
            elif isinstance(event, Transition):
                if any(each.group_id == event.group_id for each in converted):
                    self.rebalancing.add(event.group_id)
                elif event.new_state != State.PREPARING_REBALANCE.value:
                    self.rebalancing.discard(event.group_id)
        super().told(events)

    def _new_life(self, group_id: str) -> None:
        self.removals[group_id] = self.removals.get(group_id, 0) + 1

    def before_replay(self, run: Run | OwnBatch) -> None:
        """Notes which groups were consumer groups before the replay. If such a group becomes a
        classic group, its first record as a classic group is not compared with the group's state,
        because members may rejoin before this record is replayed."""
        if isinstance(run, ConsumerGroupRun):
            self.touched.add(run.group_id)
            self.converting.add(run.group_id)
            self._new_life(run.group_id)
            return
        if not (isinstance(run, GroupRun) and run.group_id in self.converting):
            super().before_replay(run)

    def expiring(self, outcome: Outcome) -> None:
        """Does nothing, because offsets do not expire in this simulation."""

    def reloaded(self) -> None:
        super().reloaded()
        self.awaited.clear()
        self.check_kafka_loads()

    # ---------------------------------------------------------------------- after each step

    def check_all(self) -> None:
        super().check_all()
        self.converting.clear()
        for group in self.world.shard.view.consumer_groups.values():
            self.check_members(group)
            self.check_holders(group)
        self.check_beliefs()
        self.check_waits()

    def check_members(self, group: ConsumerGroup) -> None:
        """Asserts that each member has a session timer, and that each member that must revoke
        partitions has a rebalance timer."""
        assert group.group_id not in self.classic_groups()
        world = self.world
        for member in group.members.values():
            left_ms = member.session.due_ms - world.mono_ms
            assert 0 < left_ms <= session_timeout_ms(world.config, member), (
                f"the session of {member.member_id} ends in {left_ms} ms"
            )
            current, metadata = member.current, member.metadata
            if member.is_away:
                assert not current.revoking
                continue
            assert bool(current.revoking) == (current.state == MemberState.UNREVOKED)
            if current.state == MemberState.UNREVOKED:
                left_ms = member.rebalance.due_ms - world.mono_ms
                assert 0 < left_ms <= metadata.rebalance_timeout_ms, (
                    f"nothing makes {member.member_id} give up its partitions"
                )
                self.count("must give up")

    def check_holders(self, group: ConsumerGroup) -> None:
        """Asserts that no partition is assigned to two members, and that the group's table of
        owners is correct."""
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, member in group.members.items():
            for side in (member.current.assigned, member.current.revoking):
                for topic_id, epochs in side.items():
                    for partition in epochs:
                        key = topic_id, partition
                        other = owners.setdefault(key, member_id)
                        assert other == member_id, f"{other} and {member_id} have {key}"
        assert owners == group.holders

    def check_beliefs(self) -> None:
        """Asserts that no two clients believe that they own the same partition, and that the
        broker's records confirm each belief."""
        view = self.world.shard.view
        for group_id in {client.group_id for client in self._members()}:
            consumers = view.consumer_groups.get(group_id)
            known = consumers or self.classic_groups().get(group_id)
            owners: dict[tuple[bytes, int], str] = {}
            for client in self._members():
                if client.group_id != group_id or known is None:
                    continue
                if client.member_id not in known.members:
                    continue  # fenced, expired or left: the others may own its partitions
                if isinstance(known, Group) and client.generation != known.generation_id:
                    continue  # a static member that did not rejoin in time
                for key in client.holds():
                    other = owners.setdefault(key, client.name)
                    assert other == client.name, f"{other} and {client.name} own {key}"
                    if consumers is not None:
                        holder = consumers.holders.get(key)
                        assert holder == client.member_id, (
                            f"{client.name} believes that it owns {key}, which {holder} has"
                        )
                        self.count("belief")

    def _members(self) -> list[Consumer | ClassicConsumer]:
        kinds = Consumer, ClassicConsumer
        return [client for client in self.world.clients if isinstance(client, kinds)]

    def check_waits(self) -> None:
        """Asserts that no member waits too long for a partition: the owner of the partition revokes
        it in time, or is removed in time."""
        world = self.world
        now_ms = world.mono_ms - world.leapt_ms
        session_ms = max(world.config.consumer.session_timeout_ms, CLASSIC_SESSION_MS)
        longest_ms = session_ms + max(*REBALANCES_MS, *CLASSIC_REBALANCES_MS) + SLACK_MS
        before, self.awaited = self.awaited, {}
        for group in world.shard.view.consumer_groups.values():
            for member_id, member in group.members.items():
                if member.current.state != MemberState.UNRELEASED:
                    continue
                for topic_id, partitions in group.target_of(member_id).items():
                    for partition in partitions:
                        holder = group.holders.get((topic_id, partition), member_id)
                        if holder == member_id:
                            continue
                        epoch = group.target_epoch.epoch
                        key = group.group_id, epoch, member_id, topic_id, partition, holder
                        since = self.awaited[key] = before.get(key, now_ms)
                        assert now_ms - since < longest_ms, (
                            f"{member_id} waits for {holder} for {now_ms - since} ms"
                        )
                        self.count("awaited")

    def check_loaded(self, fresh: GroupShard) -> None:
        super().check_loaded(fresh)
        live = self.world.shard.view.consumer_groups
        loaded = fresh.view.consumer_groups
        assert set(loaded) == set(live), "consumer groups differ after a load"
        for group_id, group in live.items():
            assert facts(loaded[group_id]) == facts(group)
            self.count("reloaded consumer group")
        for group_id, classic in fresh.view.groups.items():
            if group_id in self.rebalancing and classic.type == "classic" and classic.members:
                assert classic.state is State.PREPARING_REBALANCE, f"{group_id} has lost a member"
                self.count("reloaded downgraded group")

    def check_kafka_loads(self) -> None:
        """Asserts that Kafka can load the log. Kafka's loader refuses some orders of tombstones."""
        loader = KafkaLoader()
        for batch in self.world.log.batches:
            for _, run in batch.read():
                try:
                    loader.replay(run)
                except CanNotLoad as error:
                    raise AssertionError(f"Kafka does not load {run}") from error

    # --------------------------------------------------------------------------- at the end

    def unrest(self) -> list[str]:
        """Returns sentences about the groups that are not at rest yet: groups that are not stable,
        and groups in which a client that should be a member is missing."""
        complaints: list[str] = []
        view = self.world.shard.view
        for group_id in sorted({client.group_id for client in self._members()}):
            clients = [each for each in self._members() if each.group_id == group_id]
            group = view.consumer_groups.get(group_id)
            if group is None:
                complaints += self._classic_unrest(group_id, clients)
            else:
                complaints += self._consumer_unrest(group, clients)
        return complaints

    def _classic_unrest(
        self, group_id: str, clients: list[Consumer | ClassicConsumer]
    ) -> list[str]:
        group = self.classic_groups().get(group_id)
        policy = self.world.config.consumer_migration_policy
        if group is None or policy not in ("disabled", "downgrade"):
            if self.world.config.consumer_max_size < 10:
                return []  # too full to be upgraded
            return [f"{group_id} is not a consumer group"]
        if group.state is not State.STABLE:
            return [f"{group_id} is {group.state}"]
        classics = [each for each in clients if isinstance(each, ClassicConsumer)]
        outside = [each.name for each in classics if each.phase != "in"]
        if outside:
            return [f"{outside} are not in {group_id}"]
        names = {name for each in classics for name in each.names}
        self.count("classic group at rest")
        return self._unowned(group_id, classics, names)

    def _unowned(
        self, group_id: str, inside: Iterable[Consumer | ClassicConsumer], names: Iterable[str]
    ) -> list[str]:
        """Returns an empty list if the members own exactly the partitions of the topics ``names``.
        Otherwise returns a list with a text about the difference."""
        owned = sorted(key for each in inside for key in each.holds())
        wanted = sorted(
            (topic.topic_id, number)
            for topic in self.world.image.existing(names)
            for number in range(topic.partitions)
        )
        if owned != wanted:
            return [f"{group_id}: {len(owned)} of {len(wanted)} partitions have an owner"]
        return []

    def _consumer_unrest(
        self, group: ConsumerGroup, clients: list[Consumer | ClassicConsumer]
    ) -> list[str]:
        config, name = self.world.config, group.group_id
        if group.state() is not ConsumerGroupState.STABLE:
            return [f"{name} is {group.state()}"]
        inside = [each for each in clients if each.member_id in group.members]
        if set(group.members) != {each.member_id for each in inside}:
            return [f"{name} has dead members: {list(group.members)}"]
        if config.consumer_max_size >= len(clients):
            for each in clients:
                may_join = isinstance(each, Consumer) or (
                    config.consumer_migration_policy != "disabled"
                )
                if may_join and each not in inside:
                    return [f"{each.name} is not in {name}"]
        self.count("consumer group at rest")
        return self._unowned(name, inside, group.subscribed_names())
