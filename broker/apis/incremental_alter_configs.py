"""IncrementalAlterConfigs (44): sets and deletes single settings, and edits lists (KIP-339).

Versions: v1 is flexible. The operation APPEND adds a value to the list that is in effect, which may
be the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.apis.alter_configs import ALTER, alter_all, refuse_nulls
from broker.config.dynamic_settings import DELETE, NEVER_SET, SET, SUBTRACT, with_operation
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights
from broker.topics.config_changes import ConfigRefused, Current, Edit, Rows
from protocol.errors import INVALID_REQUEST
from protocol.messages.incremental_alter_configs import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _handle(services: Services, request: Request) -> Steps:
    return alter_all(services, request, _edit)


def _edit(configs: list[dict[str, Any]]) -> Edit:
    for entry in configs:
        operation = entry["config_operation"]
        if not SET <= operation <= SUBTRACT:
            raise ConfigRefused(
                INVALID_REQUEST, f"Unknown operation type {operation} for {entry['name']}."
            )
    refuse_nulls([entry for entry in configs if entry["config_operation"] != DELETE])

    def edited(own: Mapping[str, str], rows: Rows, current: Current) -> dict[str, str]:
        changed = dict(own)
        for entry in configs:
            if entry["config_operation"] == DELETE and entry["name"] in NEVER_SET:
                continue
            setting = rows(entry["name"])
            changed = with_operation(
                changed,
                entry["config_operation"],
                setting,
                entry["value"] or "",
                current(setting.name),
            )
        return changed

    return edited


SERVED = ServedApi(API, 0, 1, _handle, rights=Rights(each=ALTER))
