"""`muster groups evict`: which members it selects, the plan, and the result per member."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.errors import REFUSED, USAGE
from cli.groups.evict import _result
from cli.groups.removal import remove
from protocol import errors
from tests.brokers import Broker, KafkaBroker
from tests.cli.running import run
from tests.interop.cluster import Cluster
from tests.waiting import until

CLASSIC = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}
MEMBER = """
import json, sys
from confluent_kafka import Consumer
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe([sys.argv[2]])
for line in sys.stdin:
    consumer.poll(0.05)
    print("polled", flush=True)
"""
"""The script of a group member, which polls once for each line of its input.

The member runs in a child process, so that the test can kill it. librdkafka 2.16 once did not
return from the close of a consumer that Kafka 4.3.1 had evicted. That call holds Python's global
interpreter lock, so no timeout in the same process could end it.
"""
Row = dict[str, Any]
Join = Callable[..., str]


def members(group: str) -> list[Row]:
    ran = run("groups", "members", group, "--json")
    rows: list[Row] = ran.json if ran.code == 0 else []
    return rows


@pytest.fixture
def join(at: Broker, name: str) -> Iterator[Join]:
    """Yields a function that starts a member of group ``name``. The function waits until the member
    owns partitions, and returns the member id."""
    Cluster(at.bootstrap).create_topic(name, 4)
    processes: list[subprocess.Popen[str]] = []

    def start(**config: str) -> str:
        known = {row["member"] for row in members(name)}
        settings = {key.replace("_", "."): value for key, value in config.items()}
        classic = {} if "group.protocol" in settings else CLASSIC
        consumer = {"bootstrap.servers": at.bootstrap, "group.id": name, **classic, **settings}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", MEMBER, json.dumps(consumer), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )

        def joined() -> list[str]:
            for each in processes:
                poll(each)
            rows = members(name)
            settled = len(rows) == len(processes) and all(row["partitions"] for row in rows)
            return [row["member"] for row in rows if settled and row["member"] not in known]

        [member] = until("the member owns partitions", joined)
        return member

    yield start
    for each in processes:
        each.kill()
        each.communicate()


def poll(member: subprocess.Popen[str]) -> None:
    assert member.stdin is not None
    assert member.stdout is not None
    member.stdin.write("\n")
    member.stdin.flush()
    assert member.stdout.readline() == "polled\n"


@pytest.mark.interop
def test_evict_without_option_execute_shows_the_plan_and_evicts_no_member(
    join: Join, name: str
) -> None:
    member = join(client_id="payments")
    plan = run("groups", "evict", name, member)
    numbered = run("groups", "evict", name, "#1", "--dry-run")

    assert plan.code == USAGE
    assert "nothing was evicted: add --execute" in plan.err
    for ran in (plan, numbered):
        assert "Nothing is evicted" in ran.out
        assert member in ran.out
        assert "payments" in ran.out
        assert f"{name}:0" in ran.out
        assert "rejoins within seconds" in ran.out
    assert [row["member"] for row in members(name)] == [member]


@pytest.mark.interop
@pytest.mark.parametrize("static", [False, True])
def test_evict_removes_only_the_named_member(join: Join, name: str, static: bool) -> None:
    stays = join(client_id="stays")
    goes = join(client_id="goes", **({"group_instance_id": "one"} if static else {}))
    whom = ["--instance", "one"] if static else [goes]
    done = run("groups", "evict", name, *whom, "--execute")

    assert done.code == 0, done.err
    instance = " (instance one)" if static else ""
    assert done.out.splitlines()[-1] == f"{goes}{instance}: evicted"
    left = {row["member"] for row in members(name)}
    assert goes not in left
    assert stays in left


@pytest.mark.interop
def test_evict_accepts_the_member_id_of_a_static_member(join: Join, name: str) -> None:
    member = join(group_instance_id="one")
    done = run("groups", "evict", name, member, "--execute", "--json")

    assert done.json["executed"] is True
    [row] = done.json["members"]
    assert (row["member"], row["instance"], row["result"]) == (member, "one", "evicted")
    assert member not in {row["member"] for row in members(name)}


@pytest.mark.interop
@pytest.mark.parametrize("static", [False, True])
def test_evict_removes_a_member_of_a_kip_848_group(
    at: Broker, join: Join, name: str, static: bool
) -> None:
    if not isinstance(at, KafkaBroker):
        return  # Muster has no KIP-848 groups
    member = join(group_protocol="consumer", **({"group_instance_id": "one"} if static else {}))
    done = run("groups", "evict", name, member, "--execute")

    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].endswith(": evicted")


@pytest.mark.interop
def test_error_of_evict_about_an_unknown_member_lists_the_members(join: Join, name: str) -> None:
    member = join()
    unknown = run("groups", "evict", name, "nobody-1", "--execute")
    instance = run("groups", "evict", name, "--instance", "two", "--execute")
    number = run("groups", "evict", name, "#2", "--dry-run")

    assert unknown.code == instance.code == number.code == REFUSED
    assert f"group {name} has no member nobody-1; the members are {member}" in unknown.err
    assert f"group {name} has no instance two; the members are {member}" in instance.err
    assert f"group {name} has no member #2" in number.err


@pytest.mark.interop
def test_evict_rejects_an_empty_group_and_an_unknown_group(at: Broker, name: str) -> None:
    Cluster(at.bootstrap).create_topic(name, 1)
    line = ("offsets", "set", name, f"{name}:0=0", "--execute")
    until("the group has an offset", lambda: run(*line).code == 0)

    assert "the group has no members" in run("groups", "evict", name, "a", "--execute").err
    assert "GROUP_ID_NOT_FOUND" in run("groups", "evict", f"{name}-2", "a", "--execute").err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name the members as MEMBER or --instance ID"),
        (("#1", "--execute"), "with --execute, name members by their ids"),
        (("a", "--execute", "--dry-run"), "choose one of --dry-run and --execute"),
    ],
)
def test_invalid_evict_options_are_rejected_with_the_reason(
    words: tuple[str, ...], says: str
) -> None:
    ran = run("groups", "evict", "billing", *words)

    assert ran.code == USAGE
    assert says in ran.err


class Coordinator:
    """A fake coordinator that answers LeaveGroup requests of one version with the given error
    codes."""

    def __init__(self, version: int, *codes: int) -> None:
        self.version = version
        self.codes = list(codes)
        self.asked: list[Row] = []

    def version_of(self, _: str) -> int:
        return self.version

    def supports(self, *_: Any) -> bool:
        return False

    def call(self, _: str, value: Row) -> Row:
        self.asked.append(value)
        if self.version < 3:
            return {"error_code": self.codes.pop(0), "members": []}
        return {"error_code": 0, "members": [{"error_code": code} for code in self.codes]}


DYNAMIC: Row = {"member": "a-1", "instance": None}
STATIC: Row = {"member": "b-2", "instance": "b"}


def test_evict_sends_member_id_and_instance_id_of_a_static_member() -> None:
    broker = Coordinator(5, 0, errors.FENCED_INSTANCE_ID)
    codes = remove(broker, "g", [DYNAMIC, STATIC], "why")  # type: ignore[arg-type]

    assert broker.asked[0]["members"] == [
        {"member_id": "a-1", "group_instance_id": None, "reason": "why"},
        {"member_id": "b-2", "group_instance_id": "b", "reason": "why"},
    ]
    assert list(map(_result, codes)) == [
        "evicted",
        "not evicted: another process has taken over the instance id",
    ]


def test_evict_sends_one_request_per_member_to_kafka_older_than_2_4() -> None:
    broker = Coordinator(2, 0, errors.UNKNOWN_MEMBER_ID)
    codes = remove(broker, "g", [DYNAMIC, STATIC], "why")  # type: ignore[arg-type]

    assert [asked["member_id"] for asked in broker.asked] == ["a-1", "b-2"]
    assert list(map(_result, codes)) == ["evicted", "the member had already left"]


def test_group_level_error_of_leave_group_applies_to_each_member() -> None:
    class Whole(Coordinator):
        def call(self, _: str, value: Row) -> Row:
            return {"error_code": errors.UNKNOWN_MEMBER_ID, "members": []}

    assert remove(Whole(5), "g", [DYNAMIC, STATIC], "why") == [  # type: ignore[arg-type]
        errors.UNKNOWN_MEMBER_ID,
        errors.UNKNOWN_MEMBER_ID,
    ]
