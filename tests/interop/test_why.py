"""The journal has the cause of each rebalance of groups with real clients."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import waiting
from tests.brokers import CHECKOUT, KIND, Broker
from tests.interop.cluster import Cluster
from tests.interop.group_members import JAVA_CLIENTS, Group, Member

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the journal is Muster's own"),
]
CLIENTS = ("confluent", "kafka-python")
PARTITIONS = 6


class SeeingBroker(Broker):
    """A broker with an HTTP listener, which the command `groups why` needs."""

    def cli(self, *words: str, code: int = 0) -> str:
        """Runs a command on this broker and returns its output."""
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *words, "--bootstrap", self.bootstrap],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=CHECKOUT,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def journal(self, group: str, last: int = 64) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(
            self.cli("groups", "why", group, "--json", "--last", str(last))
        )
        return told

    def last(self, group: str) -> dict[str, Any]:
        rebalance: dict[str, Any] = self.journal(group, 1)["rebalances"][-1]
        return rebalance

    def expired(self, group: str, member: str) -> dict[str, Any]:
        """Returns the rebalance that the session expiry of a member caused. This rebalance is not
        always the last one."""
        rebalances: list[dict[str, Any]] = self.journal(group)["rebalances"]
        causes = [(each["cause"], each["member"]) for each in rebalances]
        return rebalances[causes.index(("session_expired", member))]


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeeingBroker]:
    broker = SeeingBroker(tmp_path_factory.mktemp("seeing") / "data", http="127.0.0.1:0")
    broker.start()
    yield broker
    assert broker.stop() == 0, broker.tail()


@pytest.fixture
def seeing_alone(tmp_path: Path) -> Iterator[SeeingBroker]:
    broker = SeeingBroker(tmp_path / "data", http="127.0.0.1:0")
    broker.start()
    yield broker
    broker.kill()


def id_of(broker: SeeingBroker, group: str, member: Member) -> str:
    """Returns the member id of a member, found by its client id."""
    ids = [
        each["member"]
        for rebalance in broker.journal(group)["rebalances"]
        for each in rebalance["assigned"]
        if each["client"] == member.name
    ]
    return str(ids[-1])


@pytest.mark.parametrize("client", CLIENTS)
def test_journal_names_the_expired_sessions_of_killed_and_stopped_members(
    seeing: SeeingBroker, client: str, name: str
) -> None:
    cluster = Cluster(seeing.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    with Group(client, seeing.bootstrap, name, topics=[name]) as group:
        a, b, _ = (group.start(each) for each in "abc")
        group.balanced(cluster, 2, 2, 2)
        killed, stopped = id_of(seeing, name, a), id_of(seeing, name, b)
        a.kill()
        group.balanced(cluster, 3, 3)
        b.pause()
        group.balanced(cluster, 6)
        by_kill, by_stop = seeing.expired(name, killed), seeing.expired(name, stopped)
        [got] = seeing.last(name)["assigned"]
        story = seeing.cli("groups", "why", name, "--last", "4")
        b.go_on()
        b.kill()
    for told, member in ((by_kill, killed), (by_stop, stopped)):
        assert told["why"].startswith(f"session of {member} from 127.0.0.1 expired after ")
        silent_ms = told["began_ms"] - told["last_heard_ms"]
        assert 6000 <= silent_ms < 10_000
        assert told["outcome"] == "assigned"
        assert told["join_ended_by"] == "all_joined"
    assert got["client"] == "c"
    assert got["partitions"] == {name: list(range(PARTITIONS))}
    assert re.search(rf"session of {stopped} from 127.0.0.1 expired after [6-9]\b", story)
    assert "last heard at" in story
    assert f"got {name}:0-5" in story


def test_journal_has_the_leave_reason_of_the_client(seeing: SeeingBroker, name: str) -> None:
    """Java's consumer sends a reason since KIP-800."""
    cluster = Cluster(seeing.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    with Group(JAVA_CLIENTS[0], seeing.bootstrap, name, topics=[name]) as group:
        a = group.start("a")
        group.start("b")
        group.balanced(cluster, 3, 3)
        left = id_of(seeing, name, a)
        a.leave()
        group.balanced(cluster, 6)
        told = seeing.last(name)
    assert told["cause"] == "member_left"
    assert told["why"] == f"{left} from 127.0.0.1 left: the consumer is being closed"
    assert told["member"] == left


@pytest.mark.parametrize("client", CLIENTS)
def test_journal_names_the_topics_added_to_a_subscription(
    seeing: SeeingBroker, client: str, name: str
) -> None:
    cluster = Cluster(seeing.bootstrap)
    cluster.create_topic(f"{name}-one", 2)
    with Group(client, seeing.bootstrap, name, pattern=f"{name}-.*") as group:
        group.start("a")
        group.start("b")
        group.balanced(cluster, 1, 1)
        before = len(seeing.journal(name)["rebalances"])
        cluster.create_topic(f"{name}-two", 2)
        group.balanced(cluster, 2, 2)
        told = seeing.journal(name)["rebalances"][before:]
    causes = {each["cause"] for each in told}
    assert causes <= {"metadata_changed", "leader_rejoined"}
    words = f"changed its subscription: added {name}-two"
    assert any(words in each["why"] for each in told), told
    assert all("from 127.0.0.1" in each["why"] for each in told)


def test_journal_has_static_member_restarts_that_caused_no_rebalance(
    seeing: SeeingBroker, name: str
) -> None:
    cluster = Cluster(seeing.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    with Group("confluent", seeing.bootstrap, name, topics=[name]) as group:
        config = {"session_timeout_ms": 30000}
        members = {each: group.start(each, instance=f"instance-{each}", **config) for each in "abc"}
        held = group.balanced(cluster, 2, 2, 2).held
        before = seeing.journal(name)
        for each, member in members.items():
            member.kill()
            again = group.start(each, instance=f"instance-{each}", **config)
            group.watch.until(
                "the restarted member has its partitions",
                lambda again=again, each=each: again.assigned == held[each],  # type: ignore[misc]
                show=group.story,
            )
        after = seeing.journal(name)
        story = seeing.cli("groups", "why", name)
    assert len(after["rebalances"]) == len(before["rebalances"])
    notes = [note["text"] for note in after["notes"][len(before["notes"]) :]]
    assert notes == [
        f"{each} at 127.0.0.1 took over instance-{each} from {each} at 127.0.0.1" for each in "abc"
    ]
    assert all(note in story for note in notes)


def test_restarted_coordinator_has_the_last_generation_in_its_journal(
    seeing_alone: SeeingBroker, name: str
) -> None:
    broker = seeing_alone
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    with Group("confluent", broker.bootstrap, name, topics=[name]) as group:
        for each in "ab":  # a session that outlasts the restart on a slow machine
            group.start(each, session_timeout_ms=60000)
        group.balanced(cluster, 3, 3)
        generation = broker.last(name)["generation"]
        broker.kill()
        broker.start()
        waiting.until("the group goes on", lambda: cluster.describe(name).sizes() == [3, 3])
        journal = broker.journal(name)
        story = broker.cli("groups", "why", name)
    restored = journal["restored"]["generations"]
    assert restored[-1]["generation"] == generation
    assert restored[-1]["members"] == 2
    assert "the coordinator started and loaded the group from offset" in story
    seen = [each for each in journal["rebalances"] if each["source"] == "seen"]
    assert all(each["cause"] == "coordinator_restarted" for each in seen)


def test_journal_keeps_its_entries_when_the_broker_is_killed(
    seeing_alone: SeeingBroker, name: str
) -> None:
    broker = seeing_alone
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    with Group("confluent", broker.bootstrap, name, topics=[name]) as group:
        member = group.start("a")
        group.start("b")
        group.balanced(cluster, 3, 3)
        member.leave()
        group.balanced(cluster, 6)
    waiting.until("nobody is left", lambda: broker.last(name)["outcome"] == "nobody left")
    before = broker.journal(name)["rebalances"]
    file = broker.data / "groups.journal"
    waiting.until(
        "all is written down", lambda: '"nobody left"' in file.read_text().splitlines()[-1]
    )
    broker.kill()
    broker.start()
    waiting.until("it is loaded", lambda: broker.journal(name)["state"] == "Empty")
    after = broker.journal(name)["rebalances"]
    assert {each["source"] for each in before} == {"seen"}
    assert after == [{**each, "source": "kept"} for each in before]
    story = broker.cli("groups", "why", name)
    assert story.count("[kept]") == len(before) + 1


def test_journal_names_awaited_members_and_deadline_of_a_join_phase(
    seeing: SeeingBroker, name: str
) -> None:
    cluster = Cluster(seeing.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    with Group("confluent", seeing.bootstrap, name, topics=[name]) as group:
        sleeper = group.start("a", session_timeout_ms=20000)
        group.start("b", session_timeout_ms=20000)
        group.balanced(cluster, 3, 3)
        asleep = id_of(seeing, name, sleeper)
        sleeper.pause()
        group.start("c", session_timeout_ms=20000)

        def waits_for_the_sleeper() -> dict[str, Any] | None:
            last = seeing.last(name)
            awaited = [each["member"] for each in last["awaited"]]
            return last if last["phase"] == "join" and awaited == [asleep] else None

        told = waiting.until("only the sleeper is awaited", waits_for_the_sleeper)
        story = seeing.cli("groups", "why", name, "--last", "1")
        sleeper.go_on()
        group.balanced(cluster, 2, 2, 2)
        ended = [
            each for each in seeing.journal(name)["rebalances"] if each["number"] == told["number"]
        ]
    assert told["cause"] == "member_joined"
    assert told["until_ms"] > told["began_ms"]
    assert f"join phase in progress: waiting for {asleep}, until " in story
    assert ended[0]["last_member"] == asleep
    assert ended[0]["last_wait_ms"] > 0
