"""Tests that every user may read the settings that contain the broker's HTTP address, and no other
settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE
from tests.broker.apis.authorization.asking import guarded_broker

HTTP = ["http.listener", "http.advertised.listener", "http.security.protocol"]
BROKER, TOPIC = 4, 2


@pytest.mark.parametrize(
    ("names", "error_code"),
    [
        (HTTP, NONE),
        (HTTP[:1], NONE),
        ([*HTTP, "log.dirs"], CLUSTER_AUTHORIZATION_FAILED),
        (["log.dirs"], CLUSTER_AUTHORIZATION_FAILED),
        ([], CLUSTER_AUTHORIZATION_FAILED),
        (None, CLUSTER_AUTHORIZATION_FAILED),
    ],
)
async def test_user_without_rights_can_describe_only_the_http_settings(
    tmp_path: Path, names: list[str] | None, error_code: int
) -> None:
    async with guarded_broker(tmp_path) as asking:
        node_id = str(asking.broker.registry.node_id)
        asked = {"resource_type": BROKER, "resource_name": node_id, "configuration_keys": names}
        answer = await asking.ask(
            "alice",
            "DescribeConfigs",
            2,
            {"resources": [asked], "include_synonyms": False},
        )
    [result] = answer["results"]
    assert result["error_code"] == error_code
    told = {entry["name"] for entry in result["configs"]}
    assert told == ({*(names or ())} if error_code == NONE else set())


async def test_topic_is_not_described_to_a_user_without_rights(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as asking:
        asked = {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": HTTP}
        answer = await asking.ask(
            "alice", "DescribeConfigs", 2, {"resources": [asked], "include_synonyms": False}
        )
    assert answer["results"][0]["error_code"] != NONE
