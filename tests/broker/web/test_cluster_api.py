"""The paths /api/cluster: leaders, reasons for leader elections, out-of-sync replicas, and pending
work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from broker.broker import Broker
from broker.web.cluster_api import routes
from tests.broker.cluster.members import LISTENER, Members, members
from tests.broker.openapi import check_answer
from tests.broker.seen import seeing
from tests.broker.serving import eventually


async def asked(broker: Broker, path: str) -> tuple[int, Any]:
    transport = httpx.ASGITransport(Starlette(routes=routes(broker.sources)))
    async with httpx.AsyncClient(transport=transport, base_url="http://broker") as client:
        answer = await client.get(path)
        content_type = answer.headers["content-type"]
        check_answer(path, answer.status_code, content_type, answer.text)
        return answer.status_code, answer.json()


async def got(broker: Broker, path: str = "/api/cluster") -> Any:
    status, value = await asked(broker, path)
    assert status == 200, value
    return value


def controller_of(cluster: Members) -> Broker:
    at = next(iter(cluster.brokers.values()))
    return cluster.brokers[at.cluster.controller_id]


async def test_cluster_api_lists_brokers_and_controller_of_a_healthy_cluster(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as cluster:
        await cluster.create("orders", 3)
        controller = controller_of(cluster)
        await eventually("all have answered", lambda: has_no_debtor(controller))
        view = await got(controller)
        other = await got(next(b for b in cluster.brokers.values() if b is not controller))

    assert [each["broker"] for each in view["brokers"]] == [1, 2, 3]
    assert (view["controller"], view["controller_epoch"]) == (view["broker"], 1)
    assert (view["partitions"], view["waits"], view["more_partitions"]) == ([], [], 0)
    assert view["doing"]["epoch"] == 1
    assert view["doing"]["unanswered"] == []
    assert [each["cause"] for each in view["zookeeper"]["journal"]] == ["begun", "registered"]
    assert other["doing"] is None
    assert other["controller"] == view["broker"]
    assert [each["cause"] for each in other["journal"]] == ["told"]


async def test_reason_of_a_leader_change_names_the_stopped_broker(tmp_path: Path) -> None:
    async with members(tmp_path) as cluster:
        await cluster.create("orders", 3)
        controller = controller_of(cluster)
        own = controller.registry.node_id
        leaders = [(await cluster.leader("orders", index)).registry.node_id for index in range(3)]
        index = next(index for index, leader in enumerate(leaders) if leader != own)
        stopped = leaders[index]
        await cluster.stop(stopped)
        path = f"/api/cluster/partitions/orders/{index}"
        await eventually("another leads", lambda: leads_no_more(controller, index, stopped))
        view = await got(controller, path)
        leader = cluster.brokers[view["leader"]]
        row = (await got(leader, path))["out"]
        trouble = await got(controller)
        path = f"/api/cluster/brokers/{stopped}"
        await eventually("it is gone", lambda: stopped not in alive(controller))
        broker = await got(controller, path)

    assert view["why"] == (
        f"the leader, broker {stopped}, is in controlled shutdown; broker {view['leader']} is the"
        " first live member of the ISR"
    )
    assert [each["cause"] for each in view["journal"][:2]] == ["created", "shutdown"]
    [out] = view["out"]
    assert (out["broker"], out["since_ms"] is None, row[0]["broker"]) == (stopped, False, stopped)
    assert len(trouble["partitions"]) == 3
    assert broker["alive"] is False
    assert [each["cause"] for each in broker["journal"]][-2:] == ["stops", "stopped"]
    assert broker["told_by"] == own


def has_no_debtor(broker: Broker) -> bool:
    """Returns True if every broker has answered every request of the controller."""
    member = broker.sources.member
    assert member is not None
    term = member.host.term
    return term is not None and not term.channels.unanswered()


def alive(broker: Broker) -> list[int]:
    return [each.node_id for each in broker.cluster.brokers(LISTENER)]


def leads_no_more(broker: Broker, index: int, gone: int) -> bool:
    view = broker.cluster.partition("orders", index)
    return view is not None and view.leader not in (-1, gone) and gone not in view.isr


async def test_cluster_api_returns_null_for_an_unknown_controller(tmp_path: Path) -> None:
    async with members(tmp_path) as cluster:
        await cluster.create("orders", 1)
        controller = controller_of(cluster)
        broker = next(each for each in cluster.brokers.values() if each is not controller)
        assert broker.mode.member is not None
        broker.mode.member.cache.controller_id = -1
        views = [await got(broker), await got(broker, "/api/cluster/partitions/orders/0")]
        broker.mode.member.cache.controller_id = controller.registry.node_id

    assert [view["controller"] for view in views] == [None, None]


async def test_unknown_path_of_the_cluster_api_is_refused_with_a_hint(tmp_path: Path) -> None:
    async with members(tmp_path) as cluster:
        await cluster.create("orders", 1)
        broker = controller_of(cluster)
        answers = {
            path: await asked(broker, f"/api/cluster/{path}")
            for path in ("partitions/gone/0", "partitions/orders/1", "brokers/x", "weather")
        }

    assert {path: (status, each["error"]) for path, (status, each) in answers.items()} == {
        "partitions/gone/0": (404, "topic gone does not exist; /api/topics lists all topics"),
        "partitions/orders/1": (404, "orders does not have partition 1, only 0 to 0"),
        "brokers/x": (400, "x is not a broker id: write a number from 0"),
        "weather": (
            404,
            "unknown path /api/cluster/weather: use /api/cluster/partitions/TOPIC/PARTITION or"
            " /api/cluster/brokers/ID",
        ),
    }


async def test_journal_of_a_partition_survives_a_restart(tmp_path: Path) -> None:
    async with members(tmp_path) as cluster:
        await cluster.create("orders", 1)
        controller = controller_of(cluster).registry.node_id
        await cluster.stop(controller)
        again = await cluster.start(controller)
        await cluster.settled()
        await cluster.leader("orders", 0)
        view = await got(again, "/api/cluster/partitions/orders/0")

    first = view["journal"][0]
    assert (first["cause"], first["source"]) == ("created", "kept")


async def test_cluster_api_is_refused_by_a_standalone_broker(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        for path in ("/api/cluster", "/api/cluster/brokers/1"):
            answer = await seen.get(path)
            assert answer.status_code == 404
            assert "zookeeper.connect is not set" in answer.json()["error"]


async def test_cluster_api_lists_unsupported_quotas_and_credentials_by_name(tmp_path: Path) -> None:
    async with members(tmp_path) as cluster:
        broker = controller_of(cluster)
        member = broker.sources.member
        assert member is not None
        none = await got(broker, "/api/cluster/check")
        nodes, zookeeper = member.configs.nodes, member.joined.zookeeper
        await zookeeper.create("/config/users/alice", None)
        await zookeeper.create("/config/users/alice/clients", None)
        await zookeeper.create("/config/users/alice/clients/bad", b"[]")
        for kind, name in (("clients", "app"), ("users", "alice")):
            await nodes.write(
                kind,
                name,
                {},
                {"SCRAM-SHA-1": "secret", "spare_rate": "1", "producer_byte_rate": "1"},
            )
        clients = member.configs.clients
        await eventually("they are read", lambda: len(clients.settings) == 2)
        some = await got(broker, "/api/cluster/check?nodes=true")

    assert (none["not_followed"], none["more_not_followed"]) == ([], 0)
    names = ["SCRAM-SHA-1", "spare_rate"]
    assert some["not_followed"] == [
        {"entity": "client-id app", "settings": names},
        {"entity": "user alice", "settings": names},
    ]
    assert [each["path"] for each in some["bad_nodes"]] == ["/config/users/alice/clients/bad"]


async def test_cluster_check_lists_stray_directories_and_invalid_zookeeper_nodes(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as cluster:
        await cluster.create("orders", 1)
        broker = controller_of(cluster)
        node_id = broker.registry.node_id
        well = await got(broker, "/api/cluster/check?nodes=true")
        for name in ("gone-0", "orders-0.00ff-stray"):
            (tmp_path / str(node_id) / name).mkdir()
        member = broker.sources.member
        assert member is not None
        await member.joined.zookeeper.create("/brokers/topics/bad", b"[]")
        found = await got(broker, "/api/cluster/check?nodes=true")
        short = await got(broker, "/api/cluster/check")

    assert (well["strays"], well["bad_nodes"], well["zookeeper"]) == ([], [], "connected")
    assert well["nodes"] > 6
    assert well["epoch"] is not None
    assert found["strays"] == ["gone-0", "orders-0.00ff-stray"]
    assert [each["path"] for each in found["bad_nodes"]] == ["/brokers/topics/bad"]
    assert "nodes" not in short
