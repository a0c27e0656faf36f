"""The parts of a broker that exist before its logs are open."""

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
    """The cluster can't be joined; the text is one sentence for the operator."""


@slotted(frozen=True)
class StartupParts:
    """See the module."""

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
    """The services that all partitions use."""
    fail: Callable[[str], None]
    """Stops the broker, with its reason."""
