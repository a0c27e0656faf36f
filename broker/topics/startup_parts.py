"""The parts of a broker that are created before its logs are opened."""

from __future__ import annotations

from collections.abc import Callable

from broker.config.config import Config
from broker.loop.background import Background
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.directory.disk_changes import DiskChanges
from broker.topics.long_poll import LongPolls
from broker.topics.partition_services import PartitionServices
from log.files.filesystem import FileSystem
from protocol.slotted import slotted


class CannotJoin(Exception):
    """Raised if the broker can't join the cluster. The text is one sentence for the operator."""


@slotted(frozen=True)
class StartupParts:
    """The parts of a broker that are created before its logs are opened."""

    config: Config
    fs: FileSystem
    directory: str
    time: Time
    background: Background
    slicer: Slicer
    errors: InternalErrors
    long_polls: LongPolls
    disk_changes: DiskChanges
    partition_services: PartitionServices
    fail: Callable[[str], None]
    """Stops the broker. The argument is the reason."""
