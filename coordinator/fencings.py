"""Static members whose `group.instance.id` two living processes use.

Each join of the one fences the other, which starts again and fences the first. A process that has
restarted fences nobody: the connection of the member that it replaces has closed.
"""

from __future__ import annotations

from dataclasses import field

from coordinator.returns import TIMES_KEPT, Streak
from journal.texts import long_bytes
from protocol.now import Now
from protocol.slotted import slotted

INSTANCES_KEPT = 64
_FENCING_BYTES = 700


@slotted
class Fencing:
    """An instance id, and the last two processes of which one fenced the other."""

    instance: str
    member_id: str = ""
    """That of the process that joined last."""
    client_id: str = ""
    client_host: str = ""
    other_client_id: str = ""
    """Of the process that was fenced last."""
    other_client_host: str = ""
    recent_ms: list[int] = field(default_factory=list)
    """Wall times of the last fencings, the latest last."""
    streak: Streak = field(default_factory=Streak)
    """The last fencings without a long pause between them."""

    def note(
        self, member_id: str, client: tuple[str, str], other: tuple[str, str], now: Now
    ) -> None:
        """A process has joined and fenced another one."""
        self.member_id = member_id
        self.client_id, self.client_host = client
        self.other_client_id, self.other_client_host = other
        self.recent_ms = [*self.recent_ms[1 - TIMES_KEPT :], now.wall_ms]
        self.streak.note(now.wall_ms)

    def size(self) -> int:
        """Estimated bytes."""
        clients = long_bytes(self.client_id, self.other_client_id)
        return _FENCING_BYTES + long_bytes(self.instance, self.member_id) + clients
