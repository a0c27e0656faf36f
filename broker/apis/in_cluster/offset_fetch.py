"""OffsetFetch (9) in a cluster: a broker that may have been fenced first checks its registration.

A fenced broker must not return offsets that a newer coordinator may have changed
(`broker/cluster/membership/registration_fence.py`). If the check times out, the broker closes the
connection, so that the client searches for the coordinator again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.apis.offset_fetch import SERVED as SERVED_ALONE
from broker.apis.shared.deferred_answer import deferred_answer
from broker.net.request import Request, Steps

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

SURE_WITHIN_S = 5.0
"""The maximum time in seconds that a request waits until ZooKeeper and the controller confirm that
this broker is registered."""


def _handle(services: Services, request: Request) -> Steps | None:
    registration_fence = services.registration_fence
    if registration_fence is None or registration_fence.is_sure or request.api_version == 0:
        return SERVED_ALONE.handle(services, request)
    there = registration_fence.until_sure(services.time.within(SURE_WITHIN_S))
    deferred_answer(there, services, request, SERVED_ALONE.handle)
    return None


SERVED = replace(SERVED_ALONE, handle=_handle)
