"""The state of the broker for /healthz."""

from __future__ import annotations

from typing import Any

from broker.cores.loading import progress
from broker.metrics.sources import Sources


def health(sources: Sources) -> dict[str, Any]:
    """``state`` is loading, ready or poisoned, with progress or reason in further fields.

    Partitions that can't be cleaned or read are named too, without effect on the state: a restart
    does not help them, and the others are served.
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
    """Whether a coordinator is still loading any of its partitions."""
    return sources.groups.life.loading or sources.transactions.life.loading


def load_progress(sources: Sources) -> dict[str, Any]:
    """The progress of loading groups; ``transactions`` has that of transactional ids."""
    hosted_shards = sources.transactions.hosted_shards
    transactions = {"transactions": progress(hosted_shards)} if hosted_shards else {}
    return {**progress(sources.groups.hosted_shards), **transactions}
