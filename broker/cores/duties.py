"""The work on the shards of one kind that the broker does without a call of a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from broker.cores.core import Outcome
from broker.cores.hosted_shard import HostedShard
from broker.time import Time

Work = Callable[[HostedShard[Any], Callable[[], Outcome]], None]
"""A function that executes a step of a core and handles the outcome. No call caused the step."""


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
        """Called when another broker has become the leader of the partition, and takes over the
        remaining work."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Called when the log has been replayed, before any call is answered. Raises Superseded.

        Also called by `renew`. Also called when the log of a loaded shard was poisoned and accepts
        writes again.
        """

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:
        """Returns True if a call must wait while the log accepts no writes, although the call
        itself needs no record."""

    def catch_up(self, hosted: HostedShard[Any]) -> None: ...


class Superseded(Exception):
    """The shard was unloaded, or its next load has started, before this load ended."""


DutiesT = TypeVar("DutiesT", bound=Duties)
MakeDuties = Callable[[Sequence[HostedShard[Any]], Time, Work], DutiesT]


class NoDuties:
    """Implements `Duties` for a kind of shards that only answer calls and process deadlines: all
    methods do nothing."""

    def __init__(self, _: Sequence[HostedShard[Any]], __: Time, ___: Work) -> None: ...

    def resume(self, unfinished: Any) -> None: ...

    def restarted(self, hosted: HostedShard[Any]) -> None: ...

    def resigned(self, hosted: HostedShard[Any]) -> None: ...

    async def before_serving(self, hosted: HostedShard[Any]) -> None: ...

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:  # noqa: ARG002
        return False

    def catch_up(self, hosted: HostedShard[Any]) -> None: ...
