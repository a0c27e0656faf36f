"""The producers of a log, in the state that they will have after the log's owner has appended the
records that it has accepted.

A shard accepts records during a turn and appends them at the end of the turn. Decisions during the
turn must consider the accepted records. Otherwise an offset commit would be accepted after the
marker of its transaction. The state of a producer with accepted records is therefore in
`AcceptedProducers`. The state of any other producer is in the log.
"""

from __future__ import annotations

from log.batch_scan import Header
from log.producers.producer_state import ProducerStates
from log.values import Ended, Marker
from protocol.records.batch import TRANSACTIONAL_BIT


class AcceptedProducers:
    """The states of producers after all accepted records, including the accepted records that are
    not appended yet."""

    __slots__ = ("_accepted", "_appended")

    def __init__(self, appended: ProducerStates) -> None:
        self._appended = appended
        self._accepted: dict[int, ProducerStates] = {}
        """For each producer id with accepted records, a `ProducerStates` that has only this
        producer."""

    def of(self, producer_id: int) -> ProducerStates:
        """Returns the producer states that decide about this producer: the accepted state if the
        producer has accepted records, otherwise the state in the log."""
        return self._accepted.get(producer_id, self._appended)

    def note(self, producer_id: int, epoch: int, first_offset: int, last_offset: int) -> None:
        batch = Header(
            0, 0, first_offset, last_offset, -1, TRANSACTIONAL_BIT, -1, producer_id, epoch, 0
        )
        self._own(batch).note(batch)

    def end(self, marker: Marker, offset: int) -> None:
        self._own(marker).end(Ended(marker, offset, -1))

    def _own(self, of: Header | Marker) -> ProducerStates:
        known = self._accepted.get(of.producer_id)
        if known is None:
            known = self._accepted[of.producer_id] = self._appended.trial((of,))
        return known

    def clear(self) -> None:
        """Drops the accepted records, because they were appended or will never be appended."""
        self._accepted.clear()
