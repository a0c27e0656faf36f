"""Offsets of a group that open transactions have committed, as the page and /api show them."""

from __future__ import annotations

from typing import Any

from broker.metrics.sources import Sources
from offsets.pending import PendingOfProducer


def pending_view(sources: Sources, pending: PendingOfProducer) -> dict[str, Any]:
    """What one open transaction has committed of the group, which nobody sees before it ends."""
    name = sources.holders.transactional_id_of(pending.producer_id)
    whose = f"producer {pending.producer_id}" if name is None else name
    offsets = "1 offset" if pending.offsets == 1 else f"{pending.offsets} offsets"
    return {
        "producer_id": pending.producer_id,
        "producer_epoch": pending.producer_epoch,
        "transactional_id": name,
        "offsets": pending.offsets,
        "sentence": f"{offsets} pending in the transaction of {whose}",
    }
