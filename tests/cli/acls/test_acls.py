"""`muster acls` on a running broker with an authorizer, and on the data directory of a stopped
broker."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.authorizer_rules import STANDARD
from tests.brokers import Broker
from tests.cli.running import Ran, run

ADMIN = "--principal User:ANONYMOUS --operation alter,describe,describe-configs --cluster"
SETTINGS = {"authorizer.class.name": STANDARD, "super.users": "User:root"}


def acls(words: str, *more: str) -> Ran:
    return run("acls", *words.split(), *more)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields a broker with an authorizer. The ACLs of its administrator were added before its first
    start."""
    broker = Broker(tmp_path_factory.mktemp("acls") / "data", SETTINGS)
    made = acls(f"add {ADMIN}", "--data-dir", str(broker.data))
    assert (made.code, made.err) == (0, f"muster: created {broker.data}, which did not exist\n")
    yield broker.start()
    broker.kill()


@pytest.fixture
def at(secured: Broker) -> Iterator[list[str]]:
    """Yields the command-line options that select the broker. Removes the ACLs of topics and groups
    after the test."""
    at = ["--bootstrap", secured.bootstrap]
    yield at
    assert acls("remove --topic * --execute", *at).code == 0
    for kind in ("--topic", "--group"):
        for name in ("orders", "ord", "billing"):
            assert acls(f"remove {kind} {name} --pattern any --execute", *at).code == 0


def told(ran: Ran) -> list[tuple[str, ...]]:
    assert (ran.code, ran.err) == (0, "")
    keys = ("principal", "permission", "operation", "resource_type", "name", "pattern", "host")
    return [tuple(row[key] for key in keys) for row in ran.json]


def test_acls_are_added_listed_and_removed(at: list[str]) -> None:
    alice, bob = ("User:alice", "Allow"), ("User:bob", "Allow")
    acls("add --principal User:alice --producer --topic orders", *at)
    acls("add --principal User:bob --consumer --topic ord --group billing --pattern prefixed", *at)
    acls("add --principal User:* --deny --operation all --topic * --host 10.0.0.9", *at)

    of_orders = [
        (*alice, each, "Topic", "orders", "literal", "*")
        for each in ("Write", "Create", "Describe")
    ]
    covering = [
        ("User:*", "Deny", "All", "Topic", "*", "literal", "10.0.0.9"),
        (*bob, "Read", "Topic", "ord", "prefixed", "*"),
        (*bob, "Describe", "Topic", "ord", "prefixed", "*"),
        *of_orders,
    ]
    assert told(acls("list --topic orders --json", *at)) == covering
    assert told(acls("list --topic orders --pattern literal --json", *at)) == of_orders
    assert told(acls("list --principal User:bob --operation read --json", *at)) == [
        (*bob, "Read", "Topic", "ord", "prefixed", "*"),
        (*bob, "Read", "Group", "billing", "prefixed", "*"),
    ]
    assert told(acls("list --deny --json", *at)) == covering[:1]

    assert acls("remove --topic orders", *at).code == 2, "without a terminal --execute is required"
    assert told(acls("list --topic orders --json", *at)) == covering
    removed = acls("remove --topic orders --execute --json", *at).json
    assert (removed["executed"], len(removed["changes"])) == (True, 3)
    assert told(acls("list --topic orders --json", *at)) == covering[:3]
    assert acls("remove --topic orders --execute", *at).out == "No ACL matches; nothing to remove\n"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "User:alice --operation read --topic orders",
            "User:alice may Read Topic orders: an ACL allows User:alice from * Read on each Topic"
            " whose name begins with ord\n",
        ),
        (
            "User:alice --operation describe --topic orders --host 10.0.0.8",
            "User:alice may Describe Topic orders from 10.0.0.8: an ACL allows User:alice from *"
            " Read on each Topic whose name begins with ord\n",
        ),
        (
            "User:alice --operation delete --topic orders",
            "User:alice may not Delete Topic orders: an ACL denies User:* from * Delete on Topic"
            " *\n"
            "To remove the denying ACL: $ muster acls remove --principal 'User:*' --operation"
            " delete --topic '*' --pattern literal --host '*' --deny\n",
        ),
        (
            "User:alice --operation read --group billing",
            "User:alice may not Read Group billing: no ACL matches\n"
            "To allow the operation: $ muster acls add --principal User:alice --operation read"
            " --group billing\n",
        ),
        (
            "User:root --operation delete --topic orders",
            "User:root may Delete Topic orders: super.users names the principal\n",
        ),
    ],
)
def test_acls_explain_prints_the_decision_and_its_reason(
    at: list[str], question: str, answer: str
) -> None:
    acls("add --principal User:alice --operation read --topic ord --pattern prefixed", *at)
    acls("add --principal User:* --deny --operation delete --topic *", *at)
    assert acls(f"explain --principal {question}", *at).out == answer


def test_command_suggested_by_acls_explain_removes_only_the_denying_acl(at: list[str]) -> None:
    acls("add --principal User:alice --deny --operation read --topic ord --pattern prefixed", *at)
    acls("add --principal User:alice --deny --operation read --topic ord --host 10.0.0.9", *at)
    acls("add --principal User:alice --operation read --topic ord --pattern prefixed", *at)
    question = "explain --principal User:alice --operation read --topic orders"
    told = acls(question, *at).out
    assert "may not" in told
    remedy = shlex.split(told.rpartition("$ muster ")[2])
    assert run(*remedy, "--execute", *at).out.endswith("Removed 1 ACL\n")
    assert " may Read Topic orders: " in acls(question, *at).out
    assert [row["host"] for row in acls("list --deny --json", *at).json] == ["10.0.0.9"]


def test_command_acls_explain_says_that_a_decision_depends_on_host_or_super_users(
    at: list[str], secured: Broker, tmp_path: Path
) -> None:
    acls("add --principal User:* --deny --operation all --topic orders --host 10.0.0.9", *at)
    question = "explain --principal User:alice --operation read --topic orders"
    assert acls(question, *at, "--json").json == {
        "allowed": False,
        "principal": "User:alice",
        "operation": "Read",
        "resource_type": "Topic",
        "name": "orders",
        "host": None,
        "rule": "no matching ACL allows the operation",
        "entry": None,
        "unknown": [
            "The client's address is unknown; --host IP checks the ACLs for a single address"
        ],
    }
    offline = acls(question, "--data-dir", str(secured.data), "--json").json
    assert offline["unknown"] == [
        "It is unknown whether the principal is in super.users; super users may do everything",
        "The client's address is unknown; --host IP checks the ACLs for a single address",
    ]
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in SETTINGS.items()))
    question = "explain --principal User:root --operation read --topic orders --host 10.0.0.9"
    known = acls(question, "--data-dir", str(secured.data), "--config", str(file))
    assert known.out == (
        "User:root may Read Topic orders from 10.0.0.9: super.users names the principal\n"
    )


def test_acls_list_fails_and_acls_explain_allows_when_no_authorizer_is_set(broker: Broker) -> None:
    at = ["--bootstrap", broker.bootstrap]
    assert acls("explain --principal User:a --operation read --topic t", *at).out == (
        "User:a may Read Topic t: the broker has no authorizer, so every principal may do"
        " everything\n"
    )
    refused = acls("list", *at)
    assert refused.code == 1
    assert refused.err.startswith("muster: ACLs: No Authorizer is configured")


def test_acls_command_rejects_option_data_dir_while_a_broker_uses_the_directory(
    secured: Broker, tmp_path: Path
) -> None:
    refused = acls(f"add {ADMIN}", "--data-dir", str(secured.data))
    assert (refused.code, refused.err) == (
        1,
        f"muster: a broker is using {secured.data}: connect to the broker with --bootstrap"
        " instead of --data-dir, or stop the broker first\n",
    )
    (tmp_path / "acls.json").write_text('{"version": 2}')
    newer = acls("list", "--data-dir", str(tmp_path))
    assert (newer.code, "has version 2" in newer.err) == (1, True)
    (tmp_path / "acls.json").write_text('{"version": 1, "acls": []}')
    here = ["--data-dir", str(tmp_path)]
    assert acls("add --principal User:a --operation read --topic t,u", *here).code == 0
    assert acls("remove --principal User:b --execute", *here).code == 0
    assert [e["name"] for e in json.loads((tmp_path / "acls.json").read_text())["acls"]] == ["t,u"]
    assert acls("remove --principal User:a --execute", *here).code == 0
    assert json.loads((tmp_path / "acls.json").read_text())["acls"] == []


@pytest.mark.parametrize(
    "words",
    ["list", "remove --topic t --execute", "explain --principal User:a --operation read --topic t"],
)
def test_acls_command_rejects_a_data_dir_without_broker_files(words: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, why in (
        ("nowhere", "is not a broker's data directory: the directory does not exist"),
        ("file", "is not a broker's data directory: the directory does not exist"),
        ("", "is not a broker's data directory: the directory has no files of a broker"),
    ):
        ran = acls(words, "--data-dir", str(tmp_path / name))
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == f"muster: {tmp_path / name} {why}\n"
    assert not (tmp_path / "nowhere").exists()


def test_acls_of_a_topic_named_kafka_cluster_are_not_acls_of_the_cluster(tmp_path: Path) -> None:
    at = ["--data-dir", str(tmp_path / "data"), "--json"]
    words = "--principal User:a --operation alter --topic kafka-cluster --pattern prefixed"
    added = acls(f"add {words} --cluster", *at).json
    assert [(row["resource_type"], row["pattern"]) for row in added] == [
        ("Topic", "prefixed"),
        ("Cluster", "literal"),
    ]
    assert acls("list", *at).json == added


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("add --operation read --topic t", "--principal is missing"),
        ("add --principal User:a --operation read", "a resource (--topic, --group, --trans"),
        ("add --operation read", "--principal and a resource (--topic, --group, --trans"),
        ("add --principal User:a --topic t", "name the operations with --operation, --prod"),
        ("add --principal a --operation read --topic t", "--principal: 'a' is not a principal"),
        ("add --principal User:a --operation eat --topic t", "'eat' is unknown: use one of"),
        ("add --principal User:a --operation any --topic t", "Invalid operation ANY"),
        ("add --principal User:a --producer --group g", "--producer needs --topic or"),
        ("add --principal User:a --operation read --topic t --pattern match", "--pattern of a"),
        ("remove", "select the ACLs with --principal, or with a resource such as --topic"),
        ("explain --principal User:a --topic t", "name one --principal"),
    ],
)
def test_invalid_acls_command_is_rejected_with_the_reason(words: str, sentence: str) -> None:
    ran = acls(words, "--data-dir", "/nowhere")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"muster: {sentence}"), ran.err
