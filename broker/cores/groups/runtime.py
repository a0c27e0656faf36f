"""The runtime of groups: its types, and the function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.cores.groups.dropped_offsets import DroppedOffsets
from broker.cores.groups.kind import GROUPS
from broker.cores.hooks import Hooks
from broker.cores.hosted_shard import HostedShard
from broker.cores.runtime import Runtime
from broker.cores.runtime_settings import RuntimeSettings
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.time import Time
from coordinator.shard import GroupShard

GroupRuntime = Runtime[GroupShard, DroppedOffsets]
HostedGroups = HostedShard[GroupShard]
"""The groups of one partition of the offsets topic."""


def _ignore(_: str) -> None:
    pass


def group_runtime(
    settings: RuntimeSettings,
    time: Time,
    slicer: Slicer,
    errors: InternalErrors | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008 - it is frozen
    on_dropped: Callable[[str], None] = _ignore,
) -> GroupRuntime:
    """Makes a runtime without shards.

    ``on_dropped`` is called with each deleted topic whose offsets all shards have dropped.
    """
    duties = partial(DroppedOffsets, on_dropped=on_dropped)
    return Runtime(GROUPS, duties, settings, time, slicer, errors, hooks)
