"""The reconciliation of one member in single steps, and of a group of clients with random
targets."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from coordinator.consumer.reconcile import Owned, Towards, reconcile
from coordinator.consumer.states import MemberState
from offsets.consumer_records import AssignedEpochs, CurrentAssignment

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED
T, U = b"t" * 16, b"u" * 16


def member(
    epoch: int = 3,
    state: MemberState = STABLE,
    assigned: AssignedEpochs | None = None,
    revoking: AssignedEpochs | None = None,
    previous_epoch: int = 3,
) -> CurrentAssignment:
    return CurrentAssignment(epoch, previous_epoch, state, assigned or {}, revoking or {})


def step(
    before: CurrentAssignment,
    target: dict[bytes, tuple[int, ...]],
    owned: Owned | None,
    *,
    epoch: int = 4,
    subscribed: tuple[bytes, ...] = (T, U),
    held: dict[tuple[bytes, int], str] | None = None,
    changed: bool = False,
) -> CurrentAssignment:
    towards = Towards("a", epoch, target, subscribed, held or {})
    return reconcile(before, towards, owned, subscription_changed=changed)


def test_member_keeps_its_epoch_while_it_owns_partitions_to_revoke() -> None:
    before = member(assigned={T: {0: 2, 1: 2}})
    for owned in (None, {T: [0, 1]}):
        after = step(before, {T: (0,)}, owned)
        assert after == member(3, UNREVOKED, {T: {0: 2}}, {T: {1: 2}})


def test_member_gets_no_new_partition_in_the_step_that_revokes_partitions() -> None:
    after = step(member(assigned={T: {0: 2}}), {T: (1,)}, None)
    assert (after.state, after.assigned, after.revoking) == (UNREVOKED, {}, {T: {0: 2}})


def test_revocation_of_partitions_that_the_client_does_not_own_is_immediate() -> None:
    after = step(member(assigned={T: {0: 2, 1: 2}}), {T: (0,)}, {T: [0]})
    assert after == member(4, STABLE, {T: {0: 2}})


def test_revocation_is_confirmed_by_an_empty_list_but_not_by_a_null_list() -> None:
    before = member(3, UNREVOKED, {T: {0: 2}}, {T: {1: 2}})
    assert step(before, {T: (0,)}, None) is before
    assert step(before, {T: (0,)}, {T: [0, 1]}) is before
    assert step(before, {T: (0,)}, {T: [0]}) == member(4, STABLE, {T: {0: 2}})
    assert step(before, {T: (0,)}, {}) == member(4, STABLE, {T: {0: 2}})


def test_member_waits_for_a_partition_that_another_member_owns() -> None:
    held = {(T, 1): "b"}
    after = step(member(assigned={T: {0: 2}}), {T: (0, 1)}, None, held=held)
    assert after == member(4, UNRELEASED, {T: {0: 2}})
    again = step(after, {T: (0, 1)}, None, held=held)
    assert again == replace(after, previous_epoch=4)  # one more record, and no other after it
    assert step(again, {T: (0, 1)}, None, held=held) is again
    released = step(again, {T: (0, 1)}, None)
    assert (released.state, released.assigned) == (STABLE, {T: {0: 2, 1: 4}})


def test_free_partitions_are_assigned_before_other_members_release_their_partitions() -> None:
    after = step(member(), {T: (0, 1)}, {}, held={(T, 1): "b"})
    assert (after.state, after.assigned) == (UNRELEASED, {T: {0: 4}})


def test_revoked_partition_is_assigned_again_only_after_its_confirmation() -> None:
    before = member(3, UNREVOKED, {T: {0: 2}}, {T: {1: 2}})
    held = {(T, 0): "a", (T, 1): "a"}
    assert step(before, {T: (0, 1)}, {T: [0, 1]}, epoch=5, held=held) is before
    after = step(before, {T: (0, 1)}, {T: [0]}, epoch=5, held=held)
    assert (after.state, after.assigned) == (STABLE, {T: {0: 2, 1: 5}})


def test_unsubscribed_topic_is_revoked_before_the_next_target_is_known() -> None:
    before = member(assigned={T: {0: 2}, U: {0: 2}})
    after = step(before, {T: (0,), U: (0,)}, None, epoch=3, subscribed=(T,), changed=True)
    assert after == member(3, UNREVOKED, {T: {0: 2}}, {U: {0: 2}})
    gone = step(before, {T: (0,), U: (0,)}, {T: [0]}, epoch=3, subscribed=(T,), changed=True)
    assert gone == member(3, STABLE, {T: {0: 2}})


def test_revoking_member_must_also_revoke_partitions_of_a_topic_that_it_unsubscribes() -> None:
    before = member(3, UNREVOKED, {T: {0: 2}, U: {0: 2}}, {T: {1: 2}})
    after = step(before, {}, {T: [0, 1], U: [0]}, subscribed=(T,), changed=True)
    assert (after.state, after.revoking) == (UNREVOKED, {T: {1: 2}, U: {0: 2}})


def test_target_partitions_of_an_unsubscribed_topic_are_ignored() -> None:
    after = step(member(), {T: (0,), U: (0,)}, {}, subscribed=(T,))
    assert (after.state, after.assigned) == (STABLE, {T: {0: 4}})


def test_member_at_the_target_epoch_is_unchanged() -> None:
    before = member(4, assigned={T: {0: 2}})
    assert step(before, {T: (0,)}, None) is before
    assert step(before, {T: (0,)}, {T: [0]}, changed=True) is before


@pytest.mark.parametrize("owned", [None, {T: [0]}])
def test_member_with_unknown_state_becomes_stable_only_when_it_reports_no_owned_partition(
    owned: Owned | None,
) -> None:
    before = member(state=MemberState.UNKNOWN, assigned={T: {0: 2}})
    assert step(before, {T: (0,)}, owned) is before
    assert step(before, {T: (0,)}, {}).state is STABLE


class Clients:
    """The members of a group with one topic, and the partitions that the client processes own.
    Responses may be lost."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.partitions = self.random.randint(1, 8)
        self.members: dict[str, CurrentAssignment] = {}
        self.owned: dict[str, set[int]] = {}
        self.target: dict[str, tuple[int, ...]] = {}
        self.epoch = 1

    def retarget(self) -> None:
        """Computes a new target for the current members."""
        self.epoch += 1
        shares: dict[str, list[int]] = {name: [] for name in self.members}
        for partition in range(self.partitions):
            if shares:
                shares[self.random.choice(sorted(shares))].append(partition)
        self.target = {name: tuple(share) for name, share in shares.items()}

    def join(self, name: str) -> None:
        self.members[name] = CurrentAssignment()
        self.owned[name] = set()
        self.retarget()

    def leave(self, name: str) -> None:
        del self.members[name], self.owned[name]
        self.retarget()

    def heartbeat(self, name: str, *, says: bool, lost: bool) -> None:
        """Sends one heartbeat. It lists the owned partitions if ``says`` is true. The response is
        lost if ``lost`` is true."""
        before = self.members[name]
        owned = {T: sorted(self.owned[name])} if says else None
        holders = {
            (T, partition): owner
            for owner, each in self.members.items()
            for side in (each.assigned, each.revoking)
            for partition in side.get(T, {})
        }
        towards = Towards(name, self.epoch, {T: self.target[name]}, (T,), holders)
        after = reconcile(before, towards, owned, subscription_changed=False)
        self.members[name] = after
        if not lost:
            self.owned[name] = set(after.assigned.get(T, {}))

    def check(self) -> None:
        """Checks that no partition has two owners, either in the coordinator's state or among the
        processes."""
        held = [
            partition
            for each in self.members.values()
            for side in (each.assigned, each.revoking)
            for partition in side.get(T, {})
        ]
        assert len(held) == len(set(held))
        owned = [partition for each in self.owned.values() for partition in each]
        assert len(owned) == len(set(owned))
        for name, each in self.members.items():
            assert bool(each.revoking) == (each.state is UNREVOKED)
            mine = {*each.assigned.get(T, {}), *each.revoking.get(T, {})}
            assert self.owned[name] <= mine


@pytest.mark.parametrize("seed", range(40))
def test_random_groups_never_share_a_partition_and_always_become_stable(seed: int) -> None:
    clients = Clients(seed)
    names = [f"m{i}" for i in range(5)]
    for _ in range(120):
        absent = [name for name in names if name not in clients.members]
        present = sorted(clients.members)
        action = clients.random.random()
        if absent and (not present or action < 0.08):
            clients.join(clients.random.choice(absent))
        elif present and action < 0.12:
            clients.leave(clients.random.choice(present))
        elif present and action < 0.18:
            clients.retarget()
        elif present:
            name = clients.random.choice(present)
            says, lost = clients.random.random() < 0.6, clients.random.random() < 0.3
            clients.heartbeat(name, says=says, lost=lost)
        clients.check()
    for _ in range(4):  # revoke, confirm, receive what the others confirmed; one to spare
        for name in sorted(clients.members):
            clients.heartbeat(name, says=True, lost=False)
            clients.check()
    for name, each in clients.members.items():
        assert (each.state, each.epoch) == (STABLE, clients.epoch)
        assert tuple(sorted(each.assigned.get(T, {}))) == clients.target[name]
