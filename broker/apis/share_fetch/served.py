"""The row of ShareFetch in the table of served APIs. The first ShareFetch request imports the
handler."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.apis.share_fetch import ELEMENTS_MAX, RIGHTS
from broker.net.request import Request, ServedApi
from protocol.messages.share_fetch import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _decode(version: int, buffer: bytes, position: int) -> Any:
    from protocol.generated.share_fetch import DECODE_REQUEST

    return DECODE_REQUEST[version](buffer, position)


def _handle(services: Services, request: Request) -> None:
    from broker.apis.share_fetch.handler import handle

    handle(services, request)


SERVED = ServedApi(
    API,
    1,
    2,
    _handle,
    decoders={version: partial(_decode, version) for version in (1, 2)},
    elements_max=ELEMENTS_MAX,
    rights=RIGHTS,
)
