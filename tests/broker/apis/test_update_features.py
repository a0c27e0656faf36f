"""Tests that UpdateFeatures on a standalone broker has the errors of Kafka 4.3.1, but changes no
level."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import INVALID_UPDATE_VERSION, NONE
from tests.broker.serving import asked, serving
from tests.wire import Wire

UPGRADE, SAFE_DOWNGRADE = 1, 2
REFUSED = "The update failed for all features since the following feature had an error: "
RESTART = "Set {} on this standalone broker, and restart it."
DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or"
    " unsafe downgrade."
)
REFUSALS = [
    ("nope", 1, UPGRADE, "Local controller 1 does not support this feature."),
    ("nope", 0, SAFE_DOWNGRADE, "Feature nope not found."),
    ("nope", -1, 4, "The controller does not support the given upgrade type."),
    ("group.version", -1, UPGRADE, "A feature version cannot be less than 0."),
    ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
    ("group.version", 0, UPGRADE, DOWNGRADE),
    ("group.version", 0, SAFE_DOWNGRADE, RESTART.format("group.coordinator.rebalance.protocols")),
    ("transaction.version", 3, UPGRADE, "Local controller 1 only supports versions 0-2"),
    ("transaction.version", 1, SAFE_DOWNGRADE, RESTART.format("transaction.version")),
]


def request(*updates: dict[str, Any]) -> dict[str, Any]:
    return {"timeout_ms": 5000, "feature_updates": list(updates), "validate_only": True}


async def test_update_features_returns_invalid_update_version_with_the_reason(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as broker:
        for name, level, kind, reason in REFUSALS:
            update = {"feature": name, "max_version_level": level, "upgrade_type": kind}
            call = partial(Wire.call, name="UpdateFeatures", version=2, value=request(update))
            reply = await asked(broker, call)
            text = f"{REFUSED}Invalid update version {level} for feature {name}. {reason}"
            assert (reply["error_code"], reply["error_message"]) == (INVALID_UPDATE_VERSION, text)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_feature_update_to_the_present_level_succeeds(tmp_path: Path, version: int) -> None:
    update = {"feature": "group.version", "max_version_level": 1}
    update.update({"allow_downgrade": False} if version == 0 else {"upgrade_type": UPGRADE})
    async with serving(tmp_path) as broker:
        reply = await asked(
            broker, lambda wire: wire.call("UpdateFeatures", version, request(update))
        )
    assert (reply["error_code"], reply["error_message"]) == (NONE, None)
    result = {"feature": "group.version", "error_code": NONE, "error_message": "NONE"}
    assert reply.get("results", []) == ([] if version == 2 else [result])
