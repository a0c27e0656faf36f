"""Tests the brokers of a cluster with an authorizer: ACLs apply on all brokers, and local ACL files
are ignored."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from broker.authentication.users import Upsertion
from broker.cluster_stores import SECRET_NODE
from security.acls.model import AclEntry, Operation, Pattern, Permission, ResourceType
from security.principal import user
from security.quotas.entities import Entity
from tests.broker.authentication.letting_in import own_slices
from tests.broker.cluster.members import eventually, members

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "a key of the tests",
}
ALICE = user("alice")
ENTRY = AclEntry(
    Pattern(ResourceType.TOPIC, "t"), "User:alice", "*", Operation.READ, Permission.ALLOW
)
ALONE = ("acls.json", "users.json", "quotas.json", "tokens.json")


async def test_security_changes_on_one_broker_take_effect_on_all_brokers(tmp_path: Path) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        one, *others = cluster.brokers.values()
        assert one.secured.acls is not None
        assert one.secured.users is not None
        zookeeper = one.sources.member.joined.zookeeper
        assert await zookeeper.exists(SECRET_NODE) is None  # No user logs in by SCRAM.
        assert await one.mode.stores.acls.change([ENTRY], []) == {}
        await one.secured.quotas.alter({Entity("alice"): {"producer_byte_rate": 9.0}})
        alice = Upsertion("alice", 1, 4096, b"salt", b"salted")
        await one.secured.users.alter([], [alice], own_slices())
        assert one.secured.tokens is not None
        token = await one.secured.tokens.create(ALICE, ALICE, (), -1)
        for other in others:
            assert other.secured.acls is not None
            await eventually(
                "the entry holds", lambda other=other: ENTRY in other.secured.acls.index
            )
            await eventually(
                "the quota holds",
                lambda other=other: (
                    dict(other.secured.quotas.values)
                    == {Entity("alice"): {"producer_byte_rate": 9.0}}
                ),
            )
            await eventually(
                "the user is known", lambda other=other: list(other.secured.users.names())
            )
            await eventually(
                "the token is known", lambda other=other: other.secured.tokens.all() == [token]
            )
            assert other.secured.users.of("alice") == one.secured.users.of("alice")


async def test_started_broker_has_the_acls_of_zookeeper_and_ignores_local_files(
    tmp_path: Path,
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        await cluster.brokers[1].mode.stores.acls.change([ENTRY], [])
        await cluster.stop(3)
        for name in ALONE:
            (tmp_path / "3" / name).write_text("{")
        with capture_logs() as logs:
            await cluster.start(3)
        assert list(cluster.brokers[3].secured.acls.index) == [ENTRY]
    unread = [each["path"] for each in logs if "file ignored" in each["event"]]
    assert sorted(Path(each).name for each in unread) == sorted(ALONE)
