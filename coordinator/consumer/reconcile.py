"""Reconciliation: one step of a member from its current assignment towards its target assignment.

A member gives up partitions, then confirms that it has given them up, then receives the partitions
of its target that no other member holds. Each heartbeat makes at most one step. A member *holds* a
partition while the partition is assigned to it or revoking. Other members do not receive the
partition until the holder has confirmed.

Source: KIP-848; Kafka 4.3.1 ``CurrentAssignmentBuilder``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from coordinator.consumer.states import MemberState
from offsets.consumer_records import AssignedEpochs, Assignment, CurrentAssignment

Owned = Mapping[bytes, Collection[int]]
"""The partitions that a member's heartbeat lists as owned, by topic id."""

Holders = Mapping[tuple[bytes, int], str]
"""The id of the member that holds each partition, by (topic id, partition)."""


class Towards(NamedTuple):
    """The target of one reconciliation of a member: its target assignment, its subscribed topics,
    and the members that hold the partitions."""

    member_id: str

    epoch: int
    target: Assignment
    subscribed: Collection[bytes]
    """The ids of the topics to which the member currently subscribes, by name or by regex."""
    holders: Holders


def reconcile(
    current: CurrentAssignment, towards: Towards, owned: Owned | None, *, subscription_changed: bool
) -> CurrentAssignment:
    """Returns the member's assignment after one step. If the assignment does not change, returns
    the same object.

    ``owned`` are the partitions that the member's request lists. If it is None, the member may
    still own all partitions that were assigned to it. ``subscription_changed`` is true if this
    request changed the member's subscription.
    """
    match current.state:
        case MemberState.STABLE:
            if current.epoch != towards.epoch:
                return _next(current, towards, owned)
            return _trim(current, towards, owned) if subscription_changed else current
        case MemberState.UNREVOKED:
            if _owns_any(owned, current.revoking):
                return _trim(current, towards, owned) if subscription_changed else current
            return _next(current, towards, owned)
        case MemberState.UNRELEASED:
            return _next(current, towards, owned)
        case _:
            return _next(current, towards, owned) if owned is not None and not owned else current


def _next(current: CurrentAssignment, towards: Towards, owned: Owned | None) -> CurrentAssignment:
    """Returns the assignment of a member after its next step. Call this only if the member has
    confirmed all earlier revocations."""
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    given: dict[bytes, list[int]] = {}
    waits = False
    for topic in sorted({*towards.target, *current.assigned}):
        target = towards.target.get(topic, ()) if topic in towards.subscribed else ()
        assigned = current.assigned.get(topic, {})
        for partition, epoch in assigned.items():
            side = kept if partition in target else revoked
            side.setdefault(topic, {})[partition] = epoch
        for partition in target:
            if partition in assigned:
                continue
            holder = towards.holders.get((topic, partition))
            if holder is None or holder == towards.member_id:
                given.setdefault(topic, []).append(partition)
            else:
                waits = True
    if revoked and _owns_any(owned, revoked):
        return _changed(current, current.epoch, MemberState.UNREVOKED, kept, revoked)
    for topic, partitions in given.items():
        given_epochs = {**kept.get(topic, {}), **dict.fromkeys(partitions, towards.epoch)}
        kept[topic] = dict(sorted(given_epochs.items()))
    state = MemberState.UNRELEASED if waits else MemberState.STABLE
    return _changed(current, towards.epoch, state, kept, {})


def _trim(current: CurrentAssignment, towards: Towards, owned: Owned | None) -> CurrentAssignment:
    """Returns the assignment without the topics to which the member no longer subscribes. Used when
    the subscription has changed and no new target exists yet."""
    kept = {t: epochs for t, epochs in current.assigned.items() if t in towards.subscribed}
    if len(kept) == len(current.assigned):
        return current
    revoked: dict[bytes, Mapping[int, int]] = dict(current.revoking)
    for topic, epochs in current.assigned.items():
        if topic not in kept:
            revoked[topic] = {**revoked.get(topic, {}), **epochs}
    if _owns_any(owned, revoked):
        return _changed(current, current.epoch, MemberState.UNREVOKED, kept, revoked)
    return _changed(current, current.epoch, current.state, kept, current.revoking)


def _owns_any(owned: Owned | None, partitions: AssignedEpochs) -> bool:
    """Returns True if the member may still own one of ``partitions``. ``owned`` has the partitions
    that the member's request lists. It is None if the request has no list: the member may then own
    all partitions."""
    if owned is None:
        return bool(partitions)
    return any(
        partition in owned[topic]
        for topic, epochs in partitions.items()
        if topic in owned
        for partition in epochs
    )


def _changed(
    current: CurrentAssignment,
    epoch: int,
    state: int,
    assigned: AssignedEpochs,
    revoking: AssignedEpochs,
) -> CurrentAssignment:
    """Returns an assignment with these values. If ``current`` has the same values, returns
    ``current``."""
    values = (epoch, current.epoch, state, assigned, revoking)
    if values == (
        current.epoch,
        current.previous_epoch,
        current.state,
        current.assigned,
        current.revoking,
    ):
        return current
    return CurrentAssignment(*values)
