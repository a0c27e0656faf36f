"""Tests that DescribeClientQuotas and AlterClientQuotas refuse the same requests as Kafka."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from broker.apis.alter_client_quotas import Refused
from broker.authorizer.audit import Audit
from protocol.errors import INVALID_REQUEST, NONE, UNSUPPORTED_VERSION
from tests.broker.serving import asked, serving
from tests.wire import Wire

EXACT, DEFAULT, ANY = 0, 1, 2


def altered(
    wire: Wire, entity: dict[str, str | None], *ops: Any, version: int = 1, **more: Any
) -> Any:
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops],
    }
    value = {"entries": [entry], "validate_only": False, **more}
    return wire.call("AlterClientQuotas", version, value)["entries"][0]


def described(wire: Wire, *components: Any, strict: bool = False, version: int = 1) -> Any:
    parts = [
        {"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components
    ]
    return wire.call("DescribeClientQuotas", version, {"components": parts, "strict": strict})


def found(answer: Any) -> list[Any]:
    assert answer["error_code"] == NONE, answer
    return [
        (
            {part["entity_type"]: part["entity_name"] for part in entry["entity"]},
            {each["key"]: each["value"] for each in entry["values"]},
        )
        for entry in answer["entries"]
    ]


async def test_quotas_are_altered_and_described_in_every_version(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        for version in (0, 1):
            rate = ("producer_byte_rate", 5.0)
            percent = ("request_percentage", 1.5)
            assert altered(wire, {"user": "a"}, rate, percent, version=version)["error_code"] == 0
            altered(wire, {"user": None, "client-id": "c"}, rate, version=version)
            altered(wire, {"user": "x"}, rate, version=version, validate_only=True)
            alice = ({"user": "a"}, dict([rate, percent]))
            clients = ({"user": None, "client-id": "c"}, dict([rate]))
            assert found(described(wire, version=version)) == [alice, clients]
            assert found(described(wire, ("user", EXACT, "a"), version=version)) == [alice]
            assert found(described(wire, ("user", DEFAULT, None))) == [clients]
            assert found(described(wire, ("user", ANY, None))) == [alice, clients]
            assert found(described(wire, ("user", ANY, None), strict=True)) == [alice]
            altered(wire, {"user": "a"}, ("producer_byte_rate", None), ("request_percentage", None))
            altered(wire, {"user": None, "client-id": "c"}, ("producer_byte_rate", None))
            assert found(described(wire)) == []

    async with serving(tmp_path) as broker:
        await asked(broker, work)


@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ({}, [("producer_byte_rate", 1.0)]),
        ({"group": "g"}, [("producer_byte_rate", 1.0)]),
        ({"user": ""}, [("producer_byte_rate", 1.0)]),
        ({"ip": "10.0.0.1", "user": "a"}, [("connection_creation_rate", 1.0)]),
        ({"ip": "no such host."}, [("connection_creation_rate", 1.0)]),
        ({"user": "a"}, [("connection_creation_rate", 1.0)]),
        ({"ip": "10.0.0.1"}, [("producer_byte_rate", 1.0)]),
        ({"user": "a"}, [("nonsense", 1.0)]),
        ({"user": "a"}, [("producer_byte_rate", -1.0)]),
        ({"user": "a"}, [("producer_byte_rate", 1.5)]),
        ({"user": "a"}, [("request_percentage", float("nan"))]),
        ({"user": "a"}, [("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)]),
    ],
)
async def test_invalid_client_quota_is_refused_with_invalid_request(
    entity: Any, ops: Any, tmp_path: Path
) -> None:
    def work(wire: Wire) -> None:
        refused = altered(wire, entity, *ops)
        assert refused["error_code"] == INVALID_REQUEST
        assert refused["error_message"]
        assert found(described(wire)) == []

    async with serving(tmp_path) as broker:
        await asked(broker, work)


async def test_removal_of_an_unknown_quota_key_succeeds(tmp_path: Path) -> None:
    """``alterClientQuotaEntity`` in Kafka checks a key only when the request sets a value."""

    def work(wire: Wire) -> None:
        rate = ("producer_byte_rate", 5.0)
        alone = altered(wire, {"user": "a"}, ("nonsense", None), ("connection_creation_rate", None))
        assert alone["error_code"] == NONE
        assert found(described(wire)) == []
        assert altered(wire, {"user": "a"}, rate, ("nonsense", None))["error_code"] == NONE
        assert found(described(wire)) == [({"user": "a"}, dict([rate]))]

    async with serving(tmp_path) as broker:
        await asked(broker, work)


async def test_alter_quotas_refuses_duplicate_entities_and_resolves_host_names(
    tmp_path: Path,
) -> None:
    def work(wire: Wire) -> None:
        entry = {
            "entity": [{"entity_type": "user", "entity_name": "a"}],
            "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
        }
        both = wire.call("AlterClientQuotas", 1, {"entries": [entry] * 2})["entries"]
        assert [each["error_code"] for each in both] == [INVALID_REQUEST] * 2
        altered(wire, {"ip": "localhost"}, ("connection_creation_rate", 9.0))
        ((entity, _),) = found(described(wire))
        assert entity["ip"] in ("127.0.0.1", "::1")

    async with serving(tmp_path) as broker:
        await asked(broker, work)


@pytest.mark.parametrize(
    ("components", "error_code"),
    [
        ([("", ANY, None)], INVALID_REQUEST),
        ([("user", ANY, None), ("user", EXACT, "a")], INVALID_REQUEST),
        ([("user", 7, None)], INVALID_REQUEST),
        ([("user", EXACT, None)], INVALID_REQUEST),
        ([("user", DEFAULT, "a")], INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], INVALID_REQUEST),
        ([("group", ANY, None)], UNSUPPORTED_VERSION),
    ],
)
async def test_invalid_filter_of_describe_client_quotas_is_refused(
    components: Any, error_code: int, tmp_path: Path
) -> None:
    def work(wire: Wire) -> None:
        answer = described(wire, *components)
        assert (answer["error_code"], answer["entries"]) == (error_code, None)
        assert answer["error_message"]

    async with serving(tmp_path) as broker:
        await asked(broker, work)


async def test_quota_changes_are_reported_to_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(Audit, "changed_all", lambda _, connection, *of: told.append(of))
    rate, bad = ("producer_byte_rate", 1024.0), ("producer_byte_rate", 0.5)
    async with serving(tmp_path) as broker:
        await asked(broker, lambda wire: altered(wire, {"user": "billing"}, rate))
        await asked(broker, lambda wire: altered(wire, {"user": "billing"}, bad))
        await asked(broker, lambda wire: altered(wire, {"user": "x"}, rate, validate_only=True))
    assert told == [
        ("client quotas changed", ["user billing"]),
        ("client quotas changed", []),
        ("client quotas changed", []),
    ]


async def test_refused_quotas_do_not_create_reference_cycles(tmp_path: Path) -> None:
    """Objects in reference cycles stay in memory until Python collects the whole heap, which
    happens rarely."""

    def work(wire: Wire) -> None:
        entry = {"entity": [{"entity_type": "group", "entity_name": "g"}], "ops": []}
        value = {"entries": [entry] * 1000, "validate_only": False}
        codes = {each["error_code"] for each in wire.call("AlterClientQuotas", 1, value)["entries"]}
        assert codes == {INVALID_REQUEST}

    async with serving(tmp_path) as broker:
        gc.disable()
        try:
            await asked(broker, work)
            left = sum(isinstance(each, Refused) for each in gc.get_objects())
        finally:
            gc.enable()
    assert left == 0
