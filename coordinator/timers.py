"""The timers of groups: of a phase, of a member's session and of a pending member id."""

from __future__ import annotations

from protocol.deadlines import Timer


class GroupTimer(Timer):
    """A timer of a group or a member; ``group_id`` and ``member_id`` name the owner, "": no
    owner."""

    __slots__ = ("group_id", "member_id")

    def __init__(self, group_id: str = "", member_id: str = "") -> None:
        super().__init__()
        self.group_id = group_id
        self.member_id = member_id
