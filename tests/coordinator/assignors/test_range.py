"""The range assignor returns the result of Kafka 4.3.1 for an example, and follows the rules of
Kafka's assignor."""

from __future__ import annotations

from coordinator.assignors import range as range_assignor
from coordinator.assignors.subscriptions import GroupSubscriptions, Subscriber

A, B, C = (bytes(15) + bytes([i]) for i in range(1, 4))


def test_range_assignment_equals_that_of_kafka() -> None:
    members = [
        Subscriber("m1", None, (A, B)),
        Subscriber("m3", None, (A, B)),
        Subscriber("m2", "z9", (A, B, C)),
        Subscriber("m9", "b1", (A,)),
    ]
    target = range_assignor.assign(GroupSubscriptions(members, {A: 5, B: 4, C: 2}, {}, False))
    assert target == {
        "m9": {A: (0, 1)},
        "m2": {A: (2,), B: (0, 1), C: (0, 1)},
        "m1": {A: (3,), B: (2,)},
        "m3": {A: (4,), B: (3,)},
    }


def test_last_members_get_no_partition_when_members_exceed_partitions() -> None:
    members = [Subscriber(f"m{i}", None, (A,)) for i in range(3)]
    target = range_assignor.assign(GroupSubscriptions(members, {A: 2}, {}, True))
    assert target == {"m0": {A: (0,)}, "m1": {A: (1,)}, "m2": {}}


def test_range_assignor_ignores_a_topic_that_does_not_exist() -> None:
    members = [Subscriber("m0", None, (A, B))]
    target = range_assignor.assign(GroupSubscriptions(members, {A: 1}, {}, True))
    assert target == {"m0": {A: (0,)}}


def test_range_assignor_orders_member_ids_by_utf_16_code_units() -> None:
    high, surrogate = "\uffee", "\U0001f600"  # Java: the surrogate pair begins with d83d
    members = [Subscriber(high, None, (A,)), Subscriber(surrogate, None, (A,))]
    target = range_assignor.assign(GroupSubscriptions(members, {A: 1}, {}, True))
    assert target == {surrogate: {A: (0,)}, high: {}}
