"""The work of a kind's shards without a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from broker.cores.core import Outcome
from broker.cores.hosted_shard import HostedShard
from broker.time import Time

Work = Callable[[HostedShard[Any], Callable[[], Outcome]], None]
"""Handles the outcome of work that a core does without a call."""


class Duties(Protocol):
    """The runtime calls these at moments of a shard's life."""

    def resume(self, unfinished: Any) -> None:
        """The shards exist, and nothing is loaded: ``unfinished`` is the work that the last process
        left.
        """

    def restarted(self, hosted: HostedShard[Any]) -> None:
        """The shard is about to be loaded again: the records that it had accepted and not appended
        are lost.
        """

    def resigned(self, hosted: HostedShard[Any]) -> None:
        """Another broker leads its partition, and does the remaining work."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """The log is replayed, and no call has been answered yet. Also called when a shard was
        loaded while its log was poisoned and the log recovers, and by `renew`. Raises Superseded.
        """

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:
        """Whether its log takes no writes and a call that needs none must wait for one."""

    def catch_up(self, hosted: HostedShard[Any]) -> None:
        """The shard serves."""


class Superseded(Exception):
    """The core that was being loaded is not hosted any more: its log is loaded again elsewhere."""


DutiesT = TypeVar("DutiesT", bound=Duties)
MakeDuties = Callable[[Sequence[HostedShard[Any]], Time, Work], DutiesT]
