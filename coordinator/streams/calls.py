"""Calls of streams groups; `coordinator/calls.py` describes calls."""

from __future__ import annotations

from typing import Any

from offsets.streams_records import Endpoint, TaskRoles, Tasks, Topology
from protocol.slotted import slotted

Ticket = Any


@slotted
class StreamsHeartbeat:
    """StreamsGroupHeartbeat v0 and v1 (KIP-1071). A field that is None or -1 has not changed since
    the last request that contained it."""

    ticket: Ticket
    group_id: str
    member_id: str
    member_epoch: int
    """0: the member joins or rejoins. -1: the member leaves. Another value: the epoch of the last
    response."""
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active: Tasks | None = None
    standby: Tasks | None = None
    warmup: Tasks | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    """The client's tags, sorted by key."""
    endpoint_epoch: int = 0
    """The endpoint epoch in the last response that contained endpoints."""
    shutdown_application: bool = False
    has_task_offsets: bool = False
    has_task_end_offsets: bool = False

    @property
    def owned(self) -> TaskRoles | None:
        """Returns the tasks that the member lists as owned; None if one of the task lists in the
        request is null."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return TaskRoles(self.active, self.standby, self.warmup)

    @property
    def reports_no_change(self) -> bool:
        """Returns whether the request has only the ids, the member epoch and the endpoint epoch."""
        return (
            self.active is self.standby is self.warmup is None
            and self.rack_id is None
            and self.rebalance_timeout_ms == -1
            and self.topology is None
            and self.process_id is None
            and self.user_endpoint is None
            and self.client_tags is None
            and not self.shutdown_application
            and self.instance_id is None
            and not self.has_task_offsets
            and not self.has_task_end_offsets
        )


@slotted
class StreamsGroupDescribe:
    """One group of a StreamsGroupDescribe."""

    ticket: Ticket
    group_id: str
