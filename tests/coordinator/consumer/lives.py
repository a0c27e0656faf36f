"""A random consumer group that is sometimes deleted, created again, or replaced by a classic
group."""

from __future__ import annotations

from coordinator.consumer.deletion import tombstones
from coordinator.outcome import Outcome
from offsets.runs import GroupRun, GroupValue, OffsetRun
from tests.coordinator.consumer.groups import GROUP, WALL_MS
from tests.coordinator.consumer.test_random_groups import World


class Lives(World):
    """Changes one group at random. Sometimes removes it, or replaces it by a classic group."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.actions += [(0.06, self.end), (0.1, self.commit)]
        self.classic = False
        """True if the last group record in the log is that of a classic group."""

    def end(self) -> None:
        """Removes all members and the group. Sometimes writes a classic group with the same id."""
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
        """Does nothing: this class checks only groups that are loaded from the log. A subclass may
        check its live groups here."""
