"""The timers of a group: for the group's phase, for a member's session, and for a member id with
which no client has joined yet."""

from __future__ import annotations

from protocol.deadlines import Timer


class GroupTimer(Timer):
    """A timer of a group or of a member. ``group_id`` and ``member_id`` identify the owner.
    ``member_id`` is "" for a timer of the group."""

    __slots__ = ("group_id", "member_id")

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        super().__init__()
        self.group_id = group_id
        self.member_id = member_id
