"""The health of the broker for /healthz."""

from __future__ import annotations

from typing import Any

from broker.cores.loading import progress
from broker.metrics.sources import Sources


def health(sources: Sources) -> dict[str, Any]:
    """Returns ``state`` (loading, ready or poisoned), and further fields with the progress or the
    reason.

    The fields also name partitions that can't be cleaned or read. Such partitions do not change the
    state: a restart would not help, and the broker serves all other partitions.
    """
    beside: dict[str, Any] = {}
    if uncleanable := sources.cleaning.uncleanable():
        beside["uncleanable"] = uncleanable
    lives = (sources.groups.life, sources.transactions.life)
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
    """Returns True if a coordinator is still loading partitions."""
    return sources.groups.life.loading or sources.transactions.life.loading


def load_progress(sources: Sources) -> dict[str, Any]:
    """Returns the progress of loading groups; the field ``transactions`` contains the progress of
    loading transactional ids."""
    hosted_shards = sources.transactions.hosted_shards
    transactions = {"transactions": progress(hosted_shards)} if hosted_shards else {}
    return {**progress(sources.groups.hosted_shards), **transactions}
