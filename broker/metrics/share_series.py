"""Writes the series about share groups: deliveries, their outcomes, and the records in flight.

Each broker exports the counts of the partitions that it leads. docs/operate/metrics.md lists every
name with its labels and meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.metrics.sources import Sources
from broker.metrics.text_format import Families, label
from share.partition.counts import OUTCOMES
from share.values import DeliveryState

_SERIES = 2 + len(OUTCOMES) + 1 + 2
"""The number of series for each group."""
_STATES = {DeliveryState.ACQUIRED: "acquired", DeliveryState.AVAILABLE: "available"}


class ShareSeries:
    """Writes the series of the share groups whose partitions this broker leads."""

    def __init__(self, sources: Sources, families: Families) -> None:
        self._partitions = sources.share_partitions
        self._families = families
        family = families.family
        self._deliveries = family(
            "muster_share_deliveries_total", "Records delivered to members.", "counter"
        )
        self._outcomes = family(
            "muster_share_outcomes_total", "Deliveries that have ended, by outcome.", "counter"
        )
        self._archived = family(
            "muster_share_archived_total", "Records archived after too many deliveries.", "counter"
        )
        self._records = family(
            "muster_share_records",
            "Records in flight: acquired by a member, or waiting to be delivered again.",
        )

    def steps(self) -> Iterator[int]:
        """Writes the series in steps. Yields the cost of each step, mainly the number of ranges
        that the step has read."""
        for group_id, counts in self._partitions.counts:
            if not self._families.has_room(_SERIES):
                continue
            group = label("consumergroup", group_id)
            first = counts.delivered - counts.delivered_again
            self._deliveries.add(f'{group},delivery="first"', first)
            self._deliveries.add(f'{group},delivery="again"', counts.delivered_again)
            for kind, count in counts.outcomes.items():
                self._outcomes.add(f'{group},outcome="{kind.replace(" ", "_")}"', count)
            self._archived.add(group, counts.archived)
            records: Counter[DeliveryState] = Counter()
            for live in list(self._partitions.of_group(group_id)):
                for piece in () if live.share is None else live.share.in_flight_pieces():
                    for each in piece:
                        records[each.state] += each.last_offset - each.first_offset + 1
                    yield len(piece)
                yield 1
            for state, name in _STATES.items():
                self._records.add(f'{group},state="{name}"', records[state])
            yield 1
