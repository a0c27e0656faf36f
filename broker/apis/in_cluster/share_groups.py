"""The APIs of share groups in a cluster, where the feature share.version decides whether brokers
may write the records of share groups (KIP-932, KIP-584)."""

from __future__ import annotations

from broker.apis.alter_share_group_offsets import SERVED as ALTER_OFFSETS
from broker.apis.delete_share_group_offsets import SERVED as DELETE_OFFSETS
from broker.apis.describe_share_group_offsets import SERVED as DESCRIBE_OFFSETS
from broker.apis.in_cluster.feature_guard import (
    guarded,
    refuse_each_group,
    refuse_heartbeat,
    refused_group,
)
from broker.apis.share_acknowledge import SERVED as ACKNOWLEDGE
from broker.apis.share_fetch.served import SERVED as FETCH
from broker.apis.share_group_describe import SERVED as DESCRIBE
from broker.apis.share_group_heartbeat import SERVED as HEARTBEAT
from broker.config.config_table import SHARE_VERSION
from broker.net.request import Request, Steps


def _whole(request: Request, error_code: int, text: str) -> None:
    """Ends a request with a top-level error and an empty array ``responses``."""
    fields = {"error_code": error_code, "error_message": text}
    request.respond({**fields, "responses": []}, error_code)


def _each_groups_offsets(request: Request, error_code: int, text: str) -> Steps:
    groups = request.array("groups")
    for group in request.value["groups"]:
        groups.append({**refused_group(group["group_id"], error_code, text), "topics": []})
        yield None
    request.respond({"groups": groups}, error_code)


SHARE_ROWS = (
    guarded(ALTER_OFFSETS, SHARE_VERSION, _whole),
    guarded(DELETE_OFFSETS, SHARE_VERSION, _whole),
    guarded(DESCRIBE_OFFSETS, SHARE_VERSION, _each_groups_offsets),
    guarded(DESCRIBE, SHARE_VERSION, refuse_each_group),
    guarded(HEARTBEAT, SHARE_VERSION, refuse_heartbeat),
    guarded(ACKNOWLEDGE, SHARE_VERSION, _whole, is_coordinator=False),
    guarded(FETCH, SHARE_VERSION, _whole, is_coordinator=False),
)
"""The share-group APIs of a broker in a cluster, as rows of the table of served APIs. Each handler
checks share.version first."""
