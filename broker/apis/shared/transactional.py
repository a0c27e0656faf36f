"""What the requests of transactional producers have in common at the edge."""

from __future__ import annotations

from broker.net.request import Request
from protocol.errors import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
from transactions.calls import Client


def client_of(request: Request) -> Client:
    """Who sent a request, as the journal of transactions tells it."""
    return Client(request.client_id, request.connection.client_host)


def told(error_code: int, knows_fenced: bool) -> int:
    """The error as the request's version knows it.

    KIP-588 gave fenced producers a code of their own, PRODUCER_FENCED; earlier versions are told
    INVALID_PRODUCER_EPOCH, which ends a producer likewise.
    """
    if error_code == PRODUCER_FENCED and not knows_fenced:
        return INVALID_PRODUCER_EPOCH
    return error_code
