"""The input of an assignor, and the assignment that it returns.

Topics are named by their ids (16 bytes), partitions by their numbers, ascending in a tuple. Topics
that do not exist are not in the input. Results depend on the input alone, not on hash orders.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from offsets.consumer_records import Assignment


class Subscriber(NamedTuple):
    """A member as an assignor sees it."""

    member_id: str
    group_instance_id: str | None
    topics: Collection[bytes]
    """Ids of the topics that it subscribes to, by name or by regex."""


class GroupSubscriptions(NamedTuple):
    """The input of an assignor."""

    members: Sequence[Subscriber]
    partitions: Mapping[bytes, int]
    """The number of partitions of each subscribed topic."""
    target: Mapping[str, Assignment]
    """The target assignment until now, by member id."""
    homogeneous: bool
    """Whether all members have the same subscription: no regex and every subscribed name has all
    members, or one regex that all members have (Kafka 4.3.1, ``ModernGroup``)."""
