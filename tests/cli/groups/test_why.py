"""The output of `muster groups why`, `groups watch` and `offsets expiring`."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cli.groups.why import finding_lines, partitions_of, story
from cli.times import instant
from tests import waiting
from tests.brokers import CHECKOUT, KIND, Broker
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group
from verdicts.refused_words import NEW_PROTOCOL

NOW_MS = 1_795_349_131_500


def member(name: str, **more: Any) -> dict[str, Any]:
    return {"member": name, "instance": None, "client": name, "host": "/10.0.0.1", **more}


def rebalance(**more: Any) -> dict[str, Any]:
    return {
        "number": 1,
        "source": "seen",
        "cause": "member_left",
        "why": "a-1 from /10.0.0.1 left: bye",
        "member": "a-1",
        "last_heard_ms": None,
        "from_empty": False,
        "began_ms": NOW_MS,
        "ended_ms": NOW_MS + 5,
        "phase": "ended",
        "outcome": "assigned",
        "awaited": [],
        "until_ms": NOW_MS + 60_000,
        "join_ms": 2600,
        "join_ended_by": "all_joined",
        "sync_ms": 40,
        "last_member": "b-2",
        "last_wait_ms": 2500,
        "generation_before": 1,
        "generation": 2,
        "protocol": "range",
        "leader": "b-2",
        "members": 1,
        "changes": [],
        "more_changes": 0,
        "assigned": [member("b-2", partitions={"t": [0, 1, 2, 5]}, assignment_bytes=9)],
        **more,
    }


def journal(**more: Any) -> dict[str, Any]:
    return {
        "group": "g",
        "state": "Stable",
        "restored": None,
        "rebalances": [],
        "notes": [],
        "rejected_commits": [],
        "refused_joins": [],
        "moved_back": {"commits": 0, "last": []},
        "losses": {"count": 0, "last": []},
        "flapping": [],
        "returning": [],
        "findings": [],
        **more,
    }


def test_completed_rebalance_is_shown_with_cause_durations_and_assignments() -> None:
    assert story(journal(rebalances=[rebalance()])) == [
        "g  Stable  OK",
        "2026-11-22T12:05:31Z  a-1 from /10.0.0.1 left: bye",
        "    the join phase took 2.6 s: all members had joined; b-2 joined last, 2.5 s after the"
        " previous member; the sync phase took 40 ms",
        "    generation 2 (range), 1 member: b-2 got t:0-2,5",
    ]


def test_rebalance_in_progress_shows_awaited_members_and_deadline() -> None:
    going_on = rebalance(
        phase="join",
        outcome=None,
        join_ms=None,
        sync_ms=None,
        awaited=[
            member("b-2", words="the member still heartbeats (last 1.6 s ago) but does not rejoin")
        ],
    )
    lines = story(journal(rebalances=[going_on]))
    assert lines[2:] == [
        "    join phase in progress: waiting for b-2,"
        f" until {instant(NOW_MS + 60_000)} at the latest",
        "        b-2 from /10.0.0.1: the member still heartbeats (last 1.6 s ago) but does not"
        " rejoin",
    ]


def test_groups_why_shows_the_member_change_that_caused_a_rebalance_only_once() -> None:
    changes = [
        {"at_ms": NOW_MS, "what": "left: bye", "same_client": None, **member("a-1")},
        {"at_ms": NOW_MS + 1000, "what": "joined", "same_client": None, **member("c-3")},
        {"at_ms": NOW_MS, "what": "nothing was heard", "same_client": None, **member("d-4")},
    ]
    lines = story(journal(rebalances=[rebalance(changes=changes, more_changes=4)]))
    assert lines[2:5] == [
        f"    {instant(NOW_MS + 1000)}  c-3 from /10.0.0.1 joined",
        f"    {instant(NOW_MS)}  d-4 from /10.0.0.1: nothing was heard",
        "    and 4 more members joined or left",
    ]


def test_groups_why_shows_a_client_restart_in_the_rebalance_and_in_the_last_line() -> None:
    same = {"member": "a-0", "words": "the same client rejoined with a new member id"}
    changes = [
        {"at_ms": NOW_MS, "what": "joined", "same_client": same, **member("a-1")},
        {"at_ms": NOW_MS + 1000, "what": "joined", "same_client": same, **member("c-3")},
    ]
    client = {"client": "a", "host": "/10.0.0.1", "times": 2, "last_ms": NOW_MS}
    client |= {"what": "has restarted", "advice": "help", "source": "seen"}
    lines = story(journal(rebalances=[rebalance(changes=changes)], returning=[client]))
    assert lines[2:4] == [
        "    the same client rejoined with a new member id",
        f"    {instant(NOW_MS + 1000)}  c-3 from /10.0.0.1 joined;"
        " the same client rejoined with a new member id",
    ]
    assert lines[-1] == (
        "a from /10.0.0.1 has restarted 2 times, each time with a new member id, last at"
        f" {instant(NOW_MS)}: help"
    )


def test_restarted_static_member_is_named_by_its_instance_id() -> None:
    client = {"instance": "i-1", "client": "a", "host": "10.0.0.1", "times": 6, "last_ms": NOW_MS}
    client |= {"what": "has restarted", "advice": "help", "source": "seen"}
    assert story(journal(rebalances=[rebalance()], returning=[client]))[-1] == (
        f"static member i-1 from 10.0.0.1 has restarted 6 times, last at {instant(NOW_MS)}: help"
    )


def test_repeated_takeovers_of_a_static_member_are_shown_in_one_line() -> None:
    text = "b at 10.0.0.2 took over si from a at 10.0.0.1"
    note = {"at_ms": NOW_MS + 60_000, "text": text, "source": "seen", "kind": "x"}
    note |= {"instance": "si", "times": 60, "since_ms": NOW_MS}
    lines = story(journal(rebalances=[rebalance()], notes=[note]))
    assert lines[-1] == (
        f"{instant(NOW_MS + 60_000)}  another process took over static member si 60 times between"
        f" {instant(NOW_MS)} and {instant(NOW_MS + 60_000)}, last: {text}"
    )


def test_events_of_all_kinds_are_shown_in_chronological_order() -> None:
    lines = story(
        journal(
            restored={
                "at_ms": NOW_MS - 1000,
                "generations": [
                    {"log_offset": 3, "generation": 6, "members": 2},
                    {"log_offset": 9, "generation": 7, "members": 2},
                ],
            },
            rebalances=[rebalance(last_heard_ms=NOW_MS - 10_000)],
            notes=[{"at_ms": NOW_MS + 2000, "text": "something happened", "source": "kept"}],
            rejected_commits=[
                {
                    "error": "ILLEGAL_GENERATION",
                    "count": 2,
                    "last_ms": NOW_MS,
                    "source": "seen",
                    "last": {"member": "b-2", "client": "b", "host": "/10.0.0.1", "why": "late"},
                }
            ],
            moved_back={
                "commits": 1,
                "last": [
                    {
                        "at_ms": NOW_MS + 3000,
                        "source": "kept",
                        "member": None,
                        "client": "reset",
                        "principal": "User:ops",
                        "host": "/10.0.0.9",
                        "offsets": 2,
                        "examples": [{"topic": "t", "partition": 1, "from": 9, "to": 0}],
                    }
                ],
            },
            flapping=[
                {
                    **member("c-3"),
                    "changes": 5,
                    "last_ms": 1,
                    "last": "offers other things",
                    "source": "seen",
                }
            ],
        )
    )
    assert lines[1] == (
        f"{instant(NOW_MS - 1000)}  the coordinator started and loaded the group from offset 9"
        " of its __consumer_offsets partition: generation 7, 2 members"
    )
    assert lines[2].endswith(f"left: bye, last heard at {instant(NOW_MS - 10_000)}")
    assert lines[5:] == [
        f"{instant(NOW_MS + 2000)}  something happened  [kept]",
        f"{instant(NOW_MS + 3000)}  User:ops (client reset) from /10.0.0.9 moved t:1 back"
        " from 9 to 0, and 1 more offset  [kept]",
        f"2 commits refused with ILLEGAL_GENERATION, the last at {instant(NOW_MS)}:"
        " b-2 from /10.0.0.1, late",
        "c-3 from /10.0.0.1 keeps changing its metadata (5 times), last: offers other things",
        "[kept]: recorded before the broker's last start",
    ]


def test_groups_why_marks_each_rebalance_before_the_broker_start_with_its_source() -> None:
    log = {"source": "log", "cause": "unknown", "assigned": [], "began_ms": NOW_MS - 60_000}
    kept = rebalance(source="kept", outcome="stopped", began_ms=NOW_MS - 30_000)
    lines = story(journal(rebalances=[rebalance(**log), kept, rebalance()]))
    assert lines[1] == (
        f"{instant(NOW_MS - 60_000)}  generation 2 (range), 1 member, led by b-2  [log]"
    )
    assert lines[2].endswith("a-1 from /10.0.0.1 left: bye  [kept]")
    assert lines[4] == "    not completed: the broker stopped"
    assert lines[5].endswith("a-1 from /10.0.0.1 left: bye")
    assert lines[-2:] == [
        "[kept]: recorded before the broker's last start",
        "[log]: read from __consumer_offsets, which does not record causes",
    ]


def test_groups_why_prints_a_sentence_when_the_group_has_no_events() -> None:
    assert story(journal())[1:] == ["no events since the broker started"]


@pytest.mark.parametrize(
    ("owned", "shown"),
    [
        ({"t": [3, 1, 2], "a": [7]}, "a:7 t:1-3"),
        ({}, "nothing"),
        (None, "9 bytes"),
    ],
)
def test_groups_why_shows_partitions_of_a_member_as_ranges(owned: Any, shown: str) -> None:
    assert partitions_of(owned, 9) == shown


# -------------------------------------------------------------------- commands as processes


def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=CHECKOUT,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_offsets_expiring_rejects_a_duration_without_a_unit() -> None:
    done = run("offsets", "expiring", "--within", "30", code=2)
    assert "--within 30" in done.stderr


@pytest.mark.interop
@pytest.mark.skipif(KIND != "muster", reason="the HTTP API is Muster's own")
def test_commands_groups_watch_and_offsets_expiring_show_the_state_of_a_real_group(
    tmp_path: Path, name: str
) -> None:
    broker = Broker(tmp_path / "data", http="127.0.0.1:0")
    broker.start()
    at = ("--bootstrap", broker.bootstrap)
    watched: list[dict[str, Any]] = []
    watcher = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "groups", "watch", "--json", "--every", "0.1",
         *at],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT,
    )  # fmt: skip
    reader = threading.Thread(
        target=lambda: watched.extend(json.loads(line) for line in watcher.stdout or ()),
        daemon=True,
    )
    reader.start()
    drawn = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "groups", "watch", name, "--every", "0.1", *at],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT,
    )  # fmt: skip
    cluster = Cluster(broker.bootstrap)
    try:
        _, told = drawn.communicate(timeout=30)
        assert drawn.returncode == 1
        assert f"group {name} does not exist" in told
        cluster.create_topic(name, 2)
        with Group("confluent", broker.bootstrap, name, topics=[name]) as group:
            one = group.start("a")
            group.balanced(cluster, 2)
            group.until_seen(Feed(broker.bootstrap, name, 2).send(4))
            one.commit()
            waiting.until(
                "the watcher sees the group stable",
                lambda: any(w["group"] == name and w["state"] == "Stable" for w in watched),
            )
            code, shown = _watched_on_a_terminal(name, broker.bootstrap, f"{name}:0-1")
            piped = _watched_in_a_pipe(at, "groups", "watch", name, "--every", "0.1")
            top = _watched_in_a_pipe(at, "top", "--every", "0.1")
            one.leave()
        assert code == 130, shown
        assert piped.startswith(f"{name}  Stable  generation")
        assert top.startswith("cluster ")
        assert f"{name}  Stable  generation" in shown
        assert re.search(r"^#1 +rdkafka|^#1 +\S+ +127\.0\.0\.1 ", shown, re.MULTILINE), shown
        waiting.until(
            "the watcher sees the group empty",
            lambda: watched[-1]["group"] == name and watched[-1]["state"] == "Empty",
        )
        listed = json.loads(run("offsets", "expiring", "--within", "8d", "--json", *at).stdout)
        table = run("offsets", "expiring", "--within", "8d", *at).stdout
        nothing = run("offsets", "expiring", *at).stdout
    finally:
        watcher.send_signal(signal.SIGINT)
        watcher.wait(30)
        broker.stop()
    reader.join(10)
    assert watcher.returncode == 130
    states = [each["state"] for each in watched if each["group"] == name]
    assert states[-1] == "Empty"
    assert len(states) < 40, "one line per change, not per request"
    assert [(row["partition"], row["offset"]) for row in listed["offsets"]] == [(0, 2), (1, 2)]
    assert "the group has no members" in table
    assert nothing == "No offset expires within 1d\n"


def _watched_in_a_pipe(at: tuple[str, ...], *words: str) -> str:
    """Runs an endless command with its output in a pipe. Interrupts the command after its first
    line, and returns this line."""
    live = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *words, *at],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT,
    )  # fmt: skip
    assert live.stdout is not None
    first = live.stdout.readline()
    live.send_signal(signal.SIGINT)
    _, told = live.communicate(timeout=30)
    assert live.returncode == 130, told
    return first


def _watched_on_a_terminal(group: str, bootstrap: str, until: str) -> tuple[int, str]:
    """Runs `groups watch` on a terminal until the output contains ``until``, sends Ctrl-C, and
    returns the exit code and the output."""
    ours, its = os.openpty()
    live = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "groups", "watch", group, "--bootstrap", bootstrap],
        stdout=its, stderr=its, stdin=its, cwd=CHECKOUT,
        env={**os.environ, "COLUMNS": "250", "LINES": "50"},
    )  # fmt: skip
    os.close(its)
    shown = b""
    deadline = time.monotonic() + 30
    while until.encode() not in shown and time.monotonic() < deadline:
        if select.select([ours], [], [], 1)[0]:
            shown += os.read(ours, 65536)
    live.send_signal(signal.SIGINT)
    code = live.wait(30)
    os.close(ours)
    return code, shown.decode()


def test_refused_joins_are_shown_with_client_host_and_reason() -> None:
    refused = [
        {
            "error": "INVALID_SESSION_TIMEOUT",
            "count": number,
            "last_ms": NOW_MS,
            "source": "seen",
            "last": {"member": None, "client": f"c-{number}", "host": "/h", "why": "it is 1"},
        }
        for number in (10, 1, 2, 3)
    ]
    lines = story(journal(state=None, refused_joins=refused))
    assert lines[-4:] == [
        f"1 join refused with INVALID_SESSION_TIMEOUT, the last at {instant(NOW_MS)}:"
        " c-1 from /h, it is 1",
        f"2 joins refused with INVALID_SESSION_TIMEOUT, the last at {instant(NOW_MS)}:"
        " c-2 from /h, it is 1",
        f"3 joins refused with INVALID_SESSION_TIMEOUT, the last at {instant(NOW_MS)}:"
        " c-3 from /h, it is 1",
        "10 more joins refused; --json shows all",
    ]


def test_client_of_the_kip_848_protocol_is_shown_as_not_served() -> None:
    last = {"member": None, "client": "billing", "host": "/h", "why": NEW_PROTOCOL}
    refused = {
        "error": "UNSUPPORTED_VERSION",
        "count": 3,
        "last_ms": NOW_MS,
        "source": "seen",
        "last": last,
    }
    lines = story(journal(state=None, refused_joins=[refused]))
    assert lines[-1] == (
        f"billing from /h is not served, last seen at {instant(NOW_MS)}:"
        " unsupported request: the client uses group.protocol=consumer"
    )


def test_forward_move_of_a_committed_offset_is_shown_with_its_time_and_user() -> None:
    sentence = (
        "User:ops (client cli) from 10.0.0.9 moved the committed offset of t:1 forward from 5 to 20"
    )
    losses = {
        "count": 1,
        "last": [{"at_ms": NOW_MS + 1000, "sentence": sentence, "source": "seen"}],
    }
    lines = story(journal(rebalances=[rebalance()], losses=losses))
    assert lines[-1] == f"{instant(NOW_MS + 1000)}  {sentence}"


@pytest.mark.parametrize(("by", "has_command"), [("groups why", False), ("groups watch", True)])
def test_groups_why_does_not_advise_to_run_groups_why(by: str, has_command: bool) -> None:
    finding = {
        "verdict": "FLAPPING",
        "sentence": "the group has rebalanced 9 times",
        "advice": "check which members leave and why",
        "command": "muster groups why billing",
    }

    lines = finding_lines([finding], by)

    assert lines[:2] == [
        "FLAPPING: the group has rebalanced 9 times",
        "    check which members leave and why",
    ]
    assert lines[2:] == ["    $ muster groups why billing"] * has_command
