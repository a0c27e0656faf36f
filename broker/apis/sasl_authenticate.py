"""SaslAuthenticate (36) outside of a login, which is an error.

Versions: v1 adds the session lifetime; v2 is flexible. During a login or reauthentication,
`broker/authentication/` handles this request instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.net.request import Request, ServedApi
from broker.net.required_acls import nothing
from protocol.errors import ILLEGAL_SASL_STATE
from protocol.messages.sasl_authenticate import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_OUT_OF_PLACE = "SaslAuthenticate request received after successful authentication"


def _handle(services: Services, request: Request) -> None:  # noqa: ARG001
    request.check()
    request.respond(
        {"error_code": ILLEGAL_SASL_STATE, "error_message": _OUT_OF_PLACE, "auth_bytes": b""}
    )


SERVED = ServedApi(API, 0, 2, _handle, rights=nothing("clients send this request to authenticate"))
