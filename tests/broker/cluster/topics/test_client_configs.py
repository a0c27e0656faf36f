"""Tests quotas and credentials in ZooKeeper: brokers read and change them, and log settings that
the broker does not use."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from broker.cluster.topics import client_configs
from broker.cluster.topics.client_configs import LINES_AT_ONCE, ClientConfigs
from broker.cluster.topics.config_nodes import ConfigNodes
from broker.time import Time
from protocol.znodes import configs
from protocol.znodes.fields import BadNode
from tests.broker.cluster.topics.settings_scene import Scene, play

RATE = {"producer_byte_rate": "1000"}
SECRET = "salt=c2VjcmV0,stored_key=a2V5"
SCRAM = {"SCRAM-SHA-256": SECRET}


def kept(scene: Scene) -> dict[str, dict[str, str]]:
    """Returns the stored settings by entity name."""
    return {who.words: dict(has) for who, has in scene.configs.clients.settings.items()}


def warnings(logs: list[EventDict]) -> list[tuple[str, list[str]]]:
    """Returns the logged warnings about stored settings."""
    return [
        (each["entity"], each["settings"])
        for each in logs
        if each["log_level"] == "warning" and "entity" in each
    ]


async def put(scene: Scene, entity: str, data: bytes) -> None:
    """Creates a node and its parent nodes, without a change notice."""
    parts = f"config/{entity}".split("/")
    for end in range(1, len(parts) + 1):
        path = "/" + "/".join(parts[:end])
        if await scene.other.exists(path) is None:
            await scene.other.create(path, data if end == len(parts) else None)


def test_all_client_settings_are_read_from_zookeeper_at_the_start(tmp_path: Path) -> None:
    async def conduct(scene: Scene) -> None:
        await put(scene, "users/a%20b%2Fc", configs.encode_config(SCRAM))
        await put(scene, "users/a%20b%2Fc/clients/app", configs.encode_config(RATE))
        await put(scene, "users/<default>/clients/<default>", configs.encode_config(RATE))
        await put(scene, "clients/app", configs.encode_config(RATE))
        await put(scene, "clients/free", configs.encode_config({}))
        await put(scene, "clients/bad", b"?")
        await put(scene, "ips/<default>", configs.encode_config({"connection_creation_rate": "5"}))
        with capture_logs() as logs:
            scene.configs.start()
            await scene.until(lambda: len(scene.configs.clients.settings) == 5)
            await scene.settle()
        assert kept(scene) == {
            "client-id app": RATE,
            "user a b/c": SCRAM,
            "user a b/c, client-id app": RATE,
            "user <default>, client-id <default>": RATE,
            "ip <default>": {"connection_creation_rate": "5"},
        }
        assert len(warnings(logs)) == 5
        assert ("user a b/c", ["SCRAM-SHA-256"]) in warnings(logs)
        assert any("/config/clients/bad is not JSON" in each.get("reason", "") for each in logs)
        assert SECRET not in str(logs)

    play(tmp_path, conduct)


def test_change_and_removal_of_client_settings_are_logged_once(tmp_path: Path) -> None:
    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        await scene.settle()
        with capture_logs() as logs:
            await put(scene, "users/u/clients", b"")
            for settings in (RATE, RATE, {"consumer_byte_rate": "7"}, {}):
                await scene.write("users/u/clients/c", settings)
                await scene.settle()
        who = "user u, client-id c"
        assert warnings(logs) == [(who, ["producer_byte_rate"]), (who, ["consumer_byte_rate"])]
        assert (logs[-1]["log_level"], logs[-1]["entity"]) == ("info", who)
        assert kept(scene) == {}
        assert not scene.errors.counts.total()

    play(tmp_path, conduct)


@pytest.mark.parametrize("expires", [False, True])
def test_all_client_settings_are_read_again_after_a_reconnect(
    tmp_path: Path, expires: bool
) -> None:
    """Change notices may be written and deleted again while the broker is disconnected."""

    async def conduct(scene: Scene) -> None:
        await put(scene, "clients/old", configs.encode_config(RATE))
        scene.configs.start()
        await scene.until(lambda: [*kept(scene)] == ["client-id old"])
        scene.zookeeper.suspend()
        await put(scene, "ips/10.0.0.1", configs.encode_config(RATE))
        await scene.other.delete("/config/clients/old")
        if expires:
            scene.zookeeper.ensemble.end_session(scene.zookeeper.session)
        scene.zookeeper.resume()
        await scene.until(lambda: [*kept(scene)] == ["ip 10.0.0.1"])

    play(tmp_path, conduct)


def test_number_of_log_lines_about_client_settings_is_bounded(tmp_path: Path) -> None:
    async def conduct(scene: Scene) -> None:
        for number in range(LINES_AT_ONCE + 3):
            await put(scene, f"users/u{number}", configs.encode_config(SCRAM))
        with capture_logs() as logs:
            scene.configs.start()
            await scene.until(lambda: len(kept(scene)) == LINES_AT_ONCE + 3)
            await scene.settle()
        assert len(warnings(logs)) == LINES_AT_ONCE
        assert [each["more"] for each in logs if "more" in each] == [3]

    play(tmp_path, conduct)


def test_number_of_stored_client_settings_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_configs, "KEPT_CHARACTERS", 600)

    async def conduct(scene: Scene) -> None:
        for name in "abcd":
            await put(scene, f"users/{name}", configs.encode_config(RATE))
        with capture_logs() as logs:
            scene.configs.start()
            await scene.settle()
            assert [*kept(scene)] == ["user a", "user b"]
            await scene.write("users/a", {})
            await scene.write("users/d", SCRAM)
            await scene.settle()
        assert kept(scene) == {"user b": RATE, "user d": SCRAM}
        assert [each["log_level"] for each in logs].count("error") == 1

    play(tmp_path, conduct)


def test_log_line_about_an_invalid_user_znode_does_not_contain_its_content(tmp_path: Path) -> None:
    async def conduct(scene: Scene) -> None:
        scene.configs.start()
        await scene.settle()
        with capture_logs() as logs:
            await scene.write("users/u", b'{"version":1,"config":["%s"]}' % SECRET.encode())
            await scene.settle()
        assert "/config/users/u has a field config that is not an object of strings" in str(logs)
        assert SECRET not in str(logs)

    play(tmp_path, conduct)


USER = configs.entity_of([("users", "a b")])
CLIENT = configs.entity_of([("users", "a b"), ("clients", "c")])


async def _paths(scene: Scene, path: str = "/config/users") -> list[str]:
    names = sorted(await scene.other.children(path))
    found = [f"{path}/{name}" for name in names]
    return [*found, *[each for one in found for each in await _paths(scene, one)]]


def test_change_of_a_user_keeps_the_other_settings_and_notifies_brokers(tmp_path: Path) -> None:
    async def conduct(scene: Scene) -> None:
        heard: list[tuple[str, dict[str, str]]] = []
        clients = scene.configs.clients
        clients.expect(["SCRAM-SHA-256", *RATE])
        clients.follow(lambda who, has: heard.append((who.words, dict(has))))
        scene.configs.start()
        await scene.settle()
        with capture_logs() as logs:
            await clients.alter(USER, SCRAM)
            await clients.alter(USER, RATE)
            await clients.alter(USER, {"SCRAM-SHA-256": None})
            await scene.settle()
        assert heard == [("user a b", SCRAM), ("user a b", SCRAM | RATE), ("user a b", RATE)]
        assert not warnings(logs)
        data, _ = await scene.other.get("/config/users/a%20b")
        assert data == configs.encode_config(RATE)
        assert len(await scene.other.children("/config/changes")) == 3

    play(tmp_path, conduct)


def test_zookeeper_node_of_an_entity_is_removed_with_its_last_setting(tmp_path: Path) -> None:
    async def conduct(scene: Scene) -> None:
        clients = scene.configs.clients
        scene.configs.start()
        await scene.settle()
        await clients.alter(CLIENT, RATE)
        assert await _paths(scene) == [
            "/config/users/a%20b",
            "/config/users/a%20b/clients",
            "/config/users/a%20b/clients/c",
        ]
        await clients.alter(USER, SCRAM)
        await clients.alter(USER, {"SCRAM-SHA-256": None})
        assert len(await _paths(scene)) == 3
        await clients.alter(CLIENT, dict.fromkeys(RATE))
        assert await _paths(scene) == []
        assert kept(scene) == {}
        await clients.alter(CLIENT, dict.fromkeys(RATE))
        assert await _paths(scene) == []

    play(tmp_path, conduct)


def test_concurrent_changes_of_one_user_are_all_kept(tmp_path: Path) -> None:
    async def conduct(scene: Scene) -> None:
        other = ClientConfigs(scene.other, ConfigNodes(scene.other, scene.config), Time())
        mine = ClientConfigs(scene.zookeeper, ConfigNodes(scene.zookeeper, scene.config), Time())
        await asyncio.gather(mine.alter(USER, SCRAM), other.alter(USER, RATE))
        data, _ = await scene.other.get("/config/users/a%20b")
        assert configs.decode_config("/", data) == SCRAM | RATE

    play(tmp_path, conduct)


def test_invalid_user_node_is_not_overwritten(tmp_path: Path) -> None:
    async def conduct(scene: Scene) -> None:
        await put(scene, "users/a%20b", b"?")
        with pytest.raises(BadNode, match="is not JSON"):
            await scene.configs.clients.alter(USER, RATE)
        assert (await scene.other.get("/config/users/a%20b"))[0] == b"?"

    play(tmp_path, conduct)
