"""Tests of the names that a connection has cached as allowed, until its principal or an ACL
changes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.apis.shared.authorization import are_known, is_allowed
from broker.apis.tables.standalone import SERVED
from broker.broker import Broker
from broker.net.connection import Connection
from broker.net.listener import Listener
from broker.net.required_acls import Each
from security.acls.model import Operation, ResourceType
from security.principal import user
from tests.broker.apis.authorization.rules import Rules
from tests.broker.serving import asked, serving
from tests.wire import Wire

READ = Each(Operation.READ, ResourceType.TOPIC)


async def test_cached_allowed_names_are_dropped_when_acls_or_principal_change(
    tmp_path: Path,
) -> None:
    rules = Rules("alice: READ TOPIC orders")
    async with serving(tmp_path, authorizer=rules) as broker:
        connection = new_connection(broker)
        connection.client_id = "alice"
        request: Any = SimpleNamespace(
            connection=connection, route=SimpleNamespace(served=next(iter(SERVED.values())))
        )
        services: Any = SimpleNamespace(authorizer=rules)

        def is_known() -> bool:
            return are_known(services, request, READ, ["orders"])

        assert not is_known()
        assert is_allowed(services, request, READ, "orders")
        assert is_known()
        rules.add("bob: READ TOPIC orders")
        assert not is_known()
        assert is_allowed(services, request, READ, "orders")
        assert is_known()
        connection.principal = user("bob")
        assert not is_known()


def new_connection(broker: Broker) -> Connection:
    return Connection(broker.server, Listener(broker.config.listeners[0]))


async def test_broker_with_an_authorizer_has_no_wrappers_around_the_handlers_of_the_api_table(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, authorizer=Rules()) as broker:
        for route in broker.server.routes.values():
            assert route.handle is SERVED[route.served.api.key].handle


async def test_connection_caches_allowed_topic_names_but_not_denied_names(tmp_path: Path) -> None:
    rules = Rules("alice: DESCRIBE TOPIC orders")
    partitions = [{"partition_index": 0, "timestamp": -1}]
    names = ("orders", "orders", "orders", "payments", "payments")
    topics = [{"name": name, "partitions": partitions} for name in names]

    def ask(wire: Wire) -> None:
        for _ in range(2):
            wire.call("ListOffsets", 5, {"topics": topics})

    async with serving(tmp_path, authorizer=rules) as broker:
        await asked(broker, ask, "alice")
    assert [(each.name, each.count) for each in rules.asked] == [
        ("orders", 3),
        ("payments", 2),
        ("payments", 2),
    ]
