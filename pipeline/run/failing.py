"""Finds the groups in the states of `--fail-on`, which make a command fail.

The states are the states of the report, derived from the verdict of each partition in CATCH_UP: a
group that is drowning in one partition and stuck in another partition has both states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from client.spelling import MisspelledError
from pipeline.engines.engine import Engine
from pipeline.report.labels import counted
from pipeline.report.states import DROWNING, NOBODY, OUT_OF_RANGE, STUCK
from pipeline.sql import lag
from pipeline.sql.sums import whole_sum

STATES: Final = {
    DROWNING.name: lag.FALLING_BEHIND,
    STUCK.name: lag.STOPPED,
    NOBODY.name: lag.NOBODY,
    OUT_OF_RANGE.name: lag.OUT_OF_RANGE,
}
"""The verdict in CATCH_UP by state."""
LONG_MAX: Final = 2**63 - 1
_NAMED: Final = 8
"""The maximum number of groups in the sentence of a state."""


@dataclass(frozen=True)
class Failing:
    """A group with partitions in a state that `--fail-on` names."""

    state: str
    group_id: str
    partitions: int
    lag_records: int
    """The number of unread records in these partitions."""


def states_of(text: str) -> tuple[str, ...]:
    """Parse states that are separated by commas and have dashes for spaces; remove duplicates.

    Raise MisspelledError for an unknown state.
    """
    named = {name.replace(" ", "-"): name for name in STATES}
    found = []
    for word in text.split(","):
        if word.strip() not in named:
            raise MisspelledError(f"unknown state {word.strip()!r}: choose from {', '.join(named)}")
        found.append(named[word.strip()])
    return tuple(dict.fromkeys(found))


def failing(engine: Engine, states: Sequence[str], *, with_dead: bool) -> tuple[Failing, ...]:
    """Find the groups in these states in the engine's CATCH_UP; per state, the group with the most
    unread records is first.

    With ``with_dead``, DEAD_GROUPS exists too: a dead group then has no state except drowning.
    """
    d = engine.dialect
    found: list[Failing] = []
    dead = "SELECT group_id FROM dead_groups" if with_dead else ""
    for state in states:
        lives = f" AND group_id NOT IN ({dead})" if dead and state != DROWNING.name else ""
        rows = engine.ask(f"""
            SELECT group_id, count(*) AS partitions,
                coalesce({whole_sum("greatest(lag_records, 0)")}, {LONG_MAX}) AS unread
            FROM catch_up WHERE verdict = {d.text(STATES[state])}{lives}
            GROUP BY group_id ORDER BY unread DESC, group_id
        """)
        found += [Failing(state, *row.values()) for row in rows]
    return tuple(found)


def sentences(found: Sequence[Failing]) -> Iterator[str]:
    """Return a sentence for each state that names its first groups."""
    for state in dict.fromkeys(each.state for each in found):
        groups = [each for each in found if each.state == state]
        named = ", ".join(
            f"{each.group_id} ({counted(each.partitions, 'partition')},"
            f" {counted(each.lag_records, 'unread record')})"
            for each in groups[:_NAMED]
        )
        more = f" and {len(groups) - _NAMED} more" if len(groups) > _NAMED else ""
        yield f"{state}: {named}{more}"
