"""The health of the broker for /healthz."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.cores.hosted_shard import HostedShard
from broker.cores.loading import progress
from broker.metrics.sources import Sources


def health(sources: Sources) -> dict[str, Any]:
    """Returns the field ``state`` (loading, ready or poisoned), and fields with the progress of the
    load or with the reason of ``poisoned``.

    Other fields name partitions that can't be cleaned or read. Such partitions do not change the
    state: a restart would not help, and the broker serves all other partitions.
    """
    beside: dict[str, Any] = {}
    if uncleanable := sources.cleaning.uncleanable():
        beside["uncleanable"] = uncleanable
    lives = (sources.groups.life, sources.transactions.life, sources.share_states.life)
    if unreadable := {name: why for life in lives for name, why in life.unreadable().items()}:
        beside["unreadable"] = unreadable
    reason = sources.fatal()
    poisoned = {
        partition.name: partition.log.poisoned
        for partition in sources.logs.all()
        if partition.log.poisoned
    }
    if reason or poisoned:
        return {
            **beside,
            "state": "poisoned",
            "reason": reason or "; ".join(f"{log}: {why}" for log, why in poisoned.items()),
            "logs": list(poisoned),
        }
    if not is_loading(sources):
        return {"state": "ready", **beside}
    return {**beside, "state": "loading", **load_progress(sources)}


def is_loading(sources: Sources) -> bool:
    runtimes = (sources.groups, sources.transactions, sources.share_states)
    return any(runtime.life.loading for runtime in runtimes)


def load_progress(sources: Sources) -> dict[str, Any]:
    """Returns the progress of loading groups. The fields ``transactions`` and ``share_states``
    contain the progress for transactional ids and share partitions."""
    others: dict[str, Sequence[HostedShard[Any]]] = {
        "transactions": sources.transactions.hosted_shards,
        "share_states": sources.share_states.hosted_shards,
    }
    found = {name: progress(shards) for name, shards in others.items() if shards}
    return {**progress(sources.groups.hosted_shards), **found}
