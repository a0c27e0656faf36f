"""UpdateFeatures (57) in a cluster: the controller changes finalized feature levels (KIP-584)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.apis.shared.to_controller import host_of
from broker.apis.update_features import SERVED as SERVED_ALONE
from broker.apis.update_features import is_refused, respond, updates_of
from broker.cluster.zookeeper.zookeeper import ZooKeeperError, in_time
from broker.net.request import Request
from broker.topics.feature_updates import RefusedUpdate
from protocol.errors import FEATURE_UPDATE_FAILED
from protocol.znodes.fields import BadNode

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _handle(services: Services, request: Request) -> None:
    if not is_refused(services, request):
        request.answer_later(_update(services, request))


async def _update(services: Services, request: Request) -> None:
    host = host_of(services)
    validate_only = request.value.get("validate_only", False)
    try:
        await in_time(services.time, host.change_levels(updates_of(request), validate_only))
    except RefusedUpdate as error:
        respond(request, error)
    except (ZooKeeperError, BadNode) as error:
        respond(request, RefusedUpdate(FEATURE_UPDATE_FAILED, str(error)))
    else:
        respond(request)


SERVED = replace(SERVED_ALONE, handle=_handle)
