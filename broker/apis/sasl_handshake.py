"""SaslHandshake (17) after the login, or on a listener without SASL.

Before the login, `broker/authentication/` handles the request. If the SASL session has an expiry
time, the request begins a reauthentication (KIP-368); otherwise the request is an error. After v0
the client sends SASL tokens without request headers; after v1 it sends them in SaslAuthenticate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.net.request import Request, ServedApi
from broker.net.required_acls import nothing
from protocol.errors import ILLEGAL_SASL_STATE
from protocol.messages.sasl_handshake import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _handle(services: Services, request: Request) -> None:  # noqa: ARG001
    session = request.connection.session
    request.check()
    if session is None:
        request.respond({"error_code": ILLEGAL_SASL_STATE, "mechanisms": []})
    else:
        session.renew(request)


SERVED = ServedApi(API, 0, 1, _handle, rights=nothing("clients send this request to authenticate"))
