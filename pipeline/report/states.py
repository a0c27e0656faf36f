"""The names and the meanings of the states of groups, worst first."""

from __future__ import annotations

from typing import Final, NamedTuple


class State(NamedTuple):
    """A state of a group that the report shows."""

    name: str
    meaning: str
    bad: bool


DROWNING: Final = State("drowning", "the group reads, but its lag grows", True)
STUCK: Final = State("stuck", "the group has unread records, but reads no records", True)
OUT_OF_RANGE: Final = State(
    "out of range", "the group committed offsets above the log end offset", True
)
NOBODY: Final = State("nobody runs it", "the group has unread records and no members", True)
BEHIND: Final = State("behind", "the lag is above a threshold, but does not grow", True)
UNKNOWN: Final = State("not known", "the history does not show the lag of the group", False)
KEEPS_UP: Final = State("keeps up", "the lag is below every threshold", False)
EMPTY: Final = State("empty", "the group has no members and no unread records", False)
DEAD: Final = State(
    "dead", "the group has no members, and all its offsets have expired or were deleted", False
)
DELETED: Final = State("deleted", "the group was deleted", False)

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
