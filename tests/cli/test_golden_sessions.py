"""Golden sessions of the commands that use Kafka's protocol. Muster and Apache Kafka must produce
the same output, so both brokers share one file per session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from cli import clock
from cli.client import group_member
from cli.client.cluster import Cluster
from cli.client.records_at import records_at
from cli.times import datetime_ms, instant
from tests.brokers import Broker, KafkaBroker
from tests.cli import sessions
from tests.interop.cluster import Cluster as Asked
from tests.waiting import until

pytestmark = pytest.mark.interop

SETTINGS = {"offsets.topic.num.partitions": "2"}
RECORDS = {("orders", 0): 10, ("orders", 1): 5, ("events", 0): 4}


@pytest.fixture(scope="module", params=["muster", "kafka"])
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Yields a broker with the topics and records that the sessions read."""
    make = Broker if request.param == "muster" else KafkaBroker
    broker = make(tmp_path_factory.mktemp(request.param) / "data", SETTINGS).start()
    try:
        asked = Asked(broker.bootstrap)
        asked.create_topic("orders", 3)
        asked.create_topic("events", 1)
        for (topic, partition), count in RECORDS.items():
            values = " ".join(f"-v {number}" for number in range(count))
            line = f"muster produce {topic} -p {partition} {values} -b {broker.bootstrap}"
            assert "records" in sessions.typed(line)
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def at_shop(shop: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """Sets MUSTER_BOOTSTRAP to the broker of the sessions. Deletes the groups of the broker after
    the test."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", shop.bootstrap)
    monkeypatch.setattr(group_member, "SESSION_TIMEOUT_MS", 60_000)
    yield shop
    for group in Asked(shop.bootstrap).call("ListGroups", 2)["groups"]:
        sessions.typed(f"muster groups delete {group['group_id']} --execute")


def joined(broker: Broker, group: str) -> group_member.GroupMember:
    member = group_member.GroupMember(Cluster(broker.bootstrap), group, ["orders"])
    member.join()
    return member


def check(name: str, broker: Broker, *replaced: tuple[str, str]) -> None:
    writes = sessions.WRITES and not isinstance(broker, KafkaBroker)
    sessions.check(name, replaced, writes)


LATER_MS = 5 * 3_600_000
"""The commands run this number of ms after the timestamps of the records. A fixed time makes the
printed lags equal in each run."""
ITS_TIME_MS = datetime_ms("2026-01-31T12:00:00Z")


def times(broker: Broker) -> list[int]:
    """Returns the timestamps of the records that the sessions print."""
    cluster = Cluster(broker.bootstrap)
    places = [{("orders", 0): 4}, {("orders", 0): 0, ("orders", 1): 0}]
    found = [at_ms for asked in places for _, at_ms in records_at(cluster, asked).values()]
    cluster.close()
    return found


def without_http(broker: Broker) -> list[tuple[str, str]]:
    """Returns text replacements that remove a hint from the output of commands. The hint says that
    a Muster broker has no HTTP listener."""
    lacks = (
        f" (groups {{}} needs Muster's HTTP API, and the broker at {broker.bootstrap} does not"
        " serve the API (http.listener is off); start the broker with `muster serve --http"
        " HOST:PORT`)"
    )
    return [(lacks.format(name), "") for name in ("list", "describe", "lag")]


def test_groups_commands_print_the_golden_output(
    at_shop: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = times(at_shop)
    monkeypatch.setattr(clock, "now_ms", lambda: found[0] + LATER_MS)
    instants = [(instant(at_ms), instant(ITS_TIME_MS)) for at_ms in found]
    instants += [(str(at_ms), str(ITS_TIME_MS)) for at_ms in found]
    member = joined(at_shop, "live")
    line = "muster offsets set billing orders:0=4 orders:1=5 orders:2=0 --execute"
    assert until("the group can be committed to", lambda: "Changed" in sessions.typed(line))
    try:
        check("groups", at_shop, *without_http(at_shop), *instants)
    finally:
        member.leave()


def test_offsets_commands_print_the_golden_output(
    at_shop: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apache.csv").write_text('"orders",0,9\n"orders",1,1\n')
    (tmp_path / "bad.csv").write_text("group,topic,partition,offset\nshop,orders,0,many\n")
    monkeypatch.setattr(sessions, "FOLDER", str(tmp_path))
    member = joined(at_shop, "busy")
    try:
        check("offsets", at_shop)
    finally:
        member.leave()


def test_configs_commands_print_the_golden_output(at_shop: Broker) -> None:
    check("configs", at_shop)


def test_quotas_commands_print_the_golden_output(at_shop: Broker) -> None:
    check("quotas", at_shop)


def test_reset_of_a_kip_848_group_with_members_is_rejected(at_shop: Broker) -> None:
    served = {row["api"] for row in json.loads(sessions.typed("muster cluster --apis --json"))}
    assert isinstance(at_shop, KafkaBroker) <= ("ConsumerGroupHeartbeat" in served)
    if "ConsumerGroupHeartbeat" not in served:
        return  # the broker has no such groups
    settings = {"bootstrap.servers": at_shop.bootstrap, "group.id": "modern", "client.id": "app"}
    member = Consumer({**settings, "group.protocol": "consumer"})
    member.subscribe(["orders"])

    def owned() -> list[dict[str, Any]]:
        member.poll(0.1)
        shown = sessions.typed("muster groups members modern --json")
        rows = json.loads(shown) if shown.startswith("[") else []
        return rows[0]["partitions"] if rows else []

    try:
        assert until("the member owns the topic", owned) == [
            {"topic": "orders", "partitions": [0, 1, 2]}
        ]
        refused = sessions.typed("muster groups reset modern --topic orders --to-latest --execute")
    finally:
        member.close()

    assert "NON_EMPTY_GROUP" in refused
    line = "muster groups reset modern --topic orders --to-latest --execute"
    assert until("it can be reset", lambda: "Changed 3 offsets" in sessions.typed(line))


def test_cluster_commands_print_the_golden_output(at_shop: Broker) -> None:
    line = "muster offsets set billing orders:0=4 --execute"
    assert until("the group can be committed to", lambda: "Changed" in sessions.typed(line))
    [found] = [json.loads(sessions.typed("muster cluster --json"))]
    size = found["brokers"][0]["log_bytes"]
    assert size > 0
    told = (f"{size:>9}", "     SIZE"), (f'"log_bytes": {size}', '"log_bytes": SIZE')
    check("cluster", at_shop, (found["cluster"], "CLUSTER"), *told)

    rows = json.loads(sessions.typed("muster cluster --apis --json"))
    served = {row["api"]: (row["from"], row["to"]) for row in rows}
    assert served["ApiVersions"][0] == 0
    assert served["OffsetDelete"] == (0, 0)


def test_topics_commands_print_the_golden_output(at_shop: Broker) -> None:
    line = "muster offsets set shop orders:0=4 --execute"
    assert until("the group can be committed to", lambda: "Changed" in sessions.typed(line))
    sessions.typed("muster groups delete shop --execute")
    check("topics", at_shop)


def test_records_commands_print_the_golden_output(
    at_shop: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.json").write_text('{"value": "fine"}\n{"value": 7}\n')
    monkeypatch.setattr(sessions, "FOLDER", str(tmp_path))
    check("records", at_shop)
