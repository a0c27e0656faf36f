"""`muster users` on a running broker, and on the data directory of a stopped broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from security.credentials import parse_credential
from tests.brokers import Broker
from tests.cli.running import Ran, run

BOTH = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("users") / "data")
    yield made.start()
    made.kill()


@pytest.fixture(params=["broker", "directory"])
def at(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> list[str]:
    """Returns the options that select either a broker, or a data directory without users."""
    if request.param == "broker":
        return ["--bootstrap", broker.bootstrap]
    data = tmp_path / "data"
    data.mkdir()
    (data / ".lock").touch()
    return ["--data-dir", str(data)]


def users(words: str, *more: str, password: str = "secret") -> Ran:
    return run("users", *words.split(), *more, stdin=f"{password}\n")


def listed(at: list[str]) -> list[tuple[str, str, int]]:
    ran = users("list", *at, "--json")
    assert (ran.code, ran.err) == (0, "")
    return [(row["user"], row["mechanism"], row["iterations"]) for row in ran.json]


def test_users_are_added_listed_changed_and_removed(at: list[str]) -> None:
    assert users("list", *at).out == "No SCRAM users\n"
    assert users("add alice", *at).out == "Added user alice\n"
    assert users("add bob --mechanism scram-sha-512 --iterations 8192", *at).code == 0
    assert listed(at) == [
        *(("alice", each, 4096) for each in BOTH),
        ("bob", "SCRAM-SHA-512", 8192),
    ]
    again = users("add alice", *at)
    assert (again.code, again.err) == (
        1,
        "muster: user alice already has SCRAM-SHA-256 and SCRAM-SHA-512;"
        " `muster users set-password alice` changes the password\n",
    )
    done = users("set-password alice --mechanism SCRAM-SHA-256 --iterations 5000", *at)
    assert done.out == "Changed the password of alice\n"

    asked = users("remove alice --mechanism SCRAM-SHA-512", *at)
    assert asked.code == 2
    assert "add --execute" in asked.err
    assert users("remove alice --mechanism SCRAM-SHA-512 --execute", *at).code == 0
    assert listed(at) == [("alice", "SCRAM-SHA-256", 5000), ("bob", "SCRAM-SHA-512", 8192)]
    assert users("remove alice --execute", *at).out.endswith("Removed SCRAM-SHA-256 of alice\n")
    assert users("remove bob --execute --json", *at).json["executed"] is True
    assert listed(at) == []


def test_second_scram_mechanism_of_a_user_is_added(at: list[str]) -> None:
    assert users("add carol --mechanism SCRAM-SHA-512 --iterations 8192", *at).code == 0

    added = users("add carol --mechanism SCRAM-SHA-256", *at)

    assert (added.code, added.out) == (0, "Added SCRAM-SHA-256 to carol\n")
    assert listed(at) == [("carol", "SCRAM-SHA-256", 4096), ("carol", "SCRAM-SHA-512", 8192)]
    again = users("add carol --mechanism SCRAM-SHA-512", *at)
    assert (again.code, again.err.partition(";")[0]) == (
        1, "muster: user carol already has SCRAM-SHA-512"
    )  # fmt: skip
    assert users("remove carol --execute", *at).code == 0


def test_users_add_writes_a_salt_per_mechanism_in_the_format_of_kafka(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    assert users("add alice", "--data-dir", str(tmp_path)).code == 0
    kept = json.loads((tmp_path / "users.json").read_text())["users"]["alice"]
    salts = [parse_credential(text).salt for text in kept.values()]
    assert len(set(salts)) == len(BOTH)
    assert all(re.fullmatch(b"[0-9a-z]{20,26}", salt) for salt in salts)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (
            "set-password nobody",
            1,
            "user nobody does not exist; `muster users add nobody` adds the user",
        ),
        (
            "remove nobody --execute",
            1,
            "user nobody has no password for SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
        (
            "add zoe --mechanism PLAIN",
            2,
            "--mechanism PLAIN: choose one of SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            "add zoe --iterations 4095",
            2,
            "--iterations 4095: too few iterations; choose 4096 to 16384",
        ),
        ("add zo\u00e9", 2, "SCRAM accepts ASCII only"),
    ],
)
def test_invalid_users_command_is_rejected(at: list[str], words: str, code: int, says: str) -> None:
    ran = users(words, *at)
    assert ran.code == code
    assert says in ran.err
    assert listed(at) == []


def test_users_add_reads_a_password_file_and_rejects_an_empty_password(tmp_path: Path) -> None:
    at = ["--data-dir", str(tmp_path / "data")]
    assert "the password for alice is empty" in users("add alice", *at, password="").err
    file = tmp_path / "password"
    file.write_text("secret\nmore\n")
    added = users(f"add alice --password-file {file}", *at, password="")
    assert (added.code, added.err) == (0, f"muster: created {at[1]}, which did not exist\n")
    assert len(listed(at)) == 2
    assert users("add bob", *at).err == "", "the directory existed already"
    assert "secret" not in (tmp_path / "data" / "users.json").read_text().replace('"secret":', "")


def test_error_about_an_invalid_password_does_not_contain_the_password(tmp_path: Path) -> None:
    ran = run("users", "add", "al", "--data-dir", str(tmp_path / "d"), stdin=b"planted\xff\n")
    assert (ran.code, ran.err) == (2, "muster: the password for al is not UTF-8\n")


@pytest.mark.parametrize("words", ["list", "set-password alice", "remove alice --execute"])
def test_users_commands_other_than_add_do_not_create_a_data_directory(
    words: str, tmp_path: Path
) -> None:
    ran = users(words, "--data-dir", str(tmp_path / "data"))
    assert ran.code == 1
    why = "is not a broker's data directory: the directory does not exist"
    assert ran.err == f"muster: {tmp_path / 'data'} {why}\n"
    assert not (tmp_path / "data").exists()


def test_users_command_rejects_the_directory_of_a_running_broker(broker: Broker) -> None:
    ran = users("add alice", "--data-dir", str(broker.data))
    assert ran.code == 1
    assert "a broker is using" in ran.err
    assert "--bootstrap" in ran.err
