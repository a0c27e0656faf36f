"""A member of a classic group: its protocols and timeouts, its parked request and its session."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from coordinator.calls import Ticket
from coordinator.timers import GroupTimer


class Member:
    """One member of a classic group. Only the group changes the member."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "closed_ms",
        "connection",
        "group_instance_id",
        "is_new",
        "join_ticket",
        "knows_id",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "restored",
        "session",
        "session_timeout_ms",
        "sync_ticket",
        "waits",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Sequence[tuple[str, bytes]],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        """The instance id of a static member (KIP-345); None for a dynamic member."""
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        """Milliseconds for which a rebalance waits for the member to rejoin."""
        self.protocols = tuple(protocols)
        """The name and the metadata of each protocol, in the member's order of preference. After
        the group was loaded from the log, only the selected protocol is known."""
        self.assignment = assignment
        """The encoded assignment that the leader computed for the member in this generation. It is
        valid only in STABLE."""
        self.join_ticket: Ticket = None
        """The ticket of the parked JoinGroup; always None outside PREPARING_REBALANCE."""
        self.sync_ticket: Ticket = None
        """The ticket of the parked SyncGroup; always None outside AWAITING_SYNC."""
        self.waits = False
        """True if a JoinGroup or SyncGroup of the member is parked. While a request is parked, a
        heartbeat does not extend the session."""
        self.is_new = False
        """True until the first join phase of the member has ended."""
        self.restored = False
        """True if the member was loaded from the log and has not joined since. Only one of its
        protocols is then known."""
        self.knows_id = True
        """True if the client knows the member id, because it sent the id or received the id in a
        reply."""
        self.connection: Hashable = None
        """The connection of the member's last JoinGroup, SyncGroup or Heartbeat; None if unknown or
        closed."""
        self.closed_ms: int | None = None
        """The monotonic time in ms at which the member's last connection closed; None if the
        connection is open or its state is unknown."""
        self.session = GroupTimer(group_id, member_id)
        """The timer that removes the member when its session expires. While a request of the member
        is parked, the timer is not armed, even if the member's connection closes. The only
        exception is the first JoinGroup of a new member."""

    reconciliation = None
    """Always None: only members of consumer, share and streams groups have a reconciliation."""
    subscription = None
    """Always None: in a classic group ``protocols`` contain the subscribed topics."""

    def metadata(self, protocol_name: str | None) -> bytes:
        """Returns the member's metadata for this protocol; empty if the member does not offer the
        protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def offers(self, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Returns whether ``protocols`` equal the member's protocols, in order and content."""
        return self.protocols == tuple(protocols)
