"""A slow and literal model of ``StickyTaskAssignor`` of Kafka 4.3.1.

With the variant `JAVA`, the model iterates in the order of Java's hash maps and priority queues.
Its results then equal those of Apache's class (tests/interop/test_streams_classes.py). With the
variant `ASCENDING`, its results equal those of `coordinator.assignors.sticky_tasks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from coordinator.assignors.sticky_tasks import SubtopologyTasks, TaskMember
from offsets.streams_records import TaskRoles
from protocol.java_hash import java_hash

Item = TypeVar("Item")
Task = tuple[str, int]
"""A subtopology id and a partition, which together identify a task."""


class Queue(Protocol[Item]):
    """The interface of the priority queues of this module."""

    def add(self, item: Item) -> None: ...

    def poll(self) -> Item | None: ...


class JavaQueue(Generic[Item]):
    """A model of ``java.util.PriorityQueue``: a binary heap, in which the order of equal items
    depends on the heap."""

    def __init__(self, key: Callable[[Item], float]) -> None:
        self._key = key
        self._heap: list[Item] = []

    def add(self, item: Item) -> None:
        heap, at = self._heap, len(self._heap)
        heap.append(item)
        while at > 0 and self._key(item) < self._key(heap[(at - 1) // 2]):
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = item

    def poll(self) -> Item | None:
        if not self._heap:
            return None
        first, item = self._heap[0], self._heap.pop()
        heap, at = self._heap, 0
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and self._key(heap[child]) > self._key(heap[child + 1]):
                child += 1
            if self._key(item) <= self._key(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        if heap:
            heap[at] = item
        return first


class FirstQueue(Generic[Item]):
    """A priority queue in which equal items keep the order in which they were first added."""

    def __init__(self, key: Callable[[Item], float]) -> None:
        self._key = key
        self._known: list[Item] = []
        self._queued: list[Item] = []

    def add(self, item: Item) -> None:
        if item not in self._known:
            self._known.append(item)
        self._queued.append(item)

    def poll(self) -> Item | None:
        if not self._queued:
            return None
        found = min(self._queued, key=lambda item: (self._key(item), self._known.index(item)))
        self._queued.remove(found)
        return found


def hash_order(names: Iterable[str], slots: int) -> list[str]:
    """Returns the names in the iteration order of a Java ``HashMap`` with capacity for ``slots``
    entries."""
    given = list(dict.fromkeys(names))
    size = 1
    while size < slots:
        size *= 2
    while 4 * len(given) > 3 * size:
        size *= 2
    hashes = {name: java_hash(name) & 0xFFFFFFFF for name in given}
    return sorted(given, key=lambda name: (hashes[name] ^ hashes[name] >> 16) & (size - 1))


class Variant(NamedTuple):
    """The decisions of the algorithm that differ between Kafka and Muster."""

    order: Callable[[Iterable[str], int], list[str]]
    queue: type[JavaQueue[str]] | type[FirstQueue[str]]
    only_first: bool
    """If true, the algorithm tries only the first previous standby of a task: if the process of
    this standby already has the task, the other previous standbys are ignored."""


JAVA = Variant(hash_order, JavaQueue, only_first=True)
ASCENDING = Variant(lambda names, _: sorted(set(names)), FirstQueue, only_first=False)


class _Quota:
    def __init__(self, tasks: int, members: int) -> None:
        self.tasks, self.members = tasks, members
        self.per_member = -(-tasks // members) if members else 0

    def update(self, count: int) -> None:
        if count == self.per_member:
            self.__init__(self.tasks - count, self.members - 1)  # type: ignore[misc]


class _Process:
    """A model of Kafka's ``ProcessState``."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self.active: dict[str, set[Task]] = {}
        self.standby: dict[str, set[Task]] = {}
        self.by_load: Queue[str] | None = None

    @property
    def load(self) -> float:
        return sum(self.counts.values()) / len(self.counts)

    def add(self, member_id: str, task: Task, *, active: bool) -> int:
        self.by_load = None
        return self._add(member_id, task, active=active)

    def _add(self, member_id: str, task: Task, *, active: bool) -> int:
        self.tasks.add(task)
        (self.active if active else self.standby).setdefault(member_id, set()).add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]

    def add_to_least_loaded(self, task: Task, *, active: bool) -> int:
        if self.by_load is None:
            self.by_load = self.variant.queue(lambda member_id: self.counts[member_id])
            for member_id in self.variant.order(self.counts, 16):
                self.by_load.add(member_id)
        member_id = self.by_load.poll()
        assert member_id is not None
        count = self._add(member_id, task, active=active)
        self.by_load.add(member_id)
        return count


class _Model:
    def __init__(
        self,
        members: Mapping[str, TaskMember],
        subtopologies: Mapping[str, SubtopologyTasks],
        replicas: int,
        variant: Variant,
    ) -> None:
        self.members, self.replicas, self.variant = members, replicas, variant
        self.subtopologies = subtopologies
        self.processes: dict[str, _Process] = {}
        self.was_active: dict[Task, str] = {}
        self.was_standby: dict[Task, list[str]] = {}
        for member_id in sorted(members):
            process_id, previous = members[member_id]
            process = self.processes.setdefault(process_id, _Process(variant))
            process.counts[member_id] = 0
            for task in _tasks(previous.active):
                self.was_active[task] = member_id
            for task in _tasks(previous.standby):
                self.was_standby.setdefault(task, []).append(member_id)
        active, stateful = self.tasks(), self.tasks(only_stateful=True)
        self.active_quota = _Quota(len(active), len(members))
        self.quota = _Quota(len(active) + replicas * len(stateful), len(members))

    def tasks(self, *, only_stateful: bool = False) -> list[Task]:
        return [
            (subtopology_id, partition)
            for subtopology_id, each in sorted(self.subtopologies.items())
            if each.stateful or not only_stateful
            for partition in range(each.tasks)
        ]

    def process(self, member_id: str) -> _Process:
        return self.processes[self.members[member_id].process_id]

    def count(self, member_id: str) -> int:
        return self.process(member_id).counts[member_id]

    def queue(self) -> Queue[str]:
        queue = self.variant.queue(lambda process_id: self.processes[process_id].load)
        for process_id in self.variant.order(self.processes, len(self.members)):
            queue.add(process_id)
        return queue

    def assign_active(self) -> None:
        left = sorted(self.tasks(), key=lambda task: (task[1], task[0]))
        for find in (self.was_active.get, self.previous_standby):
            tasks, left = left, []
            for task in tasks:
                member_id = find(task)
                if member_id is None or self.count(member_id) >= self.active_quota.per_member:
                    left.append(task)
                else:
                    self.added(self.process(member_id).add(member_id, task, active=True))
        queue = self.queue()
        for task in sorted(left):
            process_id = queue.poll()
            assert process_id is not None
            self.added(self.processes[process_id].add_to_least_loaded(task, active=True))
            queue.add(process_id)

    def added(self, count: int) -> None:
        self.active_quota.update(count)
        self.quota.update(count)

    def previous_standby(self, task: Task, *, is_new: bool = True) -> str | None:
        """A model of Kafka's ``findPrevMemberWithLeastLoad``."""
        members = self.was_standby.get(task, [])
        if not is_new and not self.variant.only_first:
            members = [each for each in members if task not in self.process(each).tasks]
        if not members:
            return None
        found = members[0]
        for member_id in members[1:]:
            process = self.process(member_id)
            has_less = process.load < self.process(found).load
            if has_less and (is_new or task not in process.tasks):
                has_fewer = process.counts[member_id] < self.count(found)
                found = member_id if has_fewer else found
        return found if is_new or task not in self.process(members[0]).tasks else None

    def assign_standby(self) -> None:
        left: list[tuple[Task, int]] = []
        tasks = self.tasks(only_stateful=True)
        for task in sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True):
            for replica in range(self.replicas):
                if not self.keep_standby(task):
                    left.append((task, self.replicas - replica))
                    break
        queue = self.queue()
        for task, number in sorted(left, reverse=True):
            for _ in range(number):
                if not self.to_least_loaded(queue, task):
                    break

    def keep_standby(self, task: Task) -> bool:
        was_active = self.was_active.get(task)
        if was_active is not None and task in self.process(was_active).tasks:
            was_active = None
        for member_id in (was_active, self.previous_standby(task, is_new=False)):
            if member_id is not None and self.count(member_id) < self.quota.per_member:
                self.quota.update(self.process(member_id).add(member_id, task, active=False))
                return True
        return False

    def to_least_loaded(self, queue: Queue[str], task: Task) -> bool:
        process_id = queue.poll()
        if process_id is None:
            return False
        process = self.processes[process_id]
        if task in process.tasks:
            found = self.to_least_loaded(queue, task)
        else:
            self.quota.update(process.add_to_least_loaded(task, active=False))
            found = True
        queue.add(process_id)
        return found


def assign(
    members: Mapping[str, TaskMember],
    subtopologies: Mapping[str, SubtopologyTasks],
    replicas: int,
    variant: Variant,
) -> dict[str, TaskRoles]:
    model = _Model(members, subtopologies, replicas, variant)
    if members:
        model.assign_active()
    if replicas > 0:
        model.assign_standby()
    return {
        member_id: TaskRoles(
            _by_subtopology(model.process(member_id).active.get(member_id, ())),
            _by_subtopology(model.process(member_id).standby.get(member_id, ())),
        )
        for member_id in members
    }


def _tasks(tasks: Mapping[str, Sequence[int]]) -> list[Task]:
    return [(each, partition) for each, partitions in tasks.items() for partition in partitions]


def _by_subtopology(tasks: Iterable[Task]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for subtopology_id, partition in sorted(tasks):
        found[subtopology_id] = (*found.get(subtopology_id, ()), partition)
    return found
