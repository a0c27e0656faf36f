"""One secured broker in this process, and the connections and ACLs of the cases.

The broker runs in a separate thread. A fault that a test plants with ``monkeypatch`` affects the
broker too.
"""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import uvloop

from broker.broker import Broker
from protocol.errors import NONE
from security.acls.model import CLUSTER_NAME, Operation, ResourceType
from security.credentials import ScramMechanism
from security.sasl.client_side import ClientLogin, Credentials, client_login
from security.sasl.plain import MODULE
from tests.broker.serving import serving
from tests.broker.topic_calls import create_topic, produce
from tests.broker.transactional_calls import find
from tests.waiting import until
from tests.wire import Wire, batch

ADMIN, ALICE, BOB = "admin", "alice", "bob"
SCRAM = "SCRAM-SHA-256"
METRICS_TOKEN = "prometheus-token-of-16"
_ITERATIONS = 4096
_SALT = b"a salt for tests"
_SHA_256 = 1
_ALLOW, _LITERAL = 3, 3
_SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
    "plain.sasl.jaas.config": f"{MODULE} required "
    + " ".join(f'user_{name}="{name}-secret"' for name in (ADMIN, ALICE, BOB))
    + ";",
    "connections.max.reauth.ms": "3600000",
    "connection.failed.authentication.delay.ms": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
    "delegation.token.secret.key": "a key of the tests",
    "http.listener": "127.0.0.1:0",
    "http.authentication": "basic",
    "http.metrics.token": METRICS_TOKEN,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Scene:
    """The broker and its clients. Each generated name is unique, so that cases do not affect each
    other."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.port = broker.sockets.addresses()[0][1]
        self._numbers = count()
        self._open: list[Wire] = []
        self._granted: dict[tuple[str, str], None] = {}
        """The granted rights as pairs of user and right, in the order of the grants."""
        self.admin = self.logged_in(ADMIN)

    def close(self) -> None:
        for wire in self._open:
            wire.close()

    # -- connections

    def wire(self) -> Wire:
        """Returns a new connection that is not authenticated."""
        wire = Wire(self.port)
        self._open.append(wire)
        return wire

    def logged_in(self, user: str) -> Wire:
        """Returns a new connection that is authenticated as ``user`` with PLAIN."""
        wire = self.wire()
        assert self.log_in(wire, user)["error_code"] == NONE
        return wire

    def log_in(self, wire: Wire, user: str) -> dict[str, Any]:
        """Authenticates or re-authenticates with PLAIN. Returns the response."""
        assert wire.call("SaslHandshake", 1, {"mechanism": "PLAIN"})["error_code"] == NONE
        return say(wire, f"\0{user}\0{user}-secret".encode())

    def both(self) -> tuple[Wire, Wire]:
        return self.logged_in(ALICE), self.logged_in(BOB)

    def headers(self, user: str) -> dict[str, str]:
        """Returns the HTTP headers that authenticate ``user``."""
        return {"Authorization": f"Basic {b64encode(f'{user}:{user}-secret'.encode()).decode()}"}

    @property
    def address(self) -> str:
        """Host and port of the HTTP listener."""
        where = self.broker.sockets.http_address()
        assert where is not None
        return where

    # -- SCRAM

    def add_scram_user(self, user: str) -> None:
        salted = ScramMechanism.SHA_256.salted_password(
            f"{user}-secret".encode(), _SALT, _ITERATIONS
        )
        one = {
            "name": user, "mechanism": _SHA_256, "iterations": _ITERATIONS, "salt": _SALT,
            "salted_password": salted,
        }  # fmt: skip
        self._alter_scram([], [one])

    def remove_scram_user(self, user: str) -> None:
        self._alter_scram([{"name": user, "mechanism": _SHA_256}], [])

    def _alter_scram(self, deletions: list[Any], upsertions: list[Any]) -> None:
        asked = {"deletions": deletions, "upsertions": upsertions}
        answer = self.admin.call("AlterUserScramCredentials", 0, asked)
        assert [each["error_code"] for each in answer["results"]] == [NONE], answer

    # -- topics and ids

    def name(self, of: str) -> str:
        return f"{of}-{next(self._numbers)}"

    def topic(self, *records: bytes) -> str:
        """Creates a topic with one partition and these records. Returns its name."""
        name = self.name("topic")
        assert create_topic(self.admin, name)["error_code"] == NONE
        for value in records:
            self.append(name, value)
        return name

    def append(self, topic: str, value: bytes) -> None:
        until("written", lambda: produce(self.admin, topic, batch(value))["error_code"] == NONE)

    def group(self) -> str:
        """Returns the id of a new group whose coordinator is loaded."""
        name = self.name("group")
        find(self.admin, name, 0)
        return name

    def transactional_id(self) -> str:
        """Returns a new transactional id whose coordinator is loaded."""
        name = self.name("id")
        find(self.admin, name)
        return name

    # -- rights

    def grant(self, user: str, *rights: str) -> None:
        """Adds ACLs for rights such as ``READ TOPIC orders`` or ``CLUSTER_ACTION CLUSTER``."""
        creations = [
            {
                "resource_type": kind, "resource_name": name, "resource_pattern_type": _LITERAL,
                "principal": f"User:{user}", "host": "*", "operation": operation,
                "permission_type": _ALLOW,
            }
            for operation, kind, name in map(_parsed, rights)
        ]  # fmt: skip
        self._granted |= {(user, right): None for right in rights}
        results = self.admin.call("CreateAcls", 3, {"creations": creations})["results"]
        assert {each["error_code"] for each in results} == {NONE}

    def revoke_all(self) -> None:
        """Removes the ACLs of all granted rights, so that the next case starts without rights."""
        for user, right in list(self._granted):
            self.revoke(user, right)

    def revoke(self, user: str, *rights: str) -> None:
        """Removes the ACLs that `grant` has added for ``user`` and ``rights``."""
        for right in rights:
            del self._granted[user, right]
        filters = [
            {
                "resource_type_filter": kind, "resource_name_filter": name,
                "pattern_type_filter": _LITERAL, "principal_filter": f"User:{user}",
                "host_filter": None, "operation": operation, "permission_type": _ALLOW,
            }
            for operation, kind, name in map(_parsed, rights)
        ]  # fmt: skip
        found = self.admin.call("DeleteAcls", 3, {"filters": filters})["filter_results"]
        assert [len(each["matching_acls"]) for each in found] == [1] * len(rights)


def _parsed(right: str) -> tuple[int, int, str]:
    operation, kind, *name = right.split(" ")
    return Operation[operation], ResourceType[kind], name[0] if name else CLUSTER_NAME


def say(wire: Wire, token: bytes) -> dict[str, Any]:
    """Sends one SaslAuthenticate. Returns the response."""
    return wire.call("SaslAuthenticate", 2, {"auth_bytes": token})


def begin_scram(wire: Wire, name: str, secret: str, *, by_token: bool = False) -> bytes:
    """Sends the first message of a SCRAM exchange. Returns the final message without sending it."""
    login: ClientLogin = client_login(SCRAM, Credentials(name, secret, by_token), "nonce")
    assert wire.call("SaslHandshake", 1, {"mechanism": SCRAM})["error_code"] == NONE
    challenge = say(wire, login.first())
    assert challenge["error_code"] == NONE, challenge
    final = login.answer(challenge["auth_bytes"])
    assert final is not None
    return final


@contextmanager
def scene(directory: Path) -> Iterator[Scene]:
    """Yields a scene, and stops its broker afterwards."""
    made: Future[tuple[Broker, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        async with serving(directory, _SETTINGS) as broker:
            broker.start_http()
            over = asyncio.Event()
            made.set_result((broker, asyncio.get_running_loop(), over))
            await over.wait()

    def run() -> None:
        try:
            uvloop.run(serve())
        except BaseException as error:
            if not made.done():
                made.set_exception(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    broker, loop, over = made.result(60)
    try:
        there = Scene(broker)
        yield there
        there.close()
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(60)
