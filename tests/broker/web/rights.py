"""A broker whose HTTP server authenticates readers. The test changes the ACLs in memory."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from security.acls.acl_decision import AclRules
from security.acls.index import AclIndex
from security.acls.model import (
    ANYTHING,
    CLUSTER_NAME,
    AclEntry,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from tests.broker.seen import Seen, seeing

DESCRIBE, READ = Operation.DESCRIBE, Operation.READ
TOPIC, GROUP, ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
CLUSTER = (DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_alice="alice-secret" user_bob="bob: secret" user_admin="admin-secret";'
)
TOKEN = "prometheus-token-of-16"
PASSWORDS = {"alice": "alice-secret", "bob": "bob: secret", "admin": "admin-secret"}
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "http.authentication": "basic",
    "http.metrics.token": TOKEN,
    "connection.failed.authentication.delay.ms": 10,
}

Right = tuple[Operation, ResourceType, str]


class Rights:
    """An authorizer with the ACLs that the test sets. The user admin is a super user."""

    judges = True

    def __init__(self) -> None:
        self.epoch = 1
        self._index = AclIndex()
        self._acl_rules = AclRules(self._index, {"User:admin"})
        self.told: list[str] = []
        """The authorization checks that the authorizer reported for the audit log, each as text:
        operation, resource type and name."""

    def _entry(self, who: str, right: Right) -> AclEntry:
        operation, kind, name = right
        return AclEntry(Pattern(kind, name), f"User:{who}", ANYTHING, operation, Permission.ALLOW)

    def give(self, who: str, rights: Iterable[Right]) -> None:
        for each in rights:
            assert self._index.add(self._entry(who, each))
        self.epoch += 1

    def take(self, who: str, right: Right) -> None:
        assert self._index.remove(self._entry(who, right))
        self.epoch += 1

    def allows(
        self, connection: Any, operation: Operation, kind: ResourceType, name: str, **more: Any
    ) -> bool:
        if more["is_logged"]:
            self.told.append(f"{operation.name} {kind.name} {name}")
        host = connection.client_host.removeprefix("/")
        who = str(connection.principal)
        return self._acl_rules.verdict(who, host, operation, kind, name).is_allowed


class SecuredSeen(Seen):
    """A broker in this process that authenticates HTTP requests."""

    rights: Rights

    async def as_(self, who: str, path: str, **headers: str) -> Any:
        return await self.get(path, {**basic(who), **headers})

    async def json(self, who: str, path: str) -> Any:
        answer = await self.as_(who, path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def basic(who: str, password: str | None = None) -> dict[str, str]:
    given = f"{who}:{PASSWORDS[who] if password is None else password}"
    return {"Authorization": f"Basic {b64encode(given.encode()).decode()}"}


@asynccontextmanager
async def securely(
    directory: Path, settings: dict[str, Any] | None = None
) -> AsyncIterator[SecuredSeen]:
    wanted = {**SETTINGS, **(settings or {})}
    async with seeing(directory, wanted) as seen:
        secured = SecuredSeen(seen.broker, seen.time, seen.client)
        secured.address = seen.address
        secured.rights = Rights()
        seen.broker.secured.authorizer = secured.rights  # type: ignore[assignment]
        yield secured
