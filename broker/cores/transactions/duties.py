"""What the shards of transactional ids do beside their calls: each load begins a leader epoch.

The leader epoch of a partition of ``__transaction_state`` is the coordinator epoch of its markers:
a late one of an older load is refused where one of this load was (TRANSACTION_COORDINATOR_FENCED).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.cores.duties import Superseded, Work
from broker.cores.hosted_shard import HostedShard
from broker.time import Time
from log.errors import LogPoisoned


class TransactionDuties:
    """See the module; what the markers do is in markers.py."""

    def __init__(self, _: Sequence[HostedShard[Any]], time: Time, __: Work) -> None:
        self._time = time

    def resume(self, unfinished: Any) -> None:
        """The log has all that is to be done."""

    def restarted(self, hosted: HostedShard[Any]) -> None:
        """Nothing is kept beside the core."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Begins a leader epoch, which is on the disk first. Raises Superseded.

        A log that can't keep it takes no writes: the first record that it refuses has the shard
        loaded again, and the epoch is begun before that one serves.
        """
        core = hosted.core
        try:
            await self._time.in_thread(hosted.log.begin_epoch)
        except LogPoisoned as error:
            hosted.partition.poisoned(error)
        if hosted.core is not core:
            raise Superseded
        hosted.write_in_epoch()

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:  # noqa: ARG002
        """Nothing that needs no record waits for one."""
        return False

    def catch_up(self, hosted: HostedShard[Any]) -> None:
        """Its core has asked for the markers that are missing."""
