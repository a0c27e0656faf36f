"""Requests between brokers, which must arrive on the inter-broker listener.

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
    """True if a request arrived on the inter-broker listener, which a standalone broker does not
    have."""
    replicas = services.replicas
    return replicas is not None and services.advertised.listener(request) == replicas.listener


def may_act_as_broker(services: Services, request: Request) -> bool:
    """True if the sender may act as a broker and the request arrived on the inter-broker
    listener."""
    allowed = is_allowed(services, request, CLUSTER_ACTION)
    return allowed and comes_from_broker(services, request)
