"""Muster can read the example files in docs/formats/registry.md, and writes them back unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from broker.authentication.token_file import TokenFile
from broker.authentication.user_file import UserFile
from broker.authorizer.acl_store import AclFile
from broker.authorizer.quota_changes import QuotaFile
from broker.time import Time
from security.acls.model import Operation, PatternType, ResourceType
from security.credentials import ScramMechanism, credential
from security.principal import Principal
from security.quotas.entities import Entity
from security.tokens import Token
from tests.brokers import CHECKOUT
from tests.simulated_files import SimulatedFiles

PAGE = (CHECKOUT / "docs" / "formats" / "registry.md").read_text()
SHA_256 = ScramMechanism.SHA_256


def example(name: str) -> str:
    """Returns the example of the file ``name`` in the documentation page."""
    found = re.search(rf"^## {re.escape(name)}\n\n```json\n(.*?)```", PAGE, re.M | re.S)
    assert found is not None
    return found[1]


def directory(name: str) -> SimulatedFiles:
    fs = SimulatedFiles()
    fs.make_directory("/data")
    fs.put(f"/data/{name}", example(name).encode())
    return fs


def written(fs: SimulatedFiles, name: str) -> str:
    return bytes(fs.written(f"/data/{name}")).decode()


async def at_once(work: Callable[..., Any], *args: Any) -> None:
    work(*args)


def test_example_of_the_acl_file_is_read_and_written() -> None:
    fs = directory("acls.json")
    file = AclFile(fs, "/data")
    entries = file.read()
    assert [(each.pattern, each.operation) for each in entries] == [
        ((ResourceType.TOPIC, "orders", PatternType.LITERAL), Operation.WRITE),
        ((ResourceType.GROUP, "billing", PatternType.PREFIXED), Operation.READ),
    ]
    file.write([])
    file.write(entries)
    assert written(fs, "acls.json") == example("acls.json")


async def test_example_of_the_users_file_is_read_and_written() -> None:
    fs = directory("users.json")
    file = UserFile(fs, "/data", Time())
    [(name, credentials)] = file._known.items()
    kept = credentials[SHA_256]
    salted = SHA_256.salted_password(b"a secret of alice", kept.salt, kept.iterations)
    assert name == "alice"
    assert kept == credential(SHA_256, salted, kept.salt, kept.iterations)
    await file.alter({"alice": {SHA_256: None}})
    assert "alice" not in written(fs, "users.json")
    await file.alter({"alice": {SHA_256: kept}})
    assert written(fs, "users.json") == example("users.json")


async def test_example_of_the_quotas_file_is_read_and_written() -> None:
    fs = directory("quotas.json")
    file = QuotaFile(fs, "/data", at_once)
    quotas = dict(file.read())
    assert list(quotas) == [
        Entity("billing"),
        Entity("billing", "batch"),
        Entity(None),
        Entity(ip="10.0.0.9"),
    ]
    await file.alter({entity: dict.fromkeys(values) for entity, values in quotas.items()})
    assert "billing" not in written(fs, "quotas.json")
    await file.alter(quotas)
    assert written(fs, "quotas.json") == example("quotas.json")


async def test_example_of_the_tokens_file_is_read_and_written() -> None:
    fs = directory("tokens.json")
    file = TokenFile(fs, "/data", at_once)
    [token] = file.tokens.values()
    assert token == Token(
        "X5C-jJwdR2GoKXHTRm2Kjw",
        Principal("User", "alice"),
        Principal("User", "alice"),
        (Principal("User", "bob"),),
        1795436910239,
        1796041710239,
        1795523310239,
    )
    await file.remove(token)
    assert "alice" not in written(fs, "tokens.json")
    await file.keep(token, None)
    assert written(fs, "tokens.json") == example("tokens.json")
