"""Events of streams groups, each emitted once. Streams groups also emit events of consumer groups,
such as `EpochBumped`."""

from __future__ import annotations

from protocol.slotted import slotted


@slotted
class TopologyChecked:
    """The topics of a group's topology were checked, with another result than before."""

    group_id: str
    code: int
    """Kafka's status code of the problem; 0 if all topics exist with the right partitions."""
    detail: str
    """Kafka's text of the status; "" without a problem."""


@slotted
class FirstTargetDelayed:
    """The first target of a group waits for further members."""

    group_id: str
    delay_ms: int


@slotted
class ShutdownRequested:
    """A member requested the shutdown of the application. Every response has this status until the
    group is empty."""

    group_id: str
    member_id: str
    who: str
    """The member's name for sentences."""


StreamsEvent = TopologyChecked | FirstTargetDelayed | ShutdownRequested
