"""Checks whether the controller has sent all topics of the cluster to this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.to_controller import cache_of

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

NO_METADATA = "The broker has not received all topics of the cluster yet."


def lacks_topics(services: Services) -> bool:
    """Returns True until the controller has sent all topics of the cluster to this broker."""
    return cache_of(services).lacks_topics
