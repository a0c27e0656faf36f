"""Events of streams groups, each emitted once. Streams groups also emit events of consumer groups,
such as `EpochBumped`."""

from __future__ import annotations

from protocol.slotted import slotted


@slotted
class TopologyChecked:
    """The topics of a group's topology were checked, and the result differs from the previous
    check."""

    group_id: str
    code: int
    """Kafka's status code of the problem; 0 if all topics exist with the right number of
    partitions."""
    detail: str
    """Kafka's text of the status; "" if the topology has no problem."""


@slotted
class FirstTargetDelayed:
    """The coordinator delays the first target of a group by the initial rebalance delay, so that
    the target includes members that join during the delay."""

    group_id: str
    delay_ms: int


@slotted
class ShutdownRequested:
    """A member requested the shutdown of the application. Every heartbeat response of the group has
    the status SHUTDOWN_APPLICATION until the group is empty."""

    group_id: str
    member_id: str
    who: str
    """The member's name in log lines and in the journal."""


StreamsEvent = TopologyChecked | FirstTargetDelayed | ShutdownRequested
