"""ListConfigResources (74): lists the resources that have settings.

In Muster, client metrics and broker loggers have no settings, so none is listed. A group is listed
if it has settings of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, cluster
from broker.topics.config_changes import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE, UNSUPPORTED_VERSION
from protocol.messages.list_config_resources import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE_CONFIGS = cluster(Operation.DESCRIBE_CONFIGS)
_WITHOUT_SETTINGS = (8, 16)
"""The codes of the resource types that have no settings in Muster: broker loggers (8) and client
metrics (16)."""


def _handle(services: Services, request: Request) -> Steps:
    known = (TOPIC_RESOURCE, BROKER_RESOURCE, *_WITHOUT_SETTINGS, GROUP_RESOURCE)
    asked = request.value["resource_types"] or (known if request.api_version else ())
    if not is_allowed(services, request, _DESCRIBE_CONFIGS):
        request.respond({"error_code": CLUSTER_AUTHORIZATION_FAILED, "config_resources": []})
        return
    if not set(asked) <= set(known):
        request.respond({"error_code": UNSUPPORTED_VERSION, "config_resources": []})
        return
    found = request.array("config_resources")
    for kind in dict.fromkeys(asked):
        if kind == TOPIC_RESOURCE:
            names = list(services.registry.topics)
        elif kind == BROKER_RESOURCE:
            names = [str(services.registry.node_id)]
        elif kind == GROUP_RESOURCE:
            names = sorted(services.registry.group_configs)
        else:
            names = []
        for name in names:
            found.append({"resource_name": name, "resource_type": kind})
            yield None
    request.respond({"error_code": NONE, "config_resources": found})


SERVED = ServedApi(API, 0, 1, _handle, rights=Rights((_DESCRIBE_CONFIGS,)))
