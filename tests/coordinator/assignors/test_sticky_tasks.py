"""Tests that the sticky task assignor returns the same targets as a model of Kafka's algorithm, and
keeps the guarantees that the docstring of `sticky_tasks` lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.assignors import sticky_tasks
from coordinator.assignors.sticky_tasks import (
    SubtopologyTasks,
    TaskMember,
    assign,
    assign_in_steps,
)
from offsets.streams_records import TaskRoles, Tasks
from tests.coordinator.assignors import kafka_sticky
from tests.coordinator.assignors.kafka_sticky import ASCENDING
from tests.coordinator.assignors.task_groups import (
    TaskGroup,
    joined,
    left,
    random_lives,
    with_previous,
)
from tests.instructions import instructions

Targets = Mapping[str, TaskRoles]
LIVES = 60


def owners(targets: Targets) -> dict[tuple[str, int], str]:
    return {
        (subtopology_id, partition): member_id
        for member_id, roles in targets.items()
        for subtopology_id, partitions in roles.active.items()
        for partition in partitions
    }


def number_of(tasks: Tasks) -> int:
    return sum(map(len, tasks.values()))


def check_target(group: TaskGroup, targets: Targets) -> None:
    """Checks all guarantees of a target, except stickiness."""
    members, subtopologies, replicas = group
    assert set(targets) == set(members)
    active: Counter[tuple[str, int]] = Counter()
    processes: dict[tuple[str, int], list[str]] = {}
    for member_id, roles in targets.items():
        assert roles.warmup == {}
        for tasks in (roles.active, roles.standby):
            for subtopology_id, partitions in tasks.items():
                assert partitions
                assert list(partitions) == sorted(set(partitions))
                for partition in partitions:
                    found = processes.setdefault((subtopology_id, partition), [])
                    found.append(members[member_id].process_id)
                    active[subtopology_id, partition] += tasks is roles.active
    every = [(name, each) for name, (count, _) in subtopologies.items() for each in range(count)]
    assert active == Counter(every)
    others = len({member.process_id for member in members.values()}) - 1
    for task, found in processes.items():
        expected = 1 + (min(replicas, others) if subtopologies[task[0]].stateful else 0)
        assert len(set(found)) == len(found) == expected
    highest = -(-len(every) // len(members))
    assert max(number_of(roles.active) for roles in targets.values()) <= highest


def check_kept(group: TaskGroup, targets: Targets) -> None:
    """Checks that each member keeps as many previous active tasks as its fair share allows."""
    share = sum(each.tasks for each in group.subtopologies.values()) // len(group.members)
    now = owners(targets)
    for member_id, member in group.members.items():
        previous = owners({member_id: member.previous})
        kept = sum(now.get(task) == member_id for task in previous)
        existing = sum(task in now for task in previous)
        assert kept >= min(share, existing)


def check_as_kafka(group: TaskGroup, targets: Targets) -> None:
    assert targets == kafka_sticky.assign(*group, ASCENDING)


def check_random_lives() -> None:
    """Checks the targets of random groups whose members join and leave."""
    for seed in range(LIVES):
        for group in random_lives(seed):
            targets = assign(*group)
            check_target(group, targets)
            check_kept(group, targets)
            check_as_kafka(group, targets)


def test_task_targets_of_randomly_changing_groups_are_valid_and_sticky_as_in_kafka() -> None:
    check_random_lives()


ids = st.sampled_from([f"m{number}" for number in range(9)])
partitions = st.lists(st.integers(0, 12), unique=True).map(sorted).map(tuple)


@st.composite
def groups(draw: st.DrawFn) -> TaskGroup:
    """Draws a group with an arbitrary previous target, which may contain tasks that do not
    exist."""
    subtopologies = draw(
        st.dictionaries(
            st.sampled_from(["0", "1", "2", "10"]),
            st.builds(SubtopologyTasks, st.integers(1, 9), st.booleans()),
            min_size=1,
        )
    )
    members = draw(st.lists(ids, min_size=1, unique=True))
    taken: dict[str, TaskRoles] = {}
    holders = st.sampled_from([None, *members])
    for subtopology_id in (*subtopologies, "gone"):
        rows = draw(st.lists(st.tuples(holders, holders), max_size=12))
        for partition, (active, standby) in enumerate(rows):
            for member_id, role in ((active, "active"), (standby, "standby")):
                if member_id is not None:
                    roles = taken.setdefault(member_id, TaskRoles({}, {}))
                    tasks: dict[str, tuple[int, ...]] = getattr(roles, role)
                    tasks[subtopology_id] = (*tasks.get(subtopology_id, ()), partition)
    processes = st.sampled_from(["p0", "p1", "p2"])
    return TaskGroup(
        {each: TaskMember(draw(processes), taken.get(each, TaskRoles())) for each in members},
        subtopologies,
        draw(st.integers(0, 3)),
    )


@given(groups())
def test_new_task_target_is_balanced_and_sticky_for_any_previous_target(group: TaskGroup) -> None:
    targets = assign(*group)
    check_target(group, targets)
    check_kept(group, targets)
    check_as_kafka(group, targets)


@given(groups(), st.randoms(use_true_random=False))
def test_task_target_does_not_depend_on_the_order_of_the_input(
    group: TaskGroup, random: Random
) -> None:
    members, subtopologies = list(group.members.items()), list(group.subtopologies.items())
    random.shuffle(members)
    random.shuffle(subtopologies)
    assert assign(dict(members), dict(subtopologies), group.replicas) == assign(*group)


@given(groups())
def test_active_tasks_do_not_move_in_an_unchanged_group(group: TaskGroup) -> None:
    new = with_previous(group, {})
    targets = assign(*new)
    assert owners(assign(*with_previous(new, targets))) == owners(targets)


@given(groups(), st.integers(1, 3))
def test_no_task_moves_in_an_unchanged_group_with_equally_loaded_processes(
    group: TaskGroup, threads: int
) -> None:
    new = with_previous(group, {})
    members = {
        f"{member_id}-{thread}": TaskMember(member_id, TaskRoles())
        for member_id in new.members
        for thread in range(threads)
    }
    new = new._replace(members=members)
    targets = assign(*new)
    assert assign(*with_previous(new, targets)) == targets


@given(groups(), ids)
def test_only_the_active_tasks_of_a_leaving_member_move(group: TaskGroup, leaver: str) -> None:
    group = joined(with_previous(group, {}), leaver, "p1")
    group = joined(group, "other", "p2")
    before = assign(*group)
    after = owners(assign(*left(with_previous(group, before), leaver)))
    for task, member_id in owners(before).items():
        assert member_id in (leaver, after[task])


@pytest.mark.parametrize("replicas", [0, 1])
def test_streams_group_without_members_gets_an_empty_target(replicas: int) -> None:
    assert assign({}, {"0": SubtopologyTasks(4, True)}, replicas) == {}


def test_members_of_a_new_streams_group_get_tasks_in_turn() -> None:
    members = {name: TaskMember(f"p-{name}", TaskRoles()) for name in ("a", "b")}
    targets = assign(members, {"0": SubtopologyTasks(3, True), "1": SubtopologyTasks(2, False)}, 1)
    assert targets == {
        "a": TaskRoles({"0": (0, 2), "1": (1,)}, {"0": (1,)}),
        "b": TaskRoles({"0": (1,), "1": (0,)}, {"0": (0, 2)}),
    }


def test_standby_of_a_lost_member_becomes_active() -> None:
    group = TaskGroup(
        {name: TaskMember(f"p-{name}", TaskRoles()) for name in ("a", "b", "c")},
        {"0": SubtopologyTasks(3, True)},
        1,
    )
    before = assign(*group)
    (lost,) = before["a"].active["0"]
    (heir,) = [name for name in "bc" if lost in before[name].standby["0"]]
    after = assign(*left(with_previous(group, before), "a"))
    assert after[heir].active["0"] == tuple(sorted((lost, *before[heir].active["0"])))


def large(members: int, tasks: int, replicas: int) -> TaskGroup:
    group = TaskGroup(
        {f"m{each:04}": TaskMember(f"p{each // 4:04}", TaskRoles()) for each in range(members)},
        {name: SubtopologyTasks(tasks // 2, True) for name in ("0", "1")},
        replicas,
    )
    return with_previous(group, assign(*group))


@pytest.mark.parametrize("change", [left, lambda group, _: with_previous(group, {})])
def test_work_of_the_task_assignor_is_linear_in_the_number_of_tasks(
    change: Callable[[TaskGroup, str], TaskGroup],
) -> None:
    small, big = (change(large(n, 10 * n, 1), "m0000") for n in (40, 160))
    few = instructions(lambda: assign(*small))
    assert instructions(lambda: assign(*big)) < 4.6 * few


@pytest.mark.parametrize("change", [left, lambda group, _: with_previous(group, {})])
def test_each_step_of_the_task_assignor_is_short_for_a_large_group(
    change: Callable[[TaskGroup, str], TaskGroup],
) -> None:
    group = change(large(100, 4000, 1), "m0000")
    steps = assign_in_steps(*group)
    works = []
    while True:
        works.append(instructions(lambda: next(steps, None)))
        if steps.gi_frame is None:
            break
    assert max(works) < 0.2 * sum(works)


Plant = Callable[[pytest.MonkeyPatch], None]


def no_owner_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sticky_tasks._Assignment, "_keep_active", lambda _, tasks: list(tasks))


def quota_does_not_fall(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sticky_tasks._Quota, "fill", lambda quota: quota.per_member)


def standbys_do_not_become_active(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sticky_tasks._Assignment, "_activate_standbys", lambda _, tasks: list(tasks))


def first_standby_is_taken_whatever_its_load(patch: pytest.MonkeyPatch) -> None:
    def least_loaded(_: object, members: Sequence[int], _holders: Sequence[int]) -> int:
        return members[0] if members else -1

    patch.setattr(sticky_tasks._Assignment, "_least_loaded", least_loaded)


def capacity_of_processes_is_ignored(patch: pytest.MonkeyPatch) -> None:
    real = sticky_tasks.by_load

    def by_load(sizes: list[int], capacities: list[int], number: int) -> list[int]:
        return real(sizes, [1] * len(capacities), number)

    patch.setattr(sticky_tasks, "by_load", by_load)


def process_gets_a_task_twice(patch: pytest.MonkeyPatch) -> None:
    real = sticky_tasks.ProcessesByLoad.take
    patch.setattr(
        sticky_tasks.ProcessesByLoad, "take", lambda self, _, number: real(self, [], number)
    )


def stateless_tasks_get_standbys(patch: pytest.MonkeyPatch) -> None:
    real = sticky_tasks._Assignment.assign_standby

    def assign_standby(self: sticky_tasks._Assignment) -> object:
        self._stateful = list(self._ranges.values())
        return real(self)

    patch.setattr(sticky_tasks._Assignment, "assign_standby", assign_standby)


@pytest.mark.planted("targets of streams groups")
@pytest.mark.parametrize(
    "plant",
    [
        no_owner_is_kept,
        quota_does_not_fall,
        standbys_do_not_become_active,
        first_standby_is_taken_whatever_its_load,
        capacity_of_processes_is_ignored,
        process_gets_a_task_twice,
        stateless_tasks_get_standbys,
    ],
    ids=lambda plant: plant.__name__,
)
def test_checks_of_task_targets_find_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check_random_lives()
