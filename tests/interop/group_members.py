"""Group members as child processes, so that the same scenario can use any client.

A Python or Go member is a program of `members/`, which reports its assignments, records and
commits. A Java member is a console consumer. It prints the values of records, and commits only when
its partitions are revoked or when it leaves.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import java, waiting
from tests.interop.client_suites import go_program
from tests.interop.cluster import Cluster, Described, Key
from tests.interop.programs import Program
from tests.waiting import Watch

SCRIPTS = Path(__file__).parent / "members"
PYTHON_CLIENTS = ("confluent", "kafka-python", "aiokafka")
JAVA_CLIENTS = (f"java-{java.RELEASE}", "java-0.10.2.2")
CLIENTS = PYTHON_CLIENTS + JAVA_CLIENTS
KGO = "kgo"
"""franz-go. Its members always use the consumer protocol (KIP-848)."""


class Member(Program):
    """The process of a group member, and its reports."""

    def __init__(self, name: str, command: list[str], watch: Watch) -> None:
        self.values: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.assigned: set[Key] = set()
        self.acknowledged: dict[Key, int] = {}
        super().__init__(name, command, watch, subprocess.PIPE)

    def _said(self, line: str) -> None:
        raise AssertionError("each kind of member reads its own lines")

    def count(self, event: str) -> int:
        return sum(each["event"] == event for each in self.events)

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def commit(self) -> None:
        """Makes the member commit its positions, and waits until the commit is acknowledged."""
        raise AssertionError("each kind of member commits in its own way")

    def leave(self) -> None:
        """Makes the member leave its group, and waits until its process has ended."""
        raise AssertionError("each kind of member leaves in its own way")

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _shows_stacks(self) -> bool:
        """Returns True if the member has reacted to SIGQUIT. Python and Go members print their
        stacks to standard error."""
        return len(self.errors) > 3

    def story(self) -> str:
        """Returns the reports of the member except its records, for the message of a failed
        test."""
        told = [json.dumps(e) for e in self.events if e["event"] != "record"][-25:]
        return "\n".join(
            [
                f"-- {self.name}: {len(self.values)} records, exit {self.process.poll()}",
                *told,
                *list(self.errors)[-15:],
            ]
        )


class ReportingMember(Member):
    """A member that is a program of `members/`."""

    def __init__(self, kind: str, config: dict[str, Any], watch: Watch) -> None:
        super().__init__(config["name"], [*_program(kind), json.dumps(config)], watch)

    def _said(self, line: str) -> None:
        event = json.loads(line)
        match event["event"]:
            case "record":
                self.values.append(event["value"])
            case "assigned":
                self.assigned |= {(t, p) for t, p in event["partitions"]}
            case "revoked" | "lost":
                self.assigned -= {(t, p) for t, p in event["partitions"]}
            case "committed":
                self.acknowledged |= {(t, p): offset for t, p, offset in event["offsets"]}
        self.events.append(event)

    def commit(self) -> None:
        done, failed = self.count("commit_done"), self.count("commit_failed")
        self.tell("commit")

        def acknowledged() -> bool:
            nonlocal failed
            if self.count("commit_failed") > failed:  # a rebalance began: retry
                failed = self.count("commit_failed")
                self.tell("commit")
            return self.count("commit_done") > done

        self.watch.until(f"{self.name} commits", acknowledged, 20, self.story)

    def leave(self) -> None:
        self.tell("leave")
        code = self.ended(30)
        assert code == 0, self.story()


def _program(kind: str) -> list[str]:
    if kind == KGO:
        return [str(go_program(SCRIPTS / KGO))]
    return [sys.executable, str(SCRIPTS / f"{kind.replace('-', '_')}_member.py")]


class JavaMember(Member):
    """A member that is a console consumer of Kafka. Each line of its output is the value of a
    record."""

    def __init__(self, kind: str, config: dict[str, Any], watch: Watch) -> None:
        properties = {
            "client.id": config["name"],
            "group.id": config["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "true",
            "auto.commit.interval.ms": "600000",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "300",
            "metadata.max.age.ms": "1000",
        }
        release = kind.removeprefix("java-")
        old = release.startswith("0.")
        flag = "--consumer-property" if old else "--command-property"
        given = [part for k, v in properties.items() for part in (flag, f"{k}={v}")]
        main_class = (
            "kafka.tools.ConsoleConsumer"
            if old
            else "org.apache.kafka.tools.consumer.ConsoleConsumer"
        )
        [topic] = config["topics"]
        super().__init__(
            config["name"],
            java.command(
                f"kafka-{release}",
                main_class,
                *(["--new-consumer", "--from-beginning"] if old else []),
                "--bootstrap-server",
                config["bootstrap"],
                "--topic",
                topic,
                *given,
            ),
            watch,
        )

    def _said(self, line: str) -> None:
        self.values.append(line)

    def commit(self) -> None:
        """Does nothing. A console consumer commits without a command."""

    def leave(self) -> None:
        self.process.terminate()
        self.ended(30)


class Group:
    """The members of one group, and the records that they have read. All members use the same
    client.

    The end of the `with` block kills the remaining members.
    """

    def __init__(self, client: str, bootstrap: str, group: str, **config: Any) -> None:
        self.client = client
        self.name = group
        self.config = {"bootstrap": bootstrap, "group": group, **config}
        self.watch = Watch()
        self.members: dict[str, Member] = {}

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            member.process.kill()
        for member in self.members.values():
            member.ended(20)

    def start(self, name: str, **config: Any) -> Member:
        """Starts a member. ``name`` is also its client id."""
        kind = JavaMember if self.client in JAVA_CLIENTS else ReportingMember
        member = kind(self.client, {**self.config, "name": name, **config}, self.watch)
        key = name
        while key in self.members:  # a restarted member
            key += "'"
        self.members[key] = member
        return member

    def seen(self) -> list[str]:
        """Returns the values that the members have read. Values that were read twice are included
        twice."""
        return [value for member in list(self.members.values()) for value in list(member.values)]

    def until_seen(self, values: set[str] | list[str], within_s: float = 120.0) -> None:
        """Waits until each of ``values`` has been read by at least one member."""
        wanted = set(values)
        self.watch.until(
            f"{self.name} sees {len(wanted)} records",
            lambda: wanted <= set(self.seen()),
            within_s,
            lambda: f"missing {sorted(wanted - set(self.seen()))[:20]}\n{self.story()}",
        )

    def balanced(self, cluster: Cluster, *sizes: int, within_s: float = 120.0) -> Described:
        """Waits until the group is Stable and the numbers of partitions of its members are
        ``sizes``, in ascending order."""
        last: Described | None = None

        def look() -> Described | None:
            nonlocal last
            last = cluster.describe(self.name)
            return last if last.state == "Stable" and last.sizes() == sorted(sizes) else None

        try:
            return waiting.until(f"{self.name} is Stable with {sizes}", look, within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; now {last}\n{self.story()}") from None

    def leave_in_turn(self, cluster: Cluster, *members: Member) -> None:
        """Lets ``members`` leave one after the other, each after the rebalance that the previous
        one caused.

        A consumer of librdkafka 2.16 that closes during a rebalance sometimes hangs. It commits
        after it has left the group, gets UNKNOWN_MEMBER_ID, and waits forever.
        """
        for member in members:
            waiting.until(
                f"{self.name} is at rest", lambda: cluster.describe(self.name).state == "Stable"
            )
            member.leave()

    def story(self) -> str:
        """Returns the reports of all members, for the message of a failed test."""
        return "\n".join(member.story() for member in self.members.values())
