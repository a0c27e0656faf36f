"""Tests that responses equal those of Apache Kafka 4.3.1 for every combination of a client's
rights.

The expected responses are in `tests/interop/secured`, whose tests run against Kafka. Requests about
ACLs, users and quotas are tested here only with denied rights. Requests about tokens are not tested
here, because they need a login.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.tables.standalone import SERVED
from broker.apis.throttling.measures import is_of_brokers
from broker.authorizer import acl_authorizer
from broker.broker import Broker
from broker.config.authorizer_rules import STANDARD
from protocol.messages import BY_NAME
from security.acls.model import AclEntry, Operation, Pattern, PatternType, Permission, ResourceType
from tests.broker.apis.authorization.rules import ADMIN, Rules
from tests.broker.cluster.members import Members
from tests.broker.serving import asked, serving
from tests.interop.secured.matrix import Cell, Normal, Side, Value, cells_of, told
from tests.interop.secured.table import cluster, groups, guards, records, topics, transactions
from tests.interop.secured.table.whole import GROUPS, TOPICS, TRANSACTIONS
from tests.wire import Wire

pytestmark = pytest.mark.proves("security 21")

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
OF_ONE = {
    "offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1",
    "super.users": "User:nobody",
}  # fmt: skip
CELLS = [
    cell
    for cell in cells_of(
        [
            *records.REQUESTS,
            *topics.REQUESTS,
            *groups.REQUESTS,
            *transactions.REQUESTS,
            *guards.REQUESTS,
            *cluster.REQUESTS,
        ]
    )
    if not cell.request.api.endswith("DelegationToken")
    and (not cell.rights or cell.request not in guards.REQUESTS)
    and (row := SERVED.get(BY_NAME[cell.request.api].key)) is not None
    and row.min_version <= cell.request.version <= row.max_version
]
IN_CLUSTER = cells_of(cluster.REQUESTS)
OTHERWISE = {
    # A topic that Metadata creates is in the same response.
    "own-new:3": "own-new:0 0:0",
    # The setting is not dynamic in Muster.
    "1:0 ": "1:42 ",
}
"""Maps a text in Kafka's responses to the text that Muster's responses have in its place."""


class MusterSide(Side):
    def __init__(self, wire: Wire, port: int, rules: Rules) -> None:
        super().__init__("Muster", None)  # type: ignore[arg-type]
        self._wire = wire
        self._port = port
        self._rules = rules

    def call(self, name: str, version: int, value: Value) -> Value:
        return self._wire.call(name, version, value)

    def make(self, cells: list[Cell]) -> None:
        for acl in (acl for cell in cells for acl in cell.acls()):
            self._rules.add_entry(entry_of(acl))
        made = dict(TOPICS)
        made |= {cell.own(cell.request.topic): 1 for cell in cells if cell.request.topic}
        self._make_topics(made)
        self._have_led(0, "kept")
        self._have_led(1, "pay")
        for group in {*GROUPS, *(cell.own(cell.request.group) for cell in cells)} - {""}:
            self._commit(group)
        for begun in {*TRANSACTIONS, *(cell.own(cell.request.transaction) for cell in cells)}:
            if begun:
                self._begin(begun)

    def ask(self, cell: Cell) -> Value:
        user = ADMIN if cell.rights.startswith("as admin") else cell.user
        with Wire(self._port, client_id=user) as wire:
            try:
                value: Any = self._own(cell, cell.request.value)
                answer = wire.call(cell.request.api, cell.request.version, value)
            except ConnectionError:
                return {"closed": True}
        return Normal(cell, self).of(answer)


def entry_of(acl: Value) -> AclEntry:
    pattern = Pattern(
        ResourceType(acl["resource_type"]),
        acl["resource_name"],
        PatternType(acl["resource_pattern_type"]),
    )
    operation, permission = Operation(acl["operation"]), Permission(acl["permission_type"])
    return AclEntry(pattern, acl["principal"], acl["host"], operation, permission)


def sorted_parts(answer: str) -> list[str]:
    """Returns the sorted parts of Kafka's response. Where Muster returns something else on purpose,
    the part of Muster replaces Kafka's."""
    for kafkas, ours in OTHERWISE.items():
        answer = (answer + " ").replace(kafkas, ours).strip()
    return sorted(answer.split(" "))


async def differing_cells(broker: Broker, rules: Rules, cells: list[Cell]) -> str:
    """Returns a text with the table cells whose response differs from the expected response, and
    with both responses."""
    port = broker.sockets.addresses()[0][1]

    def ask_all(wire: Wire) -> list[str]:
        side = MusterSide(wire, port, rules)
        side.make(cells)
        answers = [(cell, told(side.ask(cell))) for cell in cells]
        return [
            f"{cell.id}\n  {cell.expected}\n  {answer}"
            for cell, answer in answers
            if sorted_parts(answer) != sorted_parts(cell.expected)
        ]

    return "\n".join(await asked(broker, ask_all, ADMIN))


async def test_response_to_each_request_under_acls_equals_the_response_of_kafka(
    tmp_path: Path,
) -> None:
    rules = Rules()
    async with serving(tmp_path, SETTINGS, authorizer=rules) as broker:
        assert not await differing_cells(broker, rules, CELLS)
    assert len(CELLS) > 200


async def test_allowed_and_denied_cluster_requests_get_the_same_responses_as_in_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Rules("1: CLUSTER_ACTION CLUSTER")  # for the broker's own requests
    monkeypatch.setattr(acl_authorizer, "AclAuthorizer", lambda *_, **__: rules)
    protected = {**SETTINGS, **OF_ONE, "authorizer.class.name": STANDARD}
    members = Members(tmp_path, protected)
    broker = await members.start(1)
    try:
        await members.settled()
        assert not await differing_cells(broker, rules, IN_CLUSTER)
    finally:
        await members.stop(1)
    of_clients = {key for key, row in SERVED_IN_CLUSTER.items() if not is_of_brokers(row)}
    assert of_clients <= SERVED.keys(), "the cells have no others"
