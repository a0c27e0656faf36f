"""DescribeCluster (60): the brokers of the cluster.

Versions: v1 adds the endpoint type, brokers or controllers; v2 adds fenced brokers. Requests for
controller endpoints are refused, since controllers have no listener of their own. A response waits
for the controller's first UpdateMetadata (`shared/deferred_answer.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import NOT_ASKED, cluster_operations
from broker.apis.shared.deferred_answer import await_live_brokers
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import AuthorizedOperations, Rights, cluster
from protocol.errors import MISMATCHED_ENDPOINT_TYPE, NONE, UNSUPPORTED_ENDPOINT_TYPE
from protocol.messages.describe_cluster import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_TELLS = AuthorizedOperations(ResourceType.CLUSTER, cluster(Operation.DESCRIBE))
_BROKERS = 1
_CONTROLLERS = 2


def _handle(services: Services, request: Request) -> Steps | None:
    kind = request.value["endpoint_type"]
    if kind != _BROKERS:
        if kind == _CONTROLLERS:
            error_code = MISMATCHED_ENDPOINT_TYPE
            message = (
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint"
                " of type CONTROLLER"
            )
        else:
            error_code, message = UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {kind}"
        request.respond(
            {"error_code": error_code, "error_message": message, "cluster_id": "", "brokers": []}
        )
        return None
    return await_live_brokers(services, request, _answer)


def _answer(services: Services, request: Request) -> None:
    cluster = services.cluster
    operations = NOT_ASKED
    if request.value["include_cluster_authorized_operations"]:
        operations = cluster_operations(services, request, _TELLS)
    request.respond(
        {
            "error_code": NONE,
            "endpoint_type": _BROKERS,
            "cluster_id": services.registry.cluster_id,
            "controller_id": cluster.controller_id,
            "brokers": [
                {
                    "broker_id": node.node_id,
                    "host": node.host,
                    "port": node.port,
                    "rack": node.rack,
                    "is_fenced": False,
                }
                for node in cluster.brokers(services.advertised.listener(request))
            ],
            "cluster_authorized_operations": operations,
        }
    )


SERVED = ServedApi(API, 0, 2, _handle, rights=Rights(tells=(_TELLS,)))
