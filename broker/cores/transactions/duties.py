"""The duties of the shards of transactional ids: each load begins a leader epoch.

The leader epoch of a partition of ``__transaction_state`` is the coordinator epoch of its markers:
a partition refuses a late marker of an older load after one of this load
(TRANSACTION_COORDINATOR_FENCED). A partition may have seen a higher epoch of a coordinator that
does not exist any more: its data is from a Kafka cluster, ``__transaction_state`` from a backup, or
an operator's marker had it. The transactions there end under an epoch that is higher still.
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
    """The duties of transactional ids; markers.py sends the markers."""

    others_coordinate = False
    """Whether a later coordinator epoch is that of another broker."""

    def __init__(self, _: Sequence[HostedShard[Any]], time: Time, __: Work) -> None:
        self._time = time
        self._above: dict[int, int] = {}
        """Above which coordinator epoch that of a shard is to be, by partition."""

    def resume(self, unfinished: Any) -> None:
        """The log has all that is to be done."""

    def restarted(self, hosted: HostedShard[Any]) -> None:
        """Does nothing: only the core has state."""

    def resigned(self, hosted: HostedShard[Any]) -> None:
        """Does nothing: only the core has state."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Begins a leader epoch, which is on the disk first. Raises Superseded.

        A log that can't keep it takes no writes: the first record that it refuses has the shard
        loaded again, and the epoch is begun before that one serves.
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
        """Whether a shard must begin an epoch above one under which a partition has had markers.

        In a standalone broker the coordinator of the later epoch does not exist any more. In a
        cluster another broker may have that epoch.
        """
        if coordinator_epoch <= hosted.leader_epoch:
            return False  # begun in between
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
        """Nothing that needs no record waits for one."""
        return False

    def catch_up(self, hosted: HostedShard[Any]) -> None:
        """Its core has asked for the markers that are missing."""
