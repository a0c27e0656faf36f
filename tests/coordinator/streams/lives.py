"""Random histories of a streams group, with checks after each step."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from coordinator.outcome import StreamsHeartbeatReply
from coordinator.streams.group import StreamsGroup
from coordinator.streams.states import MemberState, Task
from offsets.streams_records import Tasks
from tests.coordinator.streams.groups import GROUP, STATEFUL, STORE, SUB, StreamsGroups


class Clients(StreamsGroups):
    """A shard with streams groups, and the active tasks that each client runs. A client runs the
    tasks that it last listed, and the tasks that it has received after that."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.running: dict[str, set[Task]] = {}

    def send(self, member_id: str, epoch: int, **fields: Any) -> StreamsHeartbeatReply:
        listed = fields.get("active")
        reply = super().send(member_id, epoch, **fields)
        if epoch <= 0 or listed is not None or reply.error_code:
            self.running[member_id] = set() if reply.error_code else _tasks(listed or {})
        self.running.setdefault(member_id, set()).update(
            _tasks(reply.assignment.active if reply.assignment else {})
        )
        return reply


def _tasks(tasks: Tasks) -> set[Task]:
    return {(name, number) for name, numbers in tasks.items() for number in numbers}


def live(seed: int) -> None:
    """Runs a random history of a streams group.

    After each step, no active task is at two members, and a shard that is loaded from the log has
    the same group. At the end, each member owns its target assignment.
    """
    rng = random.Random(seed)
    groups = Clients(
        interval_ms=rng.choice((0, 1_000)),
        delay_ms=rng.choice((0, 3_000)),
        standby=rng.choice((0, 1, 2)),
    )
    groups.topic("t", 8)
    groups.topic(STORE.name, 8)
    for _ in range(100):
        group = groups.shard.view.streams_groups.get(GROUP)
        known = list(group.members) if group else []
        match rng.choice("jjjbbbbbbbbbbbbbbblwtp"):
            case "j":
                process = f"p{rng.randrange(3)}"
                groups.join(f"m{rng.randrange(6)}", topology=STATEFUL, process_id=process)
            case "b" if group and known:
                beat(groups, group, rng.choice(known), rng)
            case "l" if known:
                groups.send(rng.choice(known), -1)
            case "w":
                groups.pass_ms(rng.choice((100, 1_000, 1_000, 3_000, 20_000)))
            case "t":
                count = rng.choice((4, 8))
                groups.topic("t", rng.choice((count, count, count, -1)))
                groups.topic(STORE.name, rng.choice((count, count, count, -1)))
            case "p" if group and known:
                member_id = rng.choice(known)
                epoch = group.members[member_id].current.epoch
                groups.send(member_id, epoch, process_id=f"p{rng.randrange(3)}")
        check_tasks(groups)
        groups.check_loaded()
    finish(groups)


def beat(groups: Clients, group: StreamsGroup, member_id: str, rng: random.Random) -> None:
    """Sends a heartbeat with the current or the previous epoch. The heartbeat lists no tasks, or
    the assigned tasks, or the assigned and the revoking tasks."""
    current = group.members[member_id].current
    epoch = rng.choice((current.epoch, current.epoch, current.previous_epoch))
    if not epoch or rng.random() < 0.3:
        groups.send(member_id, epoch or current.epoch)
        return
    active = {name: tuple(tasks) for name, tasks in current.active.items()}
    if rng.random() < 0.3:
        for name, tasks in current.revoking_active.items():
            active[name] = tuple(sorted((*active.get(name, ()), *tasks)))
    groups.owning(member_id, epoch, active=active, standby=current.standby)


def check_tasks(groups: Clients) -> None:
    """Checks that each active task is assigned to at most one member and runs at most once. Checks
    that exactly the members that must give up tasks have a deadline."""
    group = groups.shard.view.streams_groups.get(GROUP)
    holders: Counter[Task] = Counter()
    known = group.members if group else {}
    runs = Counter(task for each in known for task in groups.running[each])
    for member in known.values():
        current = member.current
        for tasks in (current.active, current.revoking_active):
            holders.update((name, number) for name, numbers in tasks.items() for number in numbers)
        is_armed = member.rebalance.due_ms < 1 << 62
        assert is_armed == (current.state == MemberState.UNREVOKED)
    assert not [task for task, count in (*holders.items(), *runs.items()) if count > 1]


def finish(groups: Clients) -> None:
    """Lets all members send heartbeats, and checks that each task then has one active member.
    Checks the same after topics have changed and a member has joined."""
    for name in ("t", STORE.name):
        groups.topic(name, 8)
    groups.join("last", topology=STATEFUL)
    check_targets(groups, 8)
    for name in ("t", STORE.name):
        groups.topic(name, 12)
    check_targets(groups, 12)
    groups.join("newest", topology=STATEFUL)
    check_targets(groups, 12)
    groups.check_loaded()


def check_targets(groups: Clients, tasks: int) -> None:
    for _ in range(8):
        groups.now_ms += 4_000
        groups.pass_ms(0)
        groups.settle()
    group = groups.group
    for member_id, member in group.members.items():
        current, target = member.current, group.targets[member_id]
        assert groups.active(member_id) == target.active
        assert (current.standby, current.epoch) == (target.standby, group.epoch.epoch)
    active = [task for each in group.targets.values() for task in each.active.get(SUB, ())]
    assert sorted(active) == list(range(tasks))
