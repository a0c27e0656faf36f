"""The work that shards of transactional ids do without a request: each load of a shard begins a new
leader epoch.

The leader epoch of a partition of ``__transaction_state`` is the coordinator epoch of the shard's
transaction markers. After a partition has received a marker with this epoch, it rejects late
markers of earlier loads (TRANSACTION_COORDINATOR_FENCED).

A partition may have a marker of a higher epoch whose coordinator no longer exists: the partition's
data may come from a Kafka cluster, ``__transaction_state`` may come from a backup, or an operator
may have written the marker. Then the shard begins an even higher epoch, in which its transactions
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog

from broker.cores.duties import Superseded, Work
from broker.cores.hosted_shard import HostedShard
from broker.time import Time
from log.errors import LogPoisoned

logger = structlog.get_logger(__name__)


class TransactionDuties:
    """Does the work on shards of transactional ids that the broker begins without a request of a
    client. The sending of markers is not included: `markers.py` does it."""

    others_coordinate = False
    """True if another broker may have a higher coordinator epoch; False in a standalone broker."""

    def __init__(self, _: Sequence[HostedShard[Any]], time: Time, __: Work) -> None:
        self._time = time
        self._above: dict[int, int] = {}
        """By partition of ``__transaction_state``: the highest coordinator epoch that was found in
        markers. The next leader epoch of the partition must be higher."""

    def resume(self, unfinished: Any) -> None: ...

    def restarted(self, hosted: HostedShard[Any]) -> None: ...

    def resigned(self, hosted: HostedShard[Any]) -> None: ...

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Begins a new leader epoch for the shard, and writes it to the disk before the shard
        serves requests. Raises Superseded.

        If the epoch can't be written, the log accepts no writes. The next record of the shard then
        fails, and the shard is loaded again. This load begins the epoch.
        """
        core = hosted.core
        above = self._above.get(hosted.index, -1)
        try:
            await self._time.in_thread(hosted.log.begin_epoch, above)
        except LogPoisoned as error:
            hosted.partition.poisoned(error)
        if hosted.core is not core:
            raise Superseded
        hosted.write_in_epoch()

    def outranks(self, hosted: HostedShard[Any], coordinator_epoch: int) -> bool:
        """Returns True if the shard's epoch is below ``coordinator_epoch``. Called when a partition
        rejects the shard's markers because it already has markers of the epoch
        ``coordinator_epoch``. If the result is True, the shard must begin an epoch above
        ``coordinator_epoch``. Logs each new highest epoch."""
        if coordinator_epoch <= hosted.leader_epoch:
            return False  # the shard has already begun a higher epoch
        if coordinator_epoch > self._above.get(hosted.index, -1):
            self._above[hosted.index] = coordinator_epoch
            logger.warning(
                "coordinator epoch raised: a partition has markers of a later epoch",
                partition=hosted.partition.name,
                epoch=hosted.leader_epoch,
                later_epoch=coordinator_epoch,
            )
        return True

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:  # noqa: ARG002
        return False

    def catch_up(self, hosted: HostedShard[Any]) -> None: ...
