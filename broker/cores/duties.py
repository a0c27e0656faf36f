"""The work that a kind's shards do without a call from a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from broker.cores.core import Outcome
from broker.cores.hosted_shard import HostedShard
from broker.time import Time

Work = Callable[[HostedShard[Any], Callable[[], Outcome]], None]
"""Executes a step of a core that no call has caused, and handles the outcome."""


class Duties(Protocol):
    """Methods that the runtime calls at certain points in the life of a shard."""

    def resume(self, unfinished: Any) -> None:
        """Called when the shards exist and none is loaded.

        ``unfinished`` is the work that the last process did not finish.
        """

    def restarted(self, hosted: HostedShard[Any]) -> None:
        """Called before a shard is loaded again; its accepted records that were not appended are
        lost."""

    def resigned(self, hosted: HostedShard[Any]) -> None:
        """Called when another broker leads the partition; the other broker does the remaining
        work."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Called when the log is replayed, before any call is answered. Raises Superseded.

        Also called by `renew`, and when a log that was poisoned while its shard was loaded accepts
        writes again.
        """

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:
        """Whether a call that needs no record must wait while the log accepts no writes."""

    def catch_up(self, hosted: HostedShard[Any]) -> None:
        """Called when the shard begins to serve calls."""


class Superseded(Exception):
    """The shard was unloaded or loaded again while this load was in progress."""


DutiesT = TypeVar("DutiesT", bound=Duties)
MakeDuties = Callable[[Sequence[HostedShard[Any]], Time, Work], DutiesT]
