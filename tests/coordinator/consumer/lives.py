"""A random consumer group that is sometimes deleted, created again, or replaced by a classic
group."""

from __future__ import annotations

from coordinator.consumer.deletion import tombstones
from coordinator.outcome import Outcome
from offsets.runs import GroupRun, GroupValue, OffsetRun
from tests.coordinator.consumer.groups import GROUP, WALL_MS
from tests.coordinator.consumer.test_random_groups import World


class Lives(World):
    """A `World` whose group may be removed. Only its log is complete, because its shard has no
    classic groups."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.actions += [(0.06, self.end), (0.1, self.commit)]
        self.classic = False
        """True if the last record of the group is a record of a classic group."""

    def end(self) -> None:
        """Lets all members leave. A new group with the same id may follow."""
        if self.groups_static():
            return  # a member that is away keeps its place until its session expires
        for client in list(self.clients.values()):
            self.groups.send(client.member_id, -1)
        self.clients.clear()
        group = self.groups.shard.view.consumer_groups.get(GROUP)
        if group is not None and not group.members:
            self.groups.take(Outcome([tombstones(group)], (), ()))
            if self.random.random() < 0.5:
                value = GroupValue("consumer", self.random.randint(1, 9), None, None, WALL_MS, [])
                self.groups.take(Outcome([GroupRun(GROUP, value)], (), ()))
                self.classic = True

    def commit(self) -> None:
        partitions = self.random.sample(range(4), 2)
        offset = self.random.randint(0, 99)
        run = OffsetRun(GROUP, "t", partitions, [offset] * 2, [-1] * 2, None, WALL_MS)
        self.groups.take(Outcome([run], (), ()))

    def join(self) -> None:
        if self.classic:
            self.groups.take(Outcome([GroupRun(GROUP, None)], (), ()))
            self.classic = False
        super().join()

    def check(self) -> None:
        """Does nothing, because the tests check the groups that a load restores from the log."""
