"""The work that the shards of one kind do without a call from a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from broker.cores.core import Outcome
from broker.cores.hosted_shard import HostedShard
from broker.time import Time

Work = Callable[[HostedShard[Any], Callable[[], Outcome]], None]
"""A function that executes a step of a core that no call has caused, and handles the outcome."""


class Duties(Protocol):
    """The methods that the runtime calls at certain points in the life of a shard."""

    def resume(self, unfinished: Any) -> None:
        """Called when the shards exist and no shard is loaded.

        ``unfinished`` is the work that the last process did not finish.
        """

    def restarted(self, hosted: HostedShard[Any]) -> None:
        """Called before a shard is loaded again; the shard's accepted records that were not
        appended are lost."""

    def resigned(self, hosted: HostedShard[Any]) -> None:
        """Called when another broker leads the partition and does the remaining work."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Called when the log is replayed, before any call is answered. Raises Superseded.

        Also called by `renew`, and when a log that was poisoned while its shard was loaded accepts
        writes again.
        """

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:
        """True if a call that needs no record must wait as long as the log accepts no writes."""

    def catch_up(self, hosted: HostedShard[Any]) -> None:
        """Called when the shard starts to serve calls."""


class Superseded(Exception):
    """The shard was unloaded, or another load of the shard started, before this load ended."""


DutiesT = TypeVar("DutiesT", bound=Duties)
MakeDuties = Callable[[Sequence[HostedShard[Any]], Time, Work], DutiesT]


class NoDuties:
    """The duties of a kind of shards that only answer calls and process deadlines."""

    def __init__(self, _: Sequence[HostedShard[Any]], __: Time, ___: Work) -> None:
        """Keeps nothing."""

    def resume(self, unfinished: Any) -> None:
        """Does nothing, since the log has all work."""

    def restarted(self, hosted: HostedShard[Any]) -> None:
        """Does nothing, since only the core has state."""

    def resigned(self, hosted: HostedShard[Any]) -> None:
        """Does nothing, since only the core has state."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Does nothing, since a loaded shard can serve calls."""

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:  # noqa: ARG002
        """Returns False, since no call waits for a record of another call."""
        return False

    def catch_up(self, hosted: HostedShard[Any]) -> None:
        """Does nothing, since no work is left over."""
