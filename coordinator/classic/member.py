"""A member of a group: its protocols and timeouts, its parked request and its session."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from coordinator.calls import Ticket
from coordinator.timers import GroupTimer


class Member:
    """One member of a classic group; only the group that holds it changes it."""

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
        """Not None for a static member (KIP-345)."""
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        """How long others wait for it to rejoin."""
        self.protocols = tuple(protocols)
        """(name, metadata) in its order of preference; after a load only the selected one."""
        self.assignment = assignment
        """The assignment from the leader in this generation, as bytes; meaningless outside STABLE.
        """
        self.join_ticket: Ticket = None
        """Its parked JoinGroup. Not None only in PREPARING_REBALANCE."""
        self.sync_ticket: Ticket = None
        """Its parked SyncGroup. Not None only in AWAITING_SYNC."""
        self.waits = False
        """Invariant: whether either ticket is set. A heartbeat then leaves the session alone."""
        self.is_new = False
        """It entered, and no join phase has ended with it yet."""
        self.restored = False
        """It comes from the log and has not joined since: only one protocol of it is known."""
        self.knows_id = True
        """Its id was in a request of its own, or in a reply that was released."""
        self.connection: Hashable = None
        """By which its last JoinGroup, SyncGroup or Heartbeat came; None: unknown, or closed."""
        self.closed_ms: int | None = None
        """When that connection closed, monotonic; None while it is open, or unknown."""
        self.session = GroupTimer(group_id, member_id)
        """Ends its membership. Not armed while a request is parked, whatever becomes of the
        connection; but for a new member, whose first JoinGroup may wait only so long."""

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for this protocol; empty for one that it does not offer."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def offers(self, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Whether these are its protocols, order and bytes included."""
        return self.protocols == tuple(protocols)
