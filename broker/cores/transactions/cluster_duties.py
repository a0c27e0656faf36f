"""What the shards of transactional ids do beside their calls, where several brokers coordinate.

The leader epoch of a partition of ``__transaction_state`` is the controller's to raise. Whoever has
marked under a later one is another coordinator, which has taken over. A shard says nothing of what
it has read until the replicas in sync have it too: what a producer's records are checked against
must not vanish.
"""

from __future__ import annotations

from typing import Any

from broker.cores.duties import Superseded
from broker.cores.hosted_shard import HostedShard, Phase
from broker.cores.transactions.duties import TransactionDuties
from broker.topics.roles import NotLeader
from broker.topics.ticket import Awaited


class ClusterTransactionDuties(TransactionDuties):
    """See the module."""

    others_coordinate = True

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Waits until all that was read is stable. Raises Superseded."""
        core = hosted.core
        stable = Awaited[Exception | None]()
        hosted.partition.when_stable(
            hosted.log.log_end_offset, [(stable, None)], lambda _, error: error
        )
        lost = isinstance(await stable.reply, NotLeader)
        if lost or hosted.core is not core or hosted.phase is Phase.UNLOADED:
            raise Superseded

    def outranks(self, hosted: HostedShard[Any], coordinator_epoch: int) -> bool:  # noqa: ARG002
        """Never: the one with the later epoch is to end the transaction."""
        return False
