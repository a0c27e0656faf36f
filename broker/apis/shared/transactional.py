"""Shared code of the handlers of transactional requests: the sender of a request, and error codes
for older versions."""

from __future__ import annotations

from broker.net.request import Request
from journal.texts import cut
from protocol.errors import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
from transactions.calls import CLIENT_CHARACTERS, Client


def client_of(request: Request) -> Client:
    """Returns the sender of a request in the form that the coordinator and the transaction journal
    use."""
    client_id, host = request.client_id, request.connection.client_host
    if len(client_id) > CLIENT_CHARACTERS or len(host) > CLIENT_CHARACTERS:
        return Client(cut(client_id, CLIENT_CHARACTERS), cut(host, CLIENT_CHARACTERS))
    return Client(client_id, host)


def error_for_version(error_code: int, knows_fenced: bool) -> int:
    """Returns ``error_code``, or the error code that replaces it in an earlier version of the
    request.

    KIP-588 added PRODUCER_FENCED for fenced producers. Earlier versions get INVALID_PRODUCER_EPOCH,
    which is also fatal to a producer.
    """
    if error_code == PRODUCER_FENCED and not knows_fenced:
        return INVALID_PRODUCER_EPOCH
    return error_code
