"""The runtime of share-partition states: its types, and the function that makes it."""

from __future__ import annotations

from broker.cores.duties import NoDuties
from broker.cores.hooks import Hooks
from broker.cores.hosted_shard import HostedShard
from broker.cores.runtime import Runtime
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.share_state.kind import SHARE_STATES
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.time import Time
from share.persister.shard import ShareStateShard

ShareStateRuntime = Runtime[ShareStateShard, NoDuties]
HostedShareStates = HostedShard[ShareStateShard]
"""A shard of ``__share_group_state`` with its log. The shard has the states of share partitions."""


def share_state_runtime(
    settings: RuntimeSettings,
    time: Time,
    slicer: Slicer,
    errors: InternalErrors | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008 - it is frozen
) -> ShareStateRuntime:
    return Runtime(SHARE_STATES, NoDuties, settings, time, slicer, errors, hooks)
