"""OffsetFetch (9) in a cluster: a broker that may have lost its mandate makes sure first.

No answer is given from what a newer coordinator may have changed (`membership/mandate.py`). Who has
waited in vain is sent away, and asks for the coordinator again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.apis.offset_fetch import SERVED as SERVED_ALONE
from broker.apis.shared.answer_once import answer_once
from broker.net.request import Request, Steps

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

SURE_WITHIN_S = 5.0
"""How long a client waits for ZooKeeper and the controller."""


def _handle(services: Services, request: Request) -> Steps | None:
    mandate = services.mandate
    if mandate is None or mandate.is_sure or request.api_version == 0:
        return SERVED_ALONE.handle(services, request)
    there = mandate.until_sure(services.time.within(SURE_WITHIN_S))
    answer_once(there, services, request, SERVED_ALONE.handle)
    return None


SERVED = replace(SERVED_ALONE, handle=_handle)
