"""Credentials and quotas in ZooKeeper: Muster reads and writes Kafka's format, and a broker applies
the changes that another broker wrote."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.authentication.users import Deletion, Upsertion, Users
from broker.authorizer.quota_changes import QuotaChanges
from broker.cluster.topics.client_configs import ClientConfigs
from broker.cluster.topics.config_nodes import ConfigNodes
from broker.cluster.zookeeper import zookeeper as zookeeper_module
from broker.cluster.zookeeper.zookeeper import ensure_path
from broker.cluster_stores import ClusterQuotas, ClusterUsers
from broker.config.config import Config
from broker.quotas.client_quotas import ClientQuotas
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from protocol.znodes.configs import client_entity
from security.credentials import BY_NAME, ScramMechanism, credential
from security.quotas.entities import Entity
from tests.broker.authentication.letting_in import own_slices

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "znodes" / "security-kafka-3.9.2.json").read_text()
)["nodes"]
STRANGE = 'a b*c+ü~%"é日.-_@:'
SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SALT = b"a salt, always the same"


class Fellow:
    """The objects with which one broker stores credentials and quotas in ZooKeeper."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.zookeeper = MemoryZooKeeper(ensemble)
        config, time = Config({}), Time()
        self.clients = ClientConfigs(self.zookeeper, ConfigNodes(self.zookeeper, config), time)
        self.user_store = ClusterUsers(self.clients, time)
        self.quota_store = ClusterQuotas(self.clients, time)
        self.quotas = QuotaChanges(ClientQuotas(config, time))
        self.users: Users

    async def open(self) -> None:
        await self.clients.read_all()
        self.users = self.user_store.users(b"secret")
        self.quotas.keep_in(self.quota_store)

    async def hear(self) -> None:
        """Reads each entity that a change notification in ZooKeeper names."""
        for name in sorted(await self.zookeeper.children("/config/changes")):
            data, _ = await self.zookeeper.get(f"/config/changes/{name}")
            await self.clients.read(client_entity(json.loads(data)["entity_path"]))


def play(conduct: Callable[[Ensemble, Fellow, Fellow], Coroutine[Any, Any, None]]) -> None:
    """Runs ``conduct`` with two brokers. ZooKeeper contains nodes that Kafka wrote."""

    async def run() -> None:
        async with asyncio.timeout(120):
            ensemble = Ensemble()
            tool = MemoryZooKeeper(ensemble)
            for path, text in RECORDED.items():
                if path.startswith("/config/"):
                    await ensure_path(tool, path)
                    await tool.set(path, text.encode())
            one, other = Fellow(ensemble), Fellow(ensemble)
            await one.open()
            await other.open()
            await conduct(ensemble, one, other)

    asyncio.run(run())


def test_credentials_and_quotas_written_by_kafka_are_read() -> None:
    async def conduct(ensemble: Ensemble, one: Fellow, other: Fellow) -> None:
        assert list(one.users.names()) == sorted([STRANGE, "alice"])
        for name, mechanism, password in (
            ("alice", SHA_256, b"hers"),
            ("alice", SHA_512, b"hers"),
            (STRANGE, SHA_256, b"x"),
        ):
            salted = mechanism.salted_password(password, SALT, 4096)
            wanted = credential(mechanism, salted, SALT, 4096)
            assert one.users.of(name)[mechanism] == wanted
        assert dict(one.quotas.values) == {
            Entity(STRANGE): {"producer_byte_rate": 1024, "request_percentage": 12.5},
            Entity("alice", "app/1"): {"consumer_byte_rate": 3e9},
            Entity(None, None): {"controller_mutation_rate": 0.25},
            Entity(None): {"producer_byte_rate": 1e6},
            Entity(client_id=None): {"request_percentage": 200},
            Entity(client_id="<default>"): {"request_percentage": 300},
            Entity(client_id="app"): {"consumer_byte_rate": 8},
            Entity(ip="127.0.0.1"): {"connection_creation_rate": 7},
            Entity(ip=None): {"connection_creation_rate": 70},
        }
        assert one.clients.not_followed(100) == []

    play(conduct)


def test_password_set_on_one_broker_is_valid_on_the_other_broker() -> None:
    async def conduct(ensemble: Ensemble, one: Fellow, other: Fellow) -> None:
        salted = SHA_512.salted_password(b"new", SALT, 4096)
        outcomes = await one.users.alter(
            [Deletion("alice", 1)],
            [Upsertion(STRANGE, 2, 4096, SALT, salted), Upsertion("a,b", 2, 4096, SALT, salted)],
            own_slices(),
        )
        assert {each.error_code for each in outcomes.values()} == {0}
        await other.hear()
        wanted = credential(SHA_512, salted, SALT, 4096)
        for fellow in (one, other):
            assert set(fellow.users.of("alice")) == {SHA_512}
            assert set(fellow.users.of(STRANGE)) == {SHA_256, SHA_512}
            assert fellow.users.of("a,b") == {SHA_512: wanted}
            assert fellow.quotas.values[Entity(STRANGE)]["request_percentage"] == 12.5
        gone = await other.users.alter([Deletion("a,b", 2)], [], own_slices())
        assert gone["a,b"].error_code == 0
        await one.hear()
        assert one.users.of("a,b") == {}
        assert "/config/users/a%2Cb" not in ensemble.nodes

    play(conduct)


def test_quotas_are_stored_in_the_format_of_kafka() -> None:
    """The test removes the quotas that Kafka wrote and sets the same quotas again. The new nodes
    must equal Kafka's nodes."""

    async def conduct(ensemble: Ensemble, one: Fellow, other: Fellow) -> None:
        before = {entity: dict(values) for entity, values in one.quotas.values.items()}
        for entity, values in before.items():
            assert await one.quotas.alter({entity: dict.fromkeys(values)}) == {}
        await other.hear()
        assert dict(other.quotas.values) == {}
        assert [each for each in ensemble.nodes if each.startswith("/config/ips/")] == []
        assert await one.quotas.alter(before) == {}
        await other.hear()
        assert dict(other.quotas.values) == before
        for path, text in RECORDED.items():
            if path.startswith(("/config/users/", "/config/clients/", "/config/ips/")):
                data = ensemble.nodes[path].data or b""
                assert (json.loads(data) if data else "") == (json.loads(text) if text else "")

    play(conduct)


ALICE, RATES = Entity("alice"), "/config/users/alice"


def settings_of(ensemble: Ensemble, path: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(ensemble.nodes[path].data or b"{}")["config"]
    return found


def test_quota_change_keeps_a_quota_that_another_broker_just_wrote() -> None:
    async def conduct(ensemble: Ensemble, one: Fellow, other: Fellow) -> None:
        assert await one.quotas.alter({ALICE: {"producer_byte_rate": 1.0}}) == {}
        assert await other.quotas.alter({ALICE: {"consumer_byte_rate": 2.0}}) == {}
        both = {"producer_byte_rate": 1, "consumer_byte_rate": 2}
        assert other.quotas.values[ALICE] == both
        await one.hear()
        assert one.quotas.values[ALICE] == both
        assert settings_of(ensemble, RATES).keys() == {*both, *BY_NAME}

    play(conduct)


def test_quota_equal_to_cached_value_is_written_when_zookeeper_has_another_value() -> None:
    async def conduct(ensemble: Ensemble, one: Fellow, other: Fellow) -> None:
        assert await one.quotas.alter({ALICE: {"producer_byte_rate": 1.0}}) == {}
        await other.hear()
        assert await one.quotas.alter({ALICE: {"producer_byte_rate": 9.0}}) == {}
        assert await other.quotas.alter({ALICE: {"producer_byte_rate": 1.0}}) == {}
        assert settings_of(ensemble, RATES)["producer_byte_rate"] == "1"
        assert await one.quotas.alter({ALICE: {"request_percentage": 9.0}}) == {}
        assert await other.quotas.alter({ALICE: {"request_percentage": None}}) == {}
        assert "request_percentage" not in settings_of(ensemble, RATES)

    play(conduct)


def test_quota_change_keeps_invalid_settings_that_the_zookeeper_node_contains() -> None:
    async def conduct(ensemble: Ensemble, one: Fellow, other: Fellow) -> None:
        before = settings_of(ensemble, RATES)
        strange = {**before, "request_percentage": "much"}
        node = {"version": 1, "config": strange}
        await one.zookeeper.set(RATES, json.dumps(node).encode())
        await other.clients.read_all()
        taken_away = dict.fromkeys(BY_NAME)
        assert await other.quotas.alter({ALICE: {"producer_byte_rate": 1.0, **taken_away}}) == {}
        assert settings_of(ensemble, RATES) == {**strange, "producer_byte_rate": "1"}
        assert other.quotas.values[ALICE] == {"producer_byte_rate": 1}

    play(conduct)


def test_new_scram_password_keeps_the_password_of_another_mechanism_set_by_another_broker() -> None:
    async def conduct(ensemble: Ensemble, one: Fellow, other: Fellow) -> None:
        for fellow, mechanism in ((one, SHA_256), (other, SHA_512)):
            salted = mechanism.salted_password(b"new", SALT, 4096)
            change = Upsertion("bob", mechanism.code, 4096, SALT, salted)
            assert (await fellow.users.alter([], [change], own_slices()))["bob"].error_code == 0
        assert set(other.users.of("bob")) == {SHA_256, SHA_512}
        await one.hear()
        assert one.users.of("bob") == other.users.of("bob")
        gone = await other.users.alter([Deletion("bob", SHA_512.code)], [], own_slices())
        assert gone["bob"].error_code == 0
        assert settings_of(ensemble, "/config/users/bob").keys() == {"SCRAM-SHA-256"}

    play(conduct)


def test_invalid_zookeeper_node_is_ignored_and_logged_without_its_value() -> None:
    async def conduct(ensemble: Ensemble, one: Fellow, other: Fellow) -> None:
        for path, text in (
            ("/config/users/alice", '{"version":1,"config":{"SCRAM-SHA-256":"hunter2"}}'),
            ("/config/clients/app", '{"version":1,"config":{"consumer_byte_rate":"much"}}'),
            ("/config/clients/<default>", '{"version":1,"config":{"request_percentage":"-1"}}'),
        ):
            await one.zookeeper.set(path, text.encode())
        with capture_logs() as logs:
            await other.clients.read_all()
        assert {each["entity"] for each in logs} == {
            "user alice",
            "client-id app",
            "client-id <default>",
        }
        assert "hunter2" not in str(logs)
        assert other.users.of("alice") == {}
        assert Entity(client_id="app") not in other.quotas.values
        assert Entity(client_id=None) not in other.quotas.values

    play(conduct)


def test_quota_and_password_changes_fail_when_zookeeper_is_suspended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zookeeper_module, "ANSWERS_S", 0.01)

    async def conduct(ensemble: Ensemble, one: Fellow, other: Fellow) -> None:
        one.zookeeper.suspend()
        failed = await one.quotas.alter({Entity("bob"): {"producer_byte_rate": 1.0}})
        assert "no answer from ZooKeeper" in failed[Entity("bob")]
        outcomes = await one.users.alter([Deletion("alice", 1)], [], own_slices())
        assert outcomes["alice"].error_code != 0
        assert set(one.users.of("alice")) == set(BY_NAME.values())
        assert Entity("bob") not in one.quotas.values

    play(conduct)
