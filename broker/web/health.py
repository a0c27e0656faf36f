"""The state of the broker for /healthz."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.cores.loading import progress

if TYPE_CHECKING:
    from broker.broker import Broker


def health(broker: Broker) -> dict[str, Any]:
    """Loading, ready or poisoned as ``state``, how far or why beside it.

    Partitions that can't be cleaned or read are named beside it: a restart helps neither, and the
    others serve.
    """
    beside: dict[str, Any] = {}
    if uncleanable := broker.cleaning.uncleanable():
        beside["uncleanable"] = uncleanable
    if unreadable := broker.runtime.unreadable():
        beside["unreadable"] = unreadable
    reason = broker.fatal or broker.runtime.fatal
    poisoned = {
        f"{log.topic}-{log.partition}": log.poisoned for log in broker.logs.all() if log.poisoned
    }
    if reason or poisoned:
        return {
            **beside,
            "state": "poisoned",
            "reason": reason or "; ".join(f"{log}: {why}" for log, why in poisoned.items()),
            "logs": list(poisoned),
        }
    if not broker.runtime.loading:
        return {"state": "ready", **beside}
    return {**beside, "state": "loading", **progress(broker.runtime.hosted_shards)}
