"""Finds the groups that are in a state that `--fail-on` names. Such a group makes the command fail.

The states are those of the report. They are derived from CATCH_UP, which has the verdict of each
partition. A group can have several states: if it drowns in one partition and is stuck in another
partition, it has both states.
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
"""The verdict in CATCH_UP for each state that `--fail-on` accepts."""
LONG_MAX: Final = 2**63 - 1
_NAMED: Final = 8
"""The maximum number of groups that one sentence names."""


@dataclass(frozen=True)
class Failing:
    """A group that has partitions in the state ``state``, if the option `--fail-on` names this
    state."""

    state: str
    group_id: str
    partitions: int
    lag_records: int
    """The number of unread records in those partitions of the group that are in ``state``."""


def states_of(text: str) -> tuple[str, ...]:
    """Parses a comma-separated list of states, whose names have dashes instead of spaces. Removes
    duplicates. Raises MisspelledError for an unknown state."""
    named = {name.replace(" ", "-"): name for name in STATES}
    found = []
    for word in text.split(","):
        if word.strip() not in named:
            raise MisspelledError(f"unknown state {word.strip()!r}: choose from {', '.join(named)}")
        found.append(named[word.strip()])
    return tuple(dict.fromkeys(found))


def failing(engine: Engine, states: Sequence[str], *, with_dead: bool) -> tuple[Failing, ...]:
    """Returns the groups whose verdict in the table CATCH_UP is one of ``states``. They are ordered
    by state. Groups of the same state are ordered by unread records, most first.

    ``with_dead`` is True if the table DEAD_GROUPS exists. The groups in this table are left out,
    except for the state drowning.
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
    """Yields one sentence for each state in ``found``. The sentence names the first `_NAMED` groups
    in this state."""
    for state in dict.fromkeys(each.state for each in found):
        groups = [each for each in found if each.state == state]
        named = ", ".join(
            f"{each.group_id} ({counted(each.partitions, 'partition')},"
            f" {counted(each.lag_records, 'unread record')})"
            for each in groups[:_NAMED]
        )
        more = f" and {len(groups) - _NAMED} more" if len(groups) > _NAMED else ""
        yield f"{state}: {named}{more}"
