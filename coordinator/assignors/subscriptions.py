"""The input of an assignor, and the assignment that the assignor returns.

A topic is represented by its id (16 bytes), the partitions of a topic by an ascending tuple of
their numbers. Topics that do not exist are not in the input. Results depend only on the input, not
on hash orders.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from offsets.consumer_records import Assignment


class Subscriber(NamedTuple):
    """The properties of a member on which an assignor depends."""

    member_id: str
    group_instance_id: str | None
    topics: Collection[bytes]
    """The ids of the topics to which the member subscribes, by name or by regex."""


class GroupSubscriptions(NamedTuple):
    """The input of an assignor: the members, the topics and the previous target."""

    members: Sequence[Subscriber]
    partitions: Mapping[bytes, int]
    target: Mapping[str, Assignment]
    homogeneous: bool
    """True if all members have the same subscription: either the same topic names and no regex, or
    the same regex and no topic names (Kafka 4.3.1, ``ModernGroup``)."""
