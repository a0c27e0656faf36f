"""What the shards of a kind do beside their calls, of their own accord."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from broker.cores.core import Outcome
from broker.cores.hosted_shard import HostedShard
from broker.time import Time

Work = Callable[[HostedShard[Any], Callable[[], Outcome]], None]
"""Takes the outcome of what a core does by itself."""


class Duties(Protocol):
    """Asked at each of these moments of a shard's life."""

    def resume(self, unfinished: Any) -> None:
        """The shards are made, and nothing is loaded: what the process before had still to do."""

    def restarted(self, hosted: HostedShard[Any]) -> None:
        """It is about to be loaded again: what it had accepted and not appended is not there."""

    def resigned(self, hosted: HostedShard[Any]) -> None:
        """Another broker leads its partition, and does what is left."""

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """All is replayed, and nobody has been answered yet; or it was loaded while its log took no
        writes, and it does now; or it is to be made ready once more. Raises Superseded."""

    def holds_back(self, hosted: HostedShard[Any], call: Any) -> bool:
        """Whether its log takes no writes and a call that needs none must wait for one."""

    def catch_up(self, hosted: HostedShard[Any]) -> None:
        """It serves."""


class Superseded(Exception):
    """The core that was being loaded is not hosted any more: its log is loaded again elsewhere."""


DutiesT = TypeVar("DutiesT", bound=Duties)
MakeDuties = Callable[[Sequence[HostedShard[Any]], Time, Work], DutiesT]
