"""The work of the shards of transactional ids that no request causes: each load begins a new leader
epoch.

The leader epoch of a partition of ``__transaction_state`` is the coordinator epoch of its
transaction markers. After a marker of this load, a partition rejects late markers of earlier loads
(TRANSACTION_COORDINATOR_FENCED).

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
    """The work on the shards of transactional ids that the broker does without a call of a client,
    except the sending of markers (`markers.py`)."""

    others_coordinate = False
    """True if another broker may have a higher coordinator epoch; False in a standalone broker."""

    def __init__(self, _: Sequence[HostedShard[Any]], time: Time, __: Work) -> None:
        self._time = time
        self._above: dict[int, int] = {}
        """By partition of ``__transaction_state``: a coordinator epoch that the next leader epoch
        must exceed."""

    def resume(self, unfinished: Any) -> None: ...

    def restarted(self, hosted: HostedShard[Any]) -> None: ...

    def resigned(self, hosted: HostedShard[Any]) -> None: ...

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Begins a new leader epoch, which is first written to disk. Raises Superseded.

        If the epoch can't be written, the log accepts no writes. The next record then fails and the
        shard is loaded again. That load begins the epoch before the shard serves.
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
        """Returns True if the shard must begin an epoch above ``coordinator_epoch``, because a
        partition has markers of that epoch.

        In a standalone broker, the coordinator of that epoch no longer exists. In a cluster, it may
        be on another broker.
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
        return False

    def catch_up(self, hosted: HostedShard[Any]) -> None: ...
