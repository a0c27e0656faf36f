"""UpdateFeatures (57) of a standalone broker, whose settings determine the feature levels
(KIP-584).

Versions: v1 adds types of updates and validate_only; v2 omits the results of single features. A
request for the current levels succeeds; any other level is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import TEXTS, is_allowed
from broker.config.config_table import (
    GROUP_VERSION,
    GROUP_VERSION_MAX,
    SHARE_VERSION,
    SHARE_VERSION_MAX,
    STREAMS_VERSION,
    STREAMS_VERSION_MAX,
    TRANSACTION_VERSION,
    TRANSACTION_VERSION_MAX,
)
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, cluster
from broker.topics.feature_updates import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    RefusedUpdate,
    refused,
    updated,
)
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE
from protocol.messages.update_features import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

ALTER = cluster(Operation.ALTER)
_FIRST_WITH_TYPES = 1
_SUPPORTED = {
    GROUP_VERSION: (1, GROUP_VERSION_MAX),
    SHARE_VERSION: (1, SHARE_VERSION_MAX),
    STREAMS_VERSION: (1, STREAMS_VERSION_MAX),
    TRANSACTION_VERSION: (1, TRANSACTION_VERSION_MAX),
}
_SETTINGS = {
    GROUP_VERSION: "group.coordinator.rebalance.protocols",
    SHARE_VERSION: "group.coordinator.rebalance.protocols",
    STREAMS_VERSION: "group.coordinator.rebalance.protocols",
    TRANSACTION_VERSION: TRANSACTION_VERSION,
}
"""By feature: the broker setting that determines the level of the feature."""


def updates_of(request: Request) -> list[FeatureUpdate]:
    """Returns the updates of a request. If it has several updates of a feature, the last one
    counts.

    In version 0, an update with the flag allow_downgrade is treated as a safe downgrade.
    """
    named = {update["feature"]: update for update in request.value["feature_updates"]}
    typed = request.api_version >= _FIRST_WITH_TYPES
    return [
        FeatureUpdate(
            name,
            update["max_version_level"],
            update["upgrade_type"]
            if typed
            else (UPGRADE, SAFE_DOWNGRADE)[update["allow_downgrade"]],
        )
        for name, update in named.items()
    ]


def respond(request: Request, error: RefusedUpdate | None = None) -> None:
    """Sends the response. With ``error``, the response has this top-level error and no results.
    Otherwise it has a successful result for each feature."""
    code, text = (NONE, None) if error is None else (error.error_code, str(error))
    results = [
        {"feature": update["feature"], "error_code": NONE, "error_message": "NONE"}
        for update in request.value["feature_updates"]
        if error is None
    ]
    request.respond({"error_code": code, "error_message": text, "results": results}, code)


def is_refused(services: Services, request: Request) -> bool:
    """Returns True if the client may not alter the cluster; then the request is also ended with an
    error."""
    if is_allowed(services, request, ALTER):
        return False
    code = CLUSTER_AUTHORIZATION_FAILED
    respond(request, RefusedUpdate(code, TEXTS[code]))
    return True


def _handle(services: Services, request: Request) -> None:
    if is_refused(services, request):
        return
    levels, updates = services.registry.features.levels, updates_of(request)
    try:
        updated(levels, updates, {f"Local controller {services.registry.node_id}": _SUPPORTED})
        for update in updates:
            if update.level != levels.get(update.name, 0):
                reason = f"Set {_SETTINGS[update.name]} on this standalone broker, and restart it."
                raise refused(update, reason)
    except RefusedUpdate as error:
        respond(request, error)
    else:
        respond(request)


SERVED = ServedApi(API, 0, 2, _handle, rights=Rights((ALTER,)))
