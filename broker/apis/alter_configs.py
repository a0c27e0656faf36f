"""AlterConfigs (33): replaces all of a resource's own settings; others return to their default.

v2 flexible. See `broker/topics/config_changes.py` for what a change does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from broker.apis.error_message import shortened
from broker.net.needs import EachResource, Rights
from broker.net.request import Request, ServedApi
from broker.topics.config_changes import ConfigRefused, Current, Edit, Rows
from protocol.errors import INVALID_REQUEST, NONE
from protocol.messages.alter_configs import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.services import Services


def _handle(services: Services, request: Request) -> None:
    alter_all(services, request, _edit)


def alter_all(
    services: Services, request: Request, edit_of: Callable[[list[dict[str, Any]]], Edit]
) -> None:
    """Answers a request whose resources have ``configs``, of which ``edit_of`` makes an edit.

    Resources are changed one after the other; what is wrong with one keeps no other back.
    """
    request.answer_later(_alter_all(services, request, request.value, edit_of))


async def _alter_all(
    services: Services,
    request: Request,
    value: dict[str, Any],
    edit_of: Callable[[list[dict[str, Any]]], Edit],
) -> None:
    resources = value["resources"]
    times = Counter((each["resource_type"], each["resource_name"]) for each in resources)
    answers = request.array("responses")
    worst = NONE
    slices = services.slicer.work(request.served.api.name)
    await slices.pause()
    for resource in resources:
        kind, name = resource["resource_type"], resource["resource_name"]
        error_code, message = NONE, None
        try:
            if times[kind, name] > 1:
                raise ConfigRefused(INVALID_REQUEST, "Each resource must appear at most once.")
            configs = resource["configs"]
            if max(Counter(entry["name"] for entry in configs).values(), default=0) > 1:
                raise ConfigRefused(INVALID_REQUEST, "Error due to duplicate config keys.")
            edit = edit_of(configs)
            await slices.beside(
                services.config_changes.change(kind, name, edit, value["validate_only"])
            )
        except ConfigRefused as refused:
            error_code, message = refused.error_code, shortened(refused.message)
        worst = worst or error_code
        answers.append(
            {
                "error_code": error_code,
                "error_message": message,
                "resource_type": kind,
                "resource_name": name,
            }
        )
        if slices.over:
            await slices.pause()
    slices.end()
    request.respond({"responses": answers}, worst)


def refuse_nulls(configs: list[dict[str, Any]]) -> None:
    """Raises ConfigRefused where a value is null."""
    nulls = [entry["name"] for entry in configs if entry["value"] is None]
    if nulls:
        raise ConfigRefused(
            INVALID_REQUEST, f"Null value not supported for: {', '.join(sorted(nulls))}"
        )


def _edit(configs: list[dict[str, Any]]) -> Edit:
    refuse_nulls(configs)

    def replaced(own: Mapping[str, str], rows: Rows, current: Current) -> dict[str, str]:  # noqa: ARG001
        return {rows(entry["name"]).name: entry["value"] for entry in configs}

    return replaced


SERVED = ServedApi(
    API,
    0,
    2,
    _handle,
    rights=Rights(each=EachResource(Operation.ALTER_CONFIGS, "responses", skips_duplicates=True)),
)
