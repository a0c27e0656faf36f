"""ExpireDelegationToken (40): sets the expiry of a token; a negative period expires the token at
once.

The client proves by the token's HMAC that it has the token. Versions: v1 is the same as v0; v2 is
flexible. Source: KIP-48.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.token_ends import answer_change
from broker.net.request import Request, ServedApi
from broker.net.required_acls import nothing
from protocol.messages.expire_delegation_token import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.authentication.tokens import Tokens
    from security.tokens import Token


def _handle(services: Services, request: Request) -> None:
    value, who = request.value, request.connection.principal

    async def change(tokens: Tokens) -> Token | int:
        return await tokens.expire(value["hmac"], who, value["expiry_time_period_ms"])

    answer_change(services, request, change, "delegation token expiry changed")


SERVED = ServedApi(
    API,
    0,
    2,
    _handle,
    rights=nothing("the token itself names the principals that may expire it"),
)
