"""Which handlers stand behind the guard, and that a broker without an authorizer has none."""

from __future__ import annotations

from pathlib import Path

from broker.apis.cluster_table import SERVED_IN_CLUSTER
from broker.apis.guard.guard import guarded
from broker.apis.guard.judging import permitted
from broker.apis.table import SERVED
from broker.broker import Broker
from broker.net.connection import Connection
from broker.net.listener import Listener
from security.principal import user
from tests.broker.apis.guard.rules import Rules
from tests.broker.serving import asked, serving
from tests.wire import Wire

RIGHT = 7


def test_every_handler_is_behind_the_guard_unless_it_asks_for_nothing() -> None:
    rows = guarded(SERVED_IN_CLUSTER, Rules())
    open_to_all = {
        key
        for key, row in rows.items()
        if row.handle is SERVED_IN_CLUSTER[key].handle and not row.rights.is_in_handler
    }
    assert open_to_all == {key for key, row in rows.items() if row.rights.why_none}


async def test_a_broker_without_an_authorizer_runs_the_handlers_themselves(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        for route in broker.server.routes.values():
            assert route.handle is SERVED[route.served.api.key].handle


async def test_what_is_known_to_be_allowed_is_forgotten_with_the_epoch_and_the_principal(
    tmp_path: Path,
) -> None:
    rules = Rules()
    async with serving(tmp_path, authorizer=rules) as broker:
        connection = a_connection(broker)
        permitted(rules, connection, RIGHT).add("orders")
        assert permitted(rules, connection, RIGHT) == {"orders"}
        rules.add("alice: READ TOPIC orders")
        assert permitted(rules, connection, RIGHT) == set()
        permitted(rules, connection, RIGHT).add("orders")
        connection.principal = user("bob")
        assert permitted(rules, connection, RIGHT) == set()


def a_connection(broker: Broker) -> Connection:
    return Connection(broker.server, Listener(broker.config.listeners[0]))


async def test_each_name_is_asked_for_once_and_not_again_while_nothing_changes(
    tmp_path: Path,
) -> None:
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
