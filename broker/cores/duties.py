"""The work that the broker does on the shards of one kind of core without a request of a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from broker.cores.core import Outcome
from broker.cores.hosted_shard import HostedShard
from broker.time import Time

Work = Callable[[HostedShard[Any], Callable[[], Outcome]], None]
"""A function that changes the state of a shard without a request: it executes a step of the shard's
core, and handles the outcome."""


class Duties(Protocol):
    """Methods that the runtime calls at certain points in the life of a shard."""

    def resume(self, unfinished: Any) -> None:
        """Called when the shards exist but none is loaded yet.

        ``unfinished`` is the work that the broker's previous process did not finish.
        """

    def restarted(self, hosted: HostedShard[Any]) -> None:
        """Called before a shard is loaded again. Accepted records of the shard that were not
        appended are lost."""

    def resigned(self, hosted: HostedShard[Any]) -> None:
        """Called when another broker has become the leader of the partition. That broker does the
        remaining work."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Prepares a shard to answer calls. The runtime calls this method after a load, when the
        log of the shard is replayed. Raises Superseded.

        The runtime also calls this method in `renew`, and when the poisoned log of a loaded shard
        accepts writes again.
        """

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:
        """Returns True if the call must wait while the log accepts no writes. The runtime asks this
        only for calls that write no records themselves."""

    def catch_up(self, hosted: HostedShard[Any]) -> None: ...


class Superseded(Exception):
    """The shard was unloaded, or its next load has started, before this load ended."""


DutiesT = TypeVar("DutiesT", bound=Duties)
MakeDuties = Callable[[Sequence[HostedShard[Any]], Time, Work], DutiesT]


class NoDuties:
    """Implements `Duties` for shards that only answer calls and process deadlines. All methods do
    nothing."""

    def __init__(self, _: Sequence[HostedShard[Any]], __: Time, ___: Work) -> None: ...

    def resume(self, unfinished: Any) -> None: ...

    def restarted(self, hosted: HostedShard[Any]) -> None: ...

    def resigned(self, hosted: HostedShard[Any]) -> None: ...

    async def before_serving(self, hosted: HostedShard[Any]) -> None: ...

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:  # noqa: ARG002
        return False

    def catch_up(self, hosted: HostedShard[Any]) -> None: ...
