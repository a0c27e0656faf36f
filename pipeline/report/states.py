"""What a group's state is called, and what it means, worst first."""

from __future__ import annotations

from typing import Final, NamedTuple


class State(NamedTuple):
    """One word for how a group does."""

    name: str
    meaning: str
    bad: bool


DROWNING: Final = State("drowning", "it reads, and falls further behind", True)
STUCK: Final = State("stuck", "records wait, and it reads none", True)
OUT_OF_RANGE: Final = State(
    "out of range", "it committed offsets that lie beyond the end of its topic", True
)
NOBODY: Final = State("nobody runs it", "records wait, and it has no member", True)
BEHIND: Final = State("behind", "it is above a threshold, and falls no further behind", True)
UNKNOWN: Final = State("not known", "the history does not say how far behind it is", False)
KEEPS_UP: Final = State("keeps up", "its lag is below every threshold", False)
EMPTY: Final = State("empty", "it has no member, and nothing is unread", False)
DEAD: Final = State("dead", "it has no member, and all its offsets have expired or are gone", False)
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
