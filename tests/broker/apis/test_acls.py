"""Tests that DescribeAcls, CreateAcls and DeleteAcls follow Kafka's rules in every version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.apis import delete_acls
from broker.config.authorizer_rules import STANDARD
from protocol.errors import INVALID_REQUEST, SECURITY_DISABLED
from security.acls.index import AT_A_TIME
from security.acls.model import Operation, PatternType, Permission, ResourceType
from tests.broker.counting import counted
from tests.broker.serving import asked, serving
from tests.brokers import Broker
from tests.wire import Wire

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields a broker on which every client is a super user."""
    data: Path = tmp_path_factory.mktemp("acls")
    settings = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    broker = Broker(data, settings).start()
    yield broker
    broker.kill()


@pytest.fixture
def admin(secured: Broker) -> Iterator[Wire]:
    """Yields a connection to the broker, from which all ACLs have been deleted."""
    with Wire(secured.port) as connection:
        delete(connection, wanted())
        yield connection


def entry(
    name: str = "t",
    *,
    kind: int = TOPIC,
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = Operation.READ,
    permission: int = Permission.ALLOW,
) -> dict[str, Any]:
    return {
        "resource_type": int(kind),
        "resource_name": name,
        "resource_pattern_type": int(pattern),
        "principal": principal,
        "host": host,
        "operation": int(operation),
        "permission_type": int(permission),
    }


def wanted(
    name: str | None = None,
    *,
    kind: int = ResourceType.ANY,
    pattern: int = PatternType.ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = Operation.ANY,
    permission: int = Permission.ANY,
) -> dict[str, Any]:
    return {
        "resource_type_filter": int(kind),
        "resource_name_filter": name,
        "pattern_type_filter": int(pattern),
        "principal_filter": principal,
        "host_filter": host,
        "operation": int(operation),
        "permission_type": int(permission),
    }


def create(wire: Wire, *entries: dict[str, Any], version: int = 3) -> list[tuple[int, str | None]]:
    results = wire.call("CreateAcls", version, {"creations": list(entries)})["results"]
    return [(each["error_code"], each["error_message"]) for each in results]


def delete(wire: Wire, *filters: dict[str, Any], version: int = 3) -> list[list[str]]:
    answer = wire.call("DeleteAcls", version, {"filters": list(filters)})
    for each in answer["filter_results"]:
        assert (each["error_code"], each["error_message"]) == (0, None)
        assert all(acl["error_code"] == 0 for acl in each["matching_acls"])
    return [
        sorted(named(acl["pattern_type"], acl["resource_name"]) for acl in each["matching_acls"])
        for each in answer["filter_results"]
    ]


def describe(wire: Wire, asked: dict[str, Any], version: int = 3) -> list[str]:
    answer = wire.call("DescribeAcls", version, asked)
    assert (answer["error_code"], answer["error_message"]) == (0, "")
    return sorted(
        named(resource["pattern_type"], resource["resource_name"])
        for resource in answer["resources"]
        for _ in resource["acls"]
    )


def named(pattern: int, name: str) -> str:
    return name if pattern == LITERAL else f"{name}..."


@pytest.mark.parametrize("version", range(4))
def test_acl_is_created_described_and_deleted_in_every_version(
    admin: Wire, secured: Broker, version: int
) -> None:
    given = entry("orders", operation=Operation.DESCRIBE_CONFIGS, host="10.0.0.9")
    assert create(admin, given, version=version) == [(0, "")]
    [kept] = json.loads((secured.data / "acls.json").read_text())["acls"]
    assert (kept["operation"], kept["host"]) == ("DescribeConfigs", "10.0.0.9")
    asked = wanted("orders", kind=TOPIC, pattern=LITERAL)
    [resource] = admin.call("DescribeAcls", version, asked)["resources"]
    [acl] = resource.pop("acls")
    assert resource == {"resource_type": 2, "resource_name": "orders", "pattern_type": 3}
    assert acl == {
        "principal": "User:alice",
        "host": "10.0.0.9",
        "operation": 10,
        "permission_type": 3,
    }
    assert delete(admin, asked, version=version) == [["orders"]]
    assert delete(admin, asked, version=version) == [[]]
    assert json.loads((secured.data / "acls.json").read_text())["acls"] == []


def test_pattern_type_match_finds_all_applicable_acls_and_any_finds_only_equal_names(
    admin: Wire,
) -> None:
    create(
        admin,
        entry("t1"),
        entry("*"),
        entry("t", pattern=PREFIXED),
        entry("t1", pattern=PREFIXED),
        entry("t2"),
        entry("t1", kind=GROUP, principal="User:other"),
        entry("*", pattern=PREFIXED),
    )

    def found(pattern: int) -> list[str]:
        return describe(admin, wanted("t1", kind=TOPIC, pattern=pattern))

    assert found(PatternType.MATCH) == ["*", "t...", "t1", "t1..."]
    assert found(PatternType.ANY) == ["t1", "t1..."]
    assert found(LITERAL) == ["t1"]
    assert found(PREFIXED) == ["t1..."]
    assert describe(admin, wanted("t1", pattern=PatternType.MATCH)) == [
        *found(PatternType.MATCH)[:3], "t1", "t1...",
    ]  # fmt: skip
    assert delete(admin, wanted("t1", kind=TOPIC, pattern=PatternType.MATCH)) == [
        ["*", "t...", "t1", "t1..."]
    ]
    assert describe(admin, wanted()) == ["*...", "t1", "t2"]


def test_each_field_of_an_acl_filter_selects_matching_acls(admin: Wire) -> None:
    create(
        admin,
        entry("a", principal="User:bob"),
        entry("b", host="10.0.0.9"),
        entry("c", operation=Operation.ALL),
        entry("d", permission=Permission.DENY),
        entry("kafka-cluster", kind=CLUSTER, operation=Operation.ALTER),
    )
    assert describe(admin, wanted(principal="User:bob")) == ["a"]
    assert describe(admin, wanted(host="10.0.0.9")) == ["b"]
    assert describe(admin, wanted(operation=Operation.ALL)) == ["c"]
    assert describe(admin, wanted(permission=Permission.DENY)) == ["d"]
    assert describe(admin, wanted(kind=CLUSTER)) == ["kafka-cluster"]
    assert describe(admin, wanted("kafka-cluster", kind=TOPIC)) == []


def test_each_acl_of_create_acls_is_validated_independently(admin: Wire) -> None:
    """The error messages equal those of Kafka 4.3.1."""
    unparsed = (
        "Could not parse principal from `alice` (no colon is present separating the principal type"
        " from the principal name)"
    )
    asked = {
        "t": (entry("t"), ""),
        "cluster": (
            entry("other", kind=CLUSTER),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        "again": (entry("t"), ""),
        "no name": (entry(""), "Invalid empty resource name"),
        "any type": (entry("t", kind=ResourceType.ANY), "Invalid resourceType ANY"),
        "new type": (entry("t", kind=99), "Invalid resourceType UNKNOWN"),
        "match": (entry("t", pattern=PatternType.MATCH), "Invalid patternType MATCH"),
        "new pattern": (entry("t", pattern=99), "Invalid patternType UNKNOWN"),
        "any operation": (entry("t", operation=Operation.ANY), "Invalid operation ANY"),
        "any permission": (entry("t", permission=Permission.ANY), "Invalid permissionType ANY"),
        "no principal": (entry("t", principal="alice"), unparsed),
        "no host": (entry("u", host=""), ""),
        "does not fit": (entry("a/b", operation=Operation.CLUSTER_ACTION), ""),
    }
    results = create(admin, *(each for each, _ in asked.values()))
    assert dict(zip(asked, results, strict=True)) == {
        name: (INVALID_REQUEST if message else 0, message) for name, (_, message) in asked.items()
    }
    assert describe(admin, wanted()) == ["a/b", "t", "u"]


def test_acl_that_matches_two_delete_filters_is_returned_for_both_filters(admin: Wire) -> None:
    create(admin, entry("t"), entry("u"))
    assert delete(admin, wanted("t"), wanted(), wanted("none")) == [["t"], ["t", "u"], []]


OF_FILTER = {
    "resource_type": "resource_type_filter",
    "resource_pattern_type": "pattern_type_filter",
}


@pytest.mark.parametrize("field", [*OF_FILTER, "operation", "permission_type"])
def test_acl_request_with_enum_code_0_closes_the_connection(admin: Wire, field: str) -> None:
    of_filter = OF_FILTER.get(field, field)
    for api, value in (
        ("CreateAcls", {"creations": [entry("kept?"), entry() | {field: 0}]}),
        ("DescribeAcls", wanted() | {of_filter: 0}),
        ("DeleteAcls", {"filters": [wanted(), wanted() | {of_filter: 0}]}),
    ):
        with Wire(admin.socket.getpeername()[1]) as other:
            other.send(api, 3, value)
            assert other.is_closed()
    assert describe(admin, wanted()) == []


@pytest.mark.parametrize("field", [*OF_FILTER.values(), "operation", "permission_type"])
def test_acl_filter_with_an_unknown_enum_code_matches_no_acl(admin: Wire, field: str) -> None:
    create(admin, entry("t"))
    assert describe(admin, wanted() | {field: 99}) == []
    filters = {"filters": [wanted() | {field: 99}]}
    [result] = admin.call("DeleteAcls", 3, filters)["filter_results"]
    part = "patternFilter" if field in OF_FILTER.values() else "entryFilter"
    assert (result["error_code"], result["error_message"]) == (INVALID_REQUEST, f"Unknown {part}.")
    assert describe(admin, wanted()) == ["t"]


def test_3000_acls_survive_a_restart(admin: Wire, secured: Broker) -> None:
    many = [entry(f"t{number}") for number in range(3000)]
    assert create(admin, *many) == [(0, "")] * 3000
    assert len(describe(admin, wanted())) == 3000
    secured.kill()
    secured.start()
    with Wire(secured.port) as again:
        assert len(describe(again, wanted())) == 3000
        assert len(delete(again, wanted())[0]) == 3000
        assert describe(again, wanted()) == []


def test_acls_of_one_pattern_are_described_as_one_resource(admin: Wire) -> None:
    entries = [entry(principal=f"User:{number}") for number in range(3 * AT_A_TIME)]
    create(admin, *entries, entry("t", pattern=PREFIXED))
    resources = admin.call("DescribeAcls", 3, wanted())["resources"]
    assert sorted((each["pattern_type"], len(each["acls"])) for each in resources) == [
        (LITERAL, 3 * AT_A_TIME),
        (PREFIXED, 1),
    ]


async def test_describe_acls_uses_slices_when_one_pattern_has_many_acls(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    async with serving(tmp_path, settings) as broker:
        entries = [entry(principal=f"User:{number}") for number in range(5 * AT_A_TIME)]
        await asked(broker, lambda wire: create(wire, *entries))
        broker.slicer.slice_ns = -1
        turns = counted(broker.slicer, "turn")
        assert len(await asked(broker, lambda wire: describe(wire, wanted()))) == len(entries)
        assert len(turns) >= 5


async def test_delete_acls_refuses_a_filter_above_the_limit_of_matches_per_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_acls, "MATCHES_MAX", 5)
    settings = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    async with serving(tmp_path, settings) as broker:
        names = ["a", "b", "c", "d"]
        await asked(broker, lambda wire: create(wire, *map(entry, names)))

        def deleted(wire: Wire) -> list[tuple[int, int]]:
            filters = [wanted("a"), wanted("b"), wanted(), wanted("c")]
            answer = wire.call("DeleteAcls", 3, {"filters": filters})
            return [
                (each["error_code"], len(each["matching_acls"]))
                for each in answer["filter_results"]
            ]

        refused = (INVALID_REQUEST, 0)
        assert await asked(broker, deleted) == [(0, 1), (0, 1), refused, (0, 1)]
        assert await asked(broker, lambda wire: describe(wire, wanted())) == ["d"]


def test_acl_requests_get_security_disabled_without_an_authorizer(wire: Wire) -> None:
    said = "No Authorizer is configured."
    assert create(wire, entry(), entry("other", kind=CLUSTER)) == [(SECURITY_DISABLED, said)] * 2
    answer = wire.call("DescribeAcls", 3, wanted())
    assert (answer["error_code"], answer["resources"]) == (SECURITY_DISABLED, [])
    assert answer["error_message"] == "No Authorizer is configured on the broker."
    [of_filter] = wire.call("DeleteAcls", 3, {"filters": [wanted()]})["filter_results"]
    assert of_filter == {
        "error_code": SECURITY_DISABLED, "error_message": said, "matching_acls": []
    }  # fmt: skip
