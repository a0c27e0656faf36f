"""A Kafka broker in a test: `with Muster() as broker:`.

>>> with Muster() as broker:
...     broker.create_topic("orders", partitions=3)
...     # any Kafka client, at broker.bootstrap_servers

`docs/test/testing-with-muster.md` describes the API. The names in `__all__` are the public
interface.
"""

from typing import TYPE_CHECKING, Any

from musterd.testing.cluster import MusterCluster
from musterd.testing.errors import BrokerDied, MusterError, WaitedInVain
from musterd.testing.faults import Fault
from musterd.testing.muster import Muster
from musterd.testing.time import BrokerTime
from musterd.testing.views import (
    Committed,
    Group,
    JournalEvent,
    Member,
    Offset,
    Partition,
    PartitionEvent,
    Reconciliation,
    Record,
    SeenRequest,
)
from musterd.testing.waiting import Waiting, WaitingForPartition

if TYPE_CHECKING:
    from musterd.testing.async_muster import AsyncMuster

__all__ = [
    "AsyncMuster",
    "BrokerDied",
    "BrokerTime",
    "Committed",
    "Fault",
    "Group",
    "JournalEvent",
    "Member",
    "Muster",
    "MusterCluster",
    "MusterError",
    "Offset",
    "Partition",
    "PartitionEvent",
    "Reconciliation",
    "Record",
    "SeenRequest",
    "WaitedInVain",
    "Waiting",
    "WaitingForPartition",
]


def __getattr__(name: str) -> Any:
    """Import AsyncMuster on first use, because it imports asyncio."""
    if name == "AsyncMuster":
        from musterd.testing.async_muster import AsyncMuster

        return AsyncMuster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
