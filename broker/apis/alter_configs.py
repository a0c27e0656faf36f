"""AlterConfigs (33): replaces all settings of a resource; omitted settings return to their
defaults.

Versions: v2 flexible. `broker/topics/config_changes.py` documents the effect of a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import TEXTS, split_resources
from broker.apis.shared.error_message import shortened
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import EachResource, Rights
from broker.topics.config_changes import ConfigRefused, Current, Edit, Rows
from protocol.errors import INVALID_REQUEST, NONE
from protocol.messages.alter_configs import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


ALTER = EachResource(Operation.ALTER_CONFIGS)


def _handle(services: Services, request: Request) -> Steps:
    return alter_all(services, request, _edit)


def alter_all(
    services: Services, request: Request, edit_of: Callable[[list[dict[str, Any]]], Edit]
) -> Steps:
    """Changes the resources of a request one after the other. ``edit_of`` turns a resource's
    configs into an edit. An error for one resource does not stop the others."""
    times: Counter[tuple[int, str]] = Counter()
    for each in request.value["resources"]:
        times[each["resource_type"], each["resource_name"]] += 1
        yield None
    allowed, denied = yield from split_resources(
        services,
        request,
        ALTER,
        request.value["resources"],
        lambda each: times[each["resource_type"], each["resource_name"]] > 1,
    )
    request.answer_later(_alter_all(services, request, allowed, times, denied, edit_of))


async def _alter_all(
    services: Services,
    request: Request,
    resources: Sequence[dict[str, Any]],
    times: Counter[tuple[int, str]],
    denied: Mapping[int, Sequence[dict[str, Any]]],
    edit_of: Callable[[list[dict[str, Any]]], Edit],
) -> None:
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
                services.config_changes.change(kind, name, edit, request.value["validate_only"])
            )
        except ConfigRefused as refused:
            error_code, message = refused.error_code, shortened(refused.message)
        worst = worst or error_code
        answers.append(_answer(resource, error_code, message))
        if slices.over:
            await slices.pause()
    for code, others in denied.items():
        worst = worst or code
        for resource in others:
            answers.append(_answer(resource, code, TEXTS[code]))
            if slices.over:
                await slices.pause()
    slices.end()
    request.respond({"responses": answers}, worst)


def _answer(resource: dict[str, Any], error_code: int, message: str | None) -> dict[str, Any]:
    return {
        "error_code": error_code,
        "error_message": message,
        "resource_type": resource["resource_type"],
        "resource_name": resource["resource_name"],
    }


def refuse_nulls(configs: list[dict[str, Any]]) -> None:
    """Raises ConfigRefused if a value is null."""
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


SERVED = ServedApi(API, 0, 2, _handle, rights=Rights(each=ALTER))
