"""The names and meanings of a group's states, worst first."""

from __future__ import annotations

from typing import Final, NamedTuple


class State(NamedTuple):
    """The state of a group."""

    name: str
    meaning: str
    bad: bool


DROWNING: Final = State("drowning", "it reads, but its lag grows", True)
STUCK: Final = State("stuck", "it has unread records and reads none", True)
OUT_OF_RANGE: Final = State("out of range", "it committed offsets above the log end offset", True)
NOBODY: Final = State("nobody runs it", "it has unread records and no members", True)
BEHIND: Final = State("behind", "it is above a threshold, but its lag does not grow", True)
UNKNOWN: Final = State("not known", "the history does not show its lag", False)
KEEPS_UP: Final = State("keeps up", "its lag is below every threshold", False)
EMPTY: Final = State("empty", "it has no members and no unread records", False)
DEAD: Final = State(
    "dead", "it has no members, and all its offsets have expired or were deleted", False
)
DELETED: Final = State("deleted", "it was deleted", False)

STATES: Final = {
    state.name: state
    for state in (
        DROWNING,
        STUCK,
        OUT_OF_RANGE,
        NOBODY,
        BEHIND,
        UNKNOWN,
        KEEPS_UP,
        EMPTY,
        DEAD,
        DELETED,
    )
}
