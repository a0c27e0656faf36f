"""The scripts that `--show-completion` prints, and the words that they offer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from cli.client.cluster import Cluster
from cli.client.group_member import GroupMember
from cli.client.new_topics import NewTopic, create_topics
from tests.brokers import CHECKOUT, Broker
from tests.waiting import until


def muster(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=CHECKOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def completed(line: str, bootstrap: str = "127.0.0.1:1") -> list[str]:
    """Returns the words that bash offers after ``line``. No broker runs at the default address."""
    words = line.split(" ")
    return muster(
        _MUSTER_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(len(words) - 1),
        MUSTER_BOOTSTRAP=bootstrap,
    ).split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("muster gro", ["groups"]),
        ("muster groups re", ["reset"]),
        ("muster groups reset g --to-", ["--to-earliest", "--to-latest", "--to-current"]),
        ("muster serve --c", ["--config"]),
        ("muster offsets i", ["import"]),
    ],
)
def test_bash_completion_offers_matching_words(line: str, offered: list[str]) -> None:
    assert completed(line)[: len(offered)] == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_can_be_loaded_by_the_shell(shell: str) -> None:
    script = muster("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")

    assert f"_MUSTER_COMPLETE=complete_{shell}" in script
    if shell == "bash":
        loaded = subprocess.run(["bash", "-n"], input=script, text=True, check=False)
        assert loaded.returncode == 0


@pytest.mark.interop
def test_completion_offers_names_of_topics_groups_members_and_settings(
    broker: Broker, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    create_topics(cluster, [NewTopic(f"{name}-{end}", 1, 1, {}) for end in ("a", "b")])
    member = GroupMember(cluster, name, [f"{name}-a"])
    member.join()
    both = [f"{name}-a", f"{name}-b"]
    lines = {
        # This line is first: the member sends no heartbeats, so its session expires soon.
        "muster groups evict NAME muster-cli": [member.member_id],
        "muster groups describe NAME": [name],
        "muster topics describe NAME": both,
        "muster topics trim NAME": both,
        "muster consume -n 1 NAME-b": [f"{name}-b"],
        "muster topics create NAME": [],
        "muster configs get --topic NAME-a retention.m": ["retention.ms"],
        "muster configs set --topic NAME-a retention.m": ["retention.ms=604800000"],
        "muster configs get --topic NAME-a": [f"{name}-a"],
    }
    try:
        for line, offered in lines.items():
            # On a busy machine the broker may answer after completion has stopped waiting.
            until(
                f"{line} is completed",
                lambda: completed(line.replace("NAME", name), broker.bootstrap) == offered,  # noqa: B023
                within_s=60,
            )
    finally:
        member.leave()


@pytest.mark.interop
def test_completion_uses_the_bootstrap_option_of_the_command_line(
    broker: Broker, name: str
) -> None:
    create_topics(Cluster(broker.bootstrap), [NewTopic(name, 1, 1, {})])

    line = f"muster topics describe --bootstrap {broker.bootstrap} {name[:-2]}"
    assert until("the topic is offered", lambda: completed(line) == [name], within_s=60)


def test_completion_of_option_choices_needs_no_broker() -> None:
    assert completed("muster consume t --isolation ") == ["read_committed", "read_uncommitted"]
    assert completed("muster produce t --compression z") == ["zstd"]
    assert completed("muster groups list --type co") == ["consumer"]


def test_completion_is_empty_when_no_broker_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        assert completed("muster topics describe t", address) == []
    assert completed("muster topics describe t") == []
