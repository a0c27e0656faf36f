"""The state of the broker for /healthz."""

from __future__ import annotations

from typing import Any

from broker.cores.loading import progress
from broker.metrics.sources import Sources


def health(sources: Sources) -> dict[str, Any]:
    """``state`` is loading, ready or poisoned; progress or reason stand beside it.

    Partitions that can't be cleaned or read are named beside it: a restart helps neither, and the
    others serve.
    """
    beside: dict[str, Any] = {}
    if uncleanable := sources.cleaning.uncleanable():
        beside["uncleanable"] = uncleanable
    if unreadable := sources.groups.life.unreadable():
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
    if not sources.groups.life.loading:
        return {"state": "ready", **beside}
    return {**beside, "state": "loading", **progress(sources.groups.hosted_shards)}
