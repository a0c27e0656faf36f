"""Tests the authorizer: cached decisions, their invalidation by ACL changes, and the audit of
denials."""

from __future__ import annotations

import pytest

from broker.authorizer import acl_authorizer
from broker.authorizer.acl_authorizer import AclAuthorizer
from broker.authorizer.audit import Audit
from broker.net.authorization_cache import NAME_KEPT_MAX
from broker.time import Time
from security.acls.acl_decision import AclRules
from security.acls.index import AclIndex
from security.acls.model import Operation, Permission, ResourceType
from security.principal import ANONYMOUS
from tests.broker.authorizer.peers import allow, peer
from tests.steps import result_of

TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def authorizer(*entries, super_users=frozenset(), allow_everyone=False):
    audit = Audit(Time())
    return AclAuthorizer(AclIndex(entries), super_users, allow_everyone=allow_everyone, audit=audit)


async def test_request_is_allowed_only_by_a_matching_acl_or_for_a_super_user():
    rights = authorizer(allow("t"), super_users={"User:root"})
    assert rights.allows(peer(), READ, TOPIC, "t", api="Fetch")
    assert rights.allows(peer(), DESCRIBE, TOPIC, "t", api="Metadata")
    assert not rights.allows(peer(), WRITE, TOPIC, "t", api="Produce", count=2)
    assert not rights.allows(peer("User:bob"), READ, TOPIC, "t", api="Fetch")
    assert rights.allows(peer("User:root"), WRITE, TOPIC, "other", api="Produce")
    assert rights.audit.counts == {("Produce", WRITE, TOPIC): 2, ("Fetch", READ, TOPIC): 1}
    rules = [denial.rule for denial in rights.audit.denials()]
    assert rules == ["no matching ACL allows the operation"] * 2
    rights.audit.stop()


async def test_denial_that_only_removes_a_name_from_a_list_is_not_in_the_audit_log():
    rights = authorizer()
    assert not rights.allows(peer(), READ, TOPIC, "t", api="Metadata", is_logged=False)
    assert rights.operations(peer(), TOPIC, "t") == 0
    assert rights.audit.denials() == []
    assert not rights.allows(peer(), READ, TOPIC, "t", api="Fetch")
    assert len(rights.audit.denials()) == 1
    rights.audit.stop()


async def test_acl_host_matches_client_address_without_leading_slash():
    entry = allow("t")._replace(host="10.0.0.9")
    rights = authorizer(entry)
    assert rights.allows(peer(host="/10.0.0.9"), READ, TOPIC, "t", api="Fetch")
    assert not rights.allows(peer(host="/10.0.0.8"), READ, TOPIC, "t", api="Fetch")
    assert rights.audit.denials()[0].host == "10.0.0.8"
    rights.audit.stop()


async def test_decision_is_cached_until_an_acl_changes(monkeypatch):
    judged = []
    real = AclRules.verdict
    monkeypatch.setattr(
        acl_authorizer.AclRules, "verdict", lambda *args: judged.append(args) or real(*args)
    )
    rights = authorizer(allow("t"))
    connection = peer()
    for _ in range(5):
        assert rights.allows(connection, READ, TOPIC, "t", api="Fetch")
        assert not rights.allows(connection, WRITE, TOPIC, "t", api="Produce")
    assert len(judged) == 2
    assert rights.audit.counts["Produce", WRITE, TOPIC] == 5, "a kept denial is one all the same"

    denying = allow("t", permission=Permission.DENY)
    rights.index.add(denying)
    assert not rights.allows(connection, READ, TOPIC, "t", api="Fetch")
    assert rights.operations(connection, TOPIC, "t") == 1 << DESCRIBE, "a deny implies nothing"
    rights.index.remove(denying)
    assert rights.allows(connection, READ, TOPIC, "t", api="Fetch")
    assert rights.operations(connection, TOPIC, "t") == 1 << READ | 1 << DESCRIBE
    rights.audit.stop()


async def test_cached_decision_is_not_used_for_another_principal():
    rights = authorizer(allow("t"))
    connection = peer()
    assert rights.allows(connection, READ, TOPIC, "t", api="Fetch")
    connection.principal = ANONYMOUS
    assert not rights.allows(connection, READ, TOPIC, "t", api="Fetch")
    rights.audit.stop()


def allowed_somewhere(rights, connection, operation):
    return result_of(rights.allows_somewhere(connection, operation, TOPIC, api="InitProducerId"))


async def test_check_for_any_resource_considers_all_acls_of_the_resource_type():
    rights = authorizer(allow("t", WRITE))
    connection = peer()
    assert allowed_somewhere(rights, connection, WRITE)
    assert not allowed_somewhere(rights, connection, READ)
    assert rights.audit.denials()[0].name == ""
    rights.index.add(allow("*", WRITE, permission=Permission.DENY))
    assert not allowed_somewhere(rights, connection, WRITE)
    rights.audit.stop()


async def test_decision_for_any_resource_is_cached_until_an_acl_changes(monkeypatch):
    judged = []
    real = AclRules.may_somewhere
    monkeypatch.setattr(
        acl_authorizer.AclRules, "may_somewhere", lambda *args: judged.append(args) or real(*args)
    )
    rights = authorizer(allow("t", WRITE))
    for connection in (peer(), peer(), peer("User:bob"), peer("User:bob")):
        allowed = allowed_somewhere(rights, connection, WRITE)
        assert allowed == (str(connection.principal) != "User:bob")
    assert len(judged) == 2
    rights.index.remove(allow("t", WRITE))
    assert not allowed_somewhere(rights, peer(), WRITE)
    assert len(judged) == 3
    rights.audit.stop()


@pytest.mark.parametrize("what", ["allows", "operations"])
async def test_decision_on_a_long_name_is_not_cached(what):
    rights = authorizer(allow_everyone=True)
    connection = peer()
    for size in (NAME_KEPT_MAX, NAME_KEPT_MAX + 1):
        if what == "allows":
            assert rights.allows(connection, READ, ResourceType.GROUP, "g" * size, api="Heartbeat")
        else:
            assert rights.operations(connection, ResourceType.GROUP, "g" * size)
    assert [len(key[-1]) for key in (*rights.verdicts, *rights.bits)] == [NAME_KEPT_MAX]


@pytest.mark.parametrize("what", ["allows", "operations"])
async def test_number_of_cached_decisions_of_all_connections_is_bounded(what, monkeypatch):
    monkeypatch.setattr(acl_authorizer, "KEPT_MAX", 50)
    rights = authorizer(allow_everyone=True)
    for connection in [peer(f"User:{number}") for number in range(30)]:
        for number in range(40):
            if what == "allows":
                assert rights.allows(connection, READ, TOPIC, f"t{number}", api="Fetch")
            else:
                assert rights.operations(connection, TOPIC, f"t{number}") == 3576
    assert 50 <= len(rights.verdicts) + len(rights.bits) <= 100


async def test_decision_cache_evicts_names_that_were_not_used_recently(monkeypatch):
    monkeypatch.setattr(acl_authorizer, "KEPT_MAX", 50)
    judged = []
    real = AclRules.verdict
    monkeypatch.setattr(AclRules, "verdict", lambda *args: judged.append(args[-1]) or real(*args))
    rights = authorizer(allow_everyone=True)
    for number in range(500):
        for name in ("mine", f"t{number}"):
            assert rights.allows(peer(), READ, TOPIC, name, api="Fetch")
    assert judged.count("mine") == 1
