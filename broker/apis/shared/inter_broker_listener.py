"""Decides whether a request comes from a broker: such a request must arrive on the inter-broker
listener.

A sender on any other listener is a client, even if the request names a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed
from broker.net.request import Request
from broker.net.required_acls import CLUSTER_ACTION

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def comes_from_broker(services: Services, request: Request) -> bool:
    """Returns True if the request arrived on the inter-broker listener. A standalone broker has no
    such listener."""
    replicas = services.replicas
    return replicas is not None and services.advertised.listener(request) == replicas.listener


def may_act_as_broker(services: Services, request: Request) -> bool:
    """Returns True if the request arrived on the inter-broker listener and the sender has
    CLUSTER_ACTION permission."""
    allowed = is_allowed(services, request, CLUSTER_ACTION)
    return allowed and comes_from_broker(services, request)
