"""Tests SCRAM users: the requests that describe and alter them, and the file that stores them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.authentication.user_file import NAME, UserFile
from broker.authentication.users import Credentials, Edit, Upsertion, Users
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.registry import BadDirectory
from log.files.filesystem import OsFileSystem
from protocol.errors import (
    DUPLICATE_RESOURCE,
    NONE,
    RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_SASL_MECHANISM,
)
from security.credentials import ScramMechanism, credential, credential_text
from tests.broker.authentication.letting_in import broker_with_logins, connect, log_in
from tests.broker.edge import Client
from tests.broker.serving import serving
from tests.simulated_files import SimulatedFiles

DESCRIBE, ALTER = 50, 51
SALT, SALTED = b"0123456789", b"\x07" * 32
TWICE = "A user credential cannot be altered twice in the same request"


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as found:
        yield found


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": SALT,
        "salted_password": SALTED,
    }


async def alter(
    client: Client, upsertions: list[dict[str, Any]], deletions: Sequence[tuple[str, int]] = ()
) -> dict[str, tuple[int, str | None]]:
    asked = [{"name": name, "mechanism": mechanism} for name, mechanism in deletions]
    answer = await client.call(ALTER, 0, deletions=asked, upsertions=upsertions)
    return {each["user"]: (each["error_code"], each["error_message"]) for each in answer["results"]}


async def described(client: Client, *names: str) -> dict[str, Any]:
    answer = await client.call(DESCRIBE, 0, users=[{"name": each} for each in names] or None)
    assert (answer["error_code"], answer["error_message"]) == (NONE, None)
    return {
        each["user"]: each["error_message"]
        or [(info["mechanism"], info["iterations"]) for info in each["credential_infos"]]
        for each in answer["results"]
    }


async def test_scram_credentials_are_altered_and_described(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = await connect(broker)
        assert await described(client) == {}
        assert await alter(client, [upsertion("zoe"), upsertion("al", 2, 8192)]) == {
            "zoe": (NONE, None),
            "al": (NONE, None),
        }
        assert await alter(client, [upsertion("al")]) == {"al": (NONE, None)}

        assert list((await described(client)).items()) == [
            ("al", [(1, 4096), (2, 8192)]),
            ("zoe", [(1, 4096)]),
        ]
        assert await alter(client, [], [("al", 2)]) == {"al": (NONE, None)}
        assert await alter(client, [], [("zoe", 1)]) == {"zoe": (NONE, None)}
        assert await described(client) == {"al": [(1, 4096)]}


async def test_invalid_scram_alteration_fails_only_for_its_user(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = await connect(broker)
        await alter(client, [upsertion("al")])
        upsertions = [
            upsertion(""),
            upsertion("bo", 3),
            upsertion("cy", 1, 4095),
            upsertion("di", 1, 16385),
            upsertion("ed", 1, 16384),
            upsertion("flo"),
            upsertion("flo", 2),
        ]
        assert await alter(client, upsertions, [("guy", 1), ("al", 2), ("hal", 9)]) == {
            "": (UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
            "bo": (UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
            "cy": (UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
            "di": (UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
            "ed": (NONE, None),
            "flo": (DUPLICATE_RESOURCE, TWICE),
            "guy": (
                RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            ),
            "al": (
                RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            ),
            "hal": (UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        }
        assert await described(client) == {"al": [(1, 4096)], "ed": [(1, 16384)]}
        assert await alter(client, [upsertion("al")], [("al", 1)]) == {
            "al": (DUPLICATE_RESOURCE, TWICE)
        }
        assert await described(client, "al", "al", "nobody") == {
            "al": "Cannot describe SCRAM credentials for the same user twice in a single request:"
            " al",
            "nobody": "Attempt to describe a user credential that does not exist: nobody",
        }


async def test_scram_users_survive_a_restart_in_a_file_that_only_its_owner_may_read(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as broker:
        await alter(await connect(broker), [upsertion("al")])
        assert broker.secured.users is not None
        secret = broker.secured.users.secret
    path = tmp_path / NAME
    kept = json.loads(path.read_text())
    text = credential_text(credential(ScramMechanism.SHA_256, SALTED, SALT, 4096))
    assert kept["users"] == {"al": {"SCRAM-SHA-256": text}}
    assert b64encode(SALTED).decode() not in path.read_text()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600

    async with serving(tmp_path) as broker:
        assert await described(await connect(broker)) == {"al": [(1, 4096)]}
        assert broker.secured.users is not None
        assert broker.secured.users.secret == secret, "unknown names keep their salts"


async def test_users_are_unchanged_when_their_file_cannot_be_written(lines: list[Any]) -> None:
    files = SimulatedFiles()
    async with serving("/data", fs=files) as broker:
        client = await connect(broker)
        await alter(client, [upsertion("al")])
        files.fail("write", f"{NAME}.tmp")
        failed = (
            UNKNOWN_SERVER_ERROR,
            "the broker can't write the SCRAM users to the disk: see the broker's log",
        )
        assert await alter(client, [upsertion("bo")], [("al", 1)]) == {"al": failed, "bo": failed}
        assert await described(client) == {"al": [(1, 4096)]}
        assert await alter(client, [upsertion("bo")]) == {"bo": (NONE, None)}


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 1, "users": {"al": {"SCRAM-SHA-1": "planted"}}}',
        '{"version": 1, "users": {"al": {"SCRAM-SHA-256": "salt=planted"}}}',
        '{"version": 1, "users": {"al": "planted"}}',
        '{"version": 1, "users": ["planted"]}',
        '{"version": 1, "secret": 7, "users": {}}',
        '{"version": 2}',
        "planted",
    ],
)
def test_start_fails_when_user_file_is_unreadable(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(BadDirectory) as caught:
        UserFile(OsFileSystem(), str(tmp_path), Time())
    assert NAME in str(caught.value)
    assert "planted" not in str(caught.value)


async def test_changed_scram_credential_does_not_end_a_session(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        await alter(client, [upsertion("alice")])
        assert await described(client) == {"alice": [(1, 4096)]}

    told = [line for line in lines if line["event"] == "SCRAM credentials changed"]
    assert [(line["by"], line["first"]) for line in told] == [("User:alice", "alice")]
    assert not any(b64encode(SALTED).decode() in str(line) for line in lines)
    assert not any(repr(SALTED)[2:-1] in str(line) for line in lines)


class ImmediateStore:
    async def alter(self, edits: Mapping[str, Edit]) -> Mapping[str, Credentials | str]:
        return {
            name: {mechanism: made for mechanism, made in edit.items() if made is not None}
            for name, edit in edits.items()
        }


async def test_alteration_of_many_users_yields_to_the_event_loop() -> None:
    users = Users(ImmediateStore(), {}, b"secret")
    slices = Slicer(Time(), slice_ns=0).work("test")
    many = [Upsertion(f"user-{number}", 1, 4096, SALT, SALTED) for number in range(50)]
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    done = await users.alter([], many, slices)
    beside.cancel()

    assert {each.error_code for each in done.values()} == {NONE}
    assert len(users) == 50
    assert turns >= 50, "one for each password"


def test_decoy_credential_for_an_unknown_user_has_the_iteration_count_of_a_known_user() -> None:
    def having(iterations: int, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> Credentials:
        return {mechanism: credential(mechanism, SALTED, SALT, iterations)}

    users = Users(ImmediateStore(), {"a": having(8192), "b": having(4095)}, b"secret")
    decoy_of = users.decoys(ScramMechanism.SHA_256)

    def shown() -> set[int]:
        return {decoy_of(f"nobody-{number}", False).iterations for number in range(50)}

    assert shown() == {8192}
    users.update("c", having(5000))
    users.update("d", having(6000, ScramMechanism.SHA_512))
    assert shown() == {8192, 5000}
    users.update("a", having(5000))
    assert shown() == {5000}
    users.update("a", {})
    users.update("c", {})
    assert shown() == {4096}
    # The decoys of a user name and of an equal token id have different salts.
    assert decoy_of("x", True).salt != decoy_of("x", False).salt


def test_repr_of_a_scram_upsertion_has_no_secret() -> None:
    asked = Upsertion("al", 1, 4096, SALT, b"planted")
    assert "planted" not in f"{asked!r} {asked}"


def test_10_000_scram_users_are_loaded_within_2_s(tmp_path: Path) -> None:
    text = credential_text(credential(ScramMechanism.SHA_256, SALTED, SALT, 4096))
    users = {f"user-{number}": {"SCRAM-SHA-256": text} for number in range(10_000)}
    (tmp_path / NAME).write_text(json.dumps({"version": 1, "users": users}))
    began = time.thread_time()
    found = UserFile(OsFileSystem(), str(tmp_path), Time()).users()
    took_s = time.thread_time() - began

    assert len(found) == 10_000
    assert took_s < 2
