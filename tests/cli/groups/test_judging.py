"""The verdicts of groups in commands. Commands read them from Muster's HTTP API, or compute them
from responses of Kafka's protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cli.client import group_member
from cli.client.cluster import Cluster as Commands
from cli.client.group_reads import Committed, Group, Known
from cli.client.offsets_at import Bounds
from cli.groups import judging, looking
from cli.groups.judging import GroupHealth, Manner
from protocol.errors import NONE
from tests.broker.transactional import initialized
from tests.brokers import Broker, free_port
from tests.cli.running import Ran, run
from tests.interop.cluster import Cluster
from tests.waiting import until
from tests.wire import Wire

RECORDS = 5
OLD_MS = 600_000
"""The age of unread records in ms at which the verdict is LAGGING."""
UNJUDGED = (
    "not checked: BLOCKED, REFUSED, HELD_BACK, STALLED, STUCK_RECORD, LOCKS_EXPIRE, FLAPPING and"
    " ABANDONED"
)


def produce(broker: Broker, topic: str, age_ms: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    written_ms = int(time.time() * 1000) - age_ms
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=written_ms)
    assert producer.flush(20) == 0


class Reader:
    """A member that has committed offset 0 of its partition and reads no record."""

    def __init__(self, broker: Broker, group: str) -> None:
        self.commands = Commands(broker.bootstrap)
        self.member = group_member.GroupMember(self.commands, group, [group])
        self.member.join()
        assert self.member.commit({(group, 0): 0})

    def close(self) -> None:
        self.member.leave()
        self.commands.close()


def row(ran: Ran, group: str) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    [found] = [each for each in ran.json if each["group"] == group]
    return found


# ------------------------------------------------------ verdicts computed over Kafka's protocol


@pytest.fixture
def topic(at: Broker, name: str) -> str:
    """Creates an empty topic with one partition. A group with the same name consumes the topic."""
    Cluster(at.bootstrap).create_topic(name, 1)
    return name


@pytest.fixture
def reader(at: Broker, topic: str) -> Iterator[Reader]:
    made = Reader(at, topic)
    yield made
    made.close()


@pytest.mark.interop
def test_groups_commands_show_a_group_with_old_unread_records_as_lagging(
    at: Broker, reader: Reader, topic: str
) -> None:
    produce(at, topic, OLD_MS)
    listed = run("groups", "list", "--json")
    [described] = run("groups", "describe", topic, "--json").json
    [partition] = run("groups", "lag", topic, "--json").json
    total = run("groups", "lag", topic, "--total", "--json")
    text = run("groups", "describe", topic).out

    assert row(listed, topic)["verdict"] == row(total, topic)["verdict"] == "LAGGING"
    assert f"{topic}:0 has a lag of {RECORDS} records" in row(listed, topic)["sentence"]
    assert described["findings"][0]["member"] == reader.member.member_id
    assert described["verdict_since_ms"] == described["findings"][0]["since_ms"]
    assert (partition["verdict"], partition["lag"]) == ("LAGGING", RECORDS)
    assert OLD_MS <= partition["lag_seconds"] * 1000 < OLD_MS + 60_000
    assert f"LAGGING: {described['sentence']}" in text
    assert f"$ {described['findings'][0]['command']}" in text
    assert UNJUDGED in listed.err


@pytest.mark.interop
@pytest.mark.usefixtures("reader")
def test_group_with_new_unread_records_is_ok(at: Broker, topic: str) -> None:
    produce(at, topic, 0)
    [partition] = run("groups", "lag", topic, "--json").json

    assert (partition["verdict"], partition["lag"]) == ("OK", RECORDS)
    assert row(run("groups", "list", "--json"), topic)["verdict"] == "OK"


@pytest.mark.interop
def test_empty_group_with_old_unread_records_is_lagging(
    at: Broker, reader: Reader, topic: str
) -> None:
    produce(at, topic, OLD_MS)
    reader.member.leave()
    until(
        "the group is empty",
        lambda: (
            (topic, "Empty")
            in {(each["group"], each["state"]) for each in run("groups", "list", "--json").json}
        ),
    )
    listed = [each["verdict"] for each in run("groups", "list", "--json").json]
    ranks = [verdict for verdict in listed if verdict]  # share groups have no verdict

    assert row(run("groups", "list", "--json"), topic)["verdict"] == "LAGGING"
    assert ranks == sorted(ranks, key=lambda verdict: judging.Verdict(verdict).rank)


@pytest.mark.interop
@pytest.mark.usefixtures("reader")
def test_lagging_verdict_has_no_exact_age_when_too_many_partitions_lag(
    at: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(at, topic, OLD_MS)
    monkeypatch.setattr(judging, "MOST_TIMES", 0)
    found = row(run("groups", "list", "--json"), topic)
    [partition] = run("groups", "lag", topic, "--json").json
    [exact] = run("groups", "lag", topic, "--seconds", "--json").json

    assert (found["verdict"], found["verdict_since_ms"]) == ("LAGGING", None)
    assert found["sentence"] == f"the oldest unread record of {topic}:0 is older than 60 s"
    assert (partition["verdict"], partition["lag_seconds"]) == ("LAGGING", None)
    assert exact["lag_seconds"] * 1000 >= OLD_MS


# ------------------------------------------------------- verdicts read from Muster's HTTP API


class BrokerWithHttp(Broker):
    http = ""

    def _command(self) -> list[str]:
        command = super()._command()
        self.http = f"127.0.0.1:{free_port()}"
        command[command.index("--http") + 1] = self.http
        return command


@pytest.fixture
def muster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    broker = BrokerWithHttp(tmp_path / "data", {"group.verdict.stalled.ms": "300"}).start()
    monkeypatch.setenv("MUSTER_BOOTSTRAP", broker.bootstrap)
    yield broker
    broker.kill()


@pytest.mark.interop
def test_groups_commands_show_the_stalled_verdict_of_the_http_api(
    muster: Broker, name: str
) -> None:
    Cluster(muster.bootstrap).create_topic(name, 1)
    reader = Reader(muster, name)
    produce(muster, name, 0)
    try:
        listed = until(
            "the group is judged",
            lambda: (
                ran
                if row(ran := run("groups", "list", "--json"), name)["verdict"] == "STALLED"
                else None
            ),
        )
        [partition] = run("groups", "lag", name, "--json").json
        table = run("groups", "lag", name).out
        [described] = run("groups", "describe", name, "--json").json
        why = run("groups", "why", name).out
    finally:
        reader.close()

    assert listed.err == ""
    assert partition["verdict"] == "STALLED"
    assert partition["committed_ms"] is not None
    assert "LAST-COMMIT" in table
    assert " ago" in table
    finding = described["findings"][0]
    assert (finding["verdict"], finding["member"]) == ("STALLED", reader.member.member_id)
    assert "groups evict" in finding["command"]
    lines = why.splitlines()
    assert lines[1].startswith("STALLED: ")
    assert f"    $ {finding['command']}" in lines


@pytest.mark.interop
def test_http_address_of_another_cluster_is_rejected(
    muster: Broker, tmp_path: Path, name: str
) -> None:
    Cluster(muster.bootstrap).create_topic(name, 1)
    Reader(muster, name).close()
    other = BrokerWithHttp(tmp_path / "other")
    other.start()
    try:
        ran = run("groups", "list", "--http", other.http)
    finally:
        other.kill()

    assert ran.code == 1
    assert "choose the same cluster with --bootstrap and --http" in ran.err


@pytest.mark.interop
def test_groups_list_shows_the_verdict_out_of_range_before_the_broker_has_judged_the_group(
    muster: Broker, name: str
) -> None:
    Cluster(muster.bootstrap).create_topic(name, 1)
    line = ("offsets", "set", name, f"{name}:0=7", "--force", "--execute")
    until("the offset is committed", lambda: run(*line).code == 0)
    found = row(run("groups", "list", "--json"), name)
    [described] = run("groups", "describe", name, "--json").json

    assert found["verdict"] == described["verdict"] == "OUT_OF_RANGE"
    assert found["sentence"] == described["findings"][0]["sentence"]


@pytest.mark.interop
def test_groups_describe_shows_offsets_pending_in_an_open_transaction(
    muster: Broker, name: str
) -> None:
    Cluster(muster.bootstrap).create_topic(name, 1)
    Reader(muster, name).close()
    with Wire(muster.port) as wire:
        producer = initialized(wire, name)
        assert producer.commit_offsets(name, {(name, 0): 4}) == [NONE]
        [described] = run("groups", "describe", name, "--json").json
        text = run("groups", "describe", name).out
        assert producer.end(commit=True) == NONE

    [pending] = described["pending_offsets"]
    assert (pending["producer_id"], pending["offsets"]) == (producer.producer_id, 1)
    assert pending["sentence"].startswith("1 offset is pending in the transaction of ")
    assert pending["sentence"] in text
    again = until(
        "its marker is written",
        lambda: (
            found
            if not (found := run("groups", "describe", name, "--json").json[0])["pending_offsets"]
            else None
        ),
    )
    assert [row["committed"] for row in again["offsets"]] == [4]


class Api:
    """A fake HTTP API. It lists one group for each verdict, and returns ``findings`` as the details
    of each group."""

    def __init__(self, verdicts: list[str], findings: list[dict[str, Any]] | None = None) -> None:
        self.verdicts = verdicts
        self.findings = findings or []
        self.asked: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        if path == "/api/groups":
            told = {"verdict_since_ms": None, "sentence": "because"}
            named = enumerate(self.verdicts)
            return {"groups": [{"group": f"g{n}", "verdict": each, **told} for n, each in named]}
        self.asked.append(path)
        return {"findings": self.findings, "more_findings": 0, "offsets": []}


def told(api: Api) -> dict[str, GroupHealth]:
    group = Group("g", "classic", "Stable", "consumer", "range", "", [], {})
    known = {f"g{number}": Known(group, {}) for number in range(len(api.verdicts))}
    return judging._by_history(api, known, Manner("test", None, 1))  # type: ignore[arg-type]


def test_details_of_ok_groups_are_not_requested_when_there_are_many_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judging, "MOST_ASKED", 2)
    api = Api(["OK", "LAGGING", "OK", "STALLED", "ABANDONED"])
    found = told(api)

    assert [found[f"g{n}"].verdict for n in range(3)] == api.verdicts[:3]
    assert sorted(api.asked) == ["/api/groups/g3", "/api/groups/g4"]


def test_command_requests_each_group_from_the_http_api_when_there_are_few_groups() -> None:
    api = Api(["OK", "LAGGING"])
    told(api)

    assert sorted(api.asked) == ["/api/groups/g0", "/api/groups/g1"]


def test_newer_verdict_in_the_details_of_a_group_replaces_the_verdict_in_the_group_list() -> None:
    anew = {"verdict": "STALLED", "since_ms": 7, "sentence": "it stands"}
    found = told(Api(["OK"], [anew]))["g0"]
    well = told(Api(["LAGGING"]))["g0"]

    assert (found.verdict, found.since_ms, found.sentence) == ("STALLED", 7, "it stands")
    assert (well.verdict, well.sentence) == ("OK", "the group no longer has a problem")


def test_partitions_of_a_group_with_verdict_ok_are_ok_without_timestamp_lookups() -> None:
    group = Group("g", "classic", "Stable", "consumer", "range", "", [], {})
    known = Known(group, {("t", 0): Committed(5)})
    logs = {("t", 0): Bounds(0, 9)}
    [well] = looking._offsets(known, logs, GroupHealth("OK"))
    [unknown] = looking._offsets(known, logs, GroupHealth("LAGGING"))

    assert (well["verdict"], well["lag"]) == ("OK", 4)
    assert unknown["verdict"] is None
