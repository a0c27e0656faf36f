"""The duties of the shards of transactional ids: each load starts a leader epoch.

The leader epoch of a partition of ``__transaction_state`` is the coordinator epoch of its markers:
after a marker of this load, a partition rejects late markers of older loads
(TRANSACTION_COORDINATOR_FENCED). A partition may have a marker of a higher epoch whose coordinator
no longer exists: the partition's data is from a Kafka cluster, ``__transaction_state`` is from a
backup, or an operator wrote the marker. Then the shard starts an even higher epoch, in which its
transactions end.
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
    """The duties of transactional ids; `markers.py` sends their markers."""

    others_coordinate = False
    """True if another broker may have the later coordinator epoch; False in a standalone broker."""

    def __init__(self, _: Sequence[HostedShard[Any]], time: Time, __: Work) -> None:
        self._time = time
        self._above: dict[int, int] = {}
        """The coordinator epoch that the partition's next epoch must exceed, by partition."""

    def resume(self, unfinished: Any) -> None:
        """Does nothing, since the log has all unfinished work."""

    def restarted(self, hosted: HostedShard[Any]) -> None:
        """Does nothing, since only the core has state."""

    def resigned(self, hosted: HostedShard[Any]) -> None:
        """Does nothing, since only the core has state."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Starts a leader epoch, which is first written to disk. Raises Superseded.

        If the epoch can't be written, the log accepts no writes: the next record fails, the shard
        is loaded again, and this load starts the epoch before the shard serves.
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
        """True if a shard must start an epoch above ``coordinator_epoch``, since a partition has
        markers of that epoch.

        In a standalone broker the coordinator of the later epoch no longer exists. In a cluster
        another broker may have that epoch.
        """
        if coordinator_epoch <= hosted.leader_epoch:
            return False  # the shard has already begun a higher epoch
        if coordinator_epoch > self._above.get(hosted.index, -1):
            self._above[hosted.index] = coordinator_epoch
            logger.warning(
                "partition has markers of a later coordinator epoch, raising the epoch",
                partition=hosted.partition.name,
                epoch=hosted.leader_epoch,
                later_epoch=coordinator_epoch,
            )
        return True

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:  # noqa: ARG002
        """Returns False, since no call waits for a record of another call."""
        return False

    def catch_up(self, hosted: HostedShard[Any]) -> None:
        """Does nothing, since the core has requested the missing markers."""
