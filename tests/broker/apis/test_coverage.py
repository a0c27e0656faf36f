from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.tables.standalone import SERVED
from broker.topics.registry import Features
from tests.broker.config.served import serving
from tests.broker.edge import EdgeBroker
from tools import make_coverage

APIS = Path(make_coverage.__file__).parents[1] / "broker" / "apis"


def test_coverage_page_lists_the_apis_of_the_dispatch_table() -> None:
    assert make_coverage.PAGE.read_text() == make_coverage.page(), "run make coverage"


def test_every_api_definition_in_broker_apis_is_in_the_api_table() -> None:
    rows = [
        import_module(".".join(("broker", "apis", *path.relative_to(APIS).with_suffix("").parts)))
        for path in APIS.rglob("*.py")
        if "\nSERVED = " in path.read_text() and path.parent.name != "tables"
    ]

    served = {id(row) for table in (SERVED, SERVED_IN_CLUSTER) for row in table.values()}
    assert served == {id(module.SERVED) for module in rows}
    assert list(SERVED) == sorted(SERVED)
    assert list(SERVED_IN_CLUSTER) == sorted(SERVED_IN_CLUSTER)
    assert len(served) == len(rows)


def test_each_module_directly_in_broker_apis_defines_an_api() -> None:
    modules = [path for path in APIS.glob("*.py") if path.stem != "__init__"]

    assert [path.name for path in modules if "\nSERVED = " not in path.read_text()] == []


def test_each_version_in_the_api_table_is_defined_by_the_protocol() -> None:
    for row in SERVED.values():
        assert row.min_version in row.api.versions
        assert row.max_version in row.api.versions


async def test_each_version_of_api_versions_returns_all_supported_apis_and_version_ranges(
    tmp_path: Path,
) -> None:
    expected = [(key, row.min_version, row.max_version) for key, row in SERVED.items()]
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()
        for version in range(5):
            reply = await client.call(
                18, version, client_software_name="tester", client_software_version="1.0"
            )

            assert reply["error_code"] == 0
            rows = [(k["api_key"], k["min_version"], k["max_version"]) for k in reply["api_keys"]]
            assert rows == expected


@pytest.mark.proves("transactions 32")
@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("level", range(3))
async def test_api_versions_returns_the_level_of_transaction_version(
    tmp_path: Path, level: int, version: int
) -> None:
    """The expected responses are those of Kafka 4.3.1. Only version 4 lists supported features
    whose minimum is 0 (KAFKA-17011). No version lists a finalized feature whose level is 0."""
    async with EdgeBroker(tmp_path) as broker:
        broker.registry.features = Features(7, {"transaction.version": level})
        client = await broker.client()
        reply = await client.call(
            18, version, client_software_name="tester", client_software_version="1.0"
        )

    told = [{"name": "transaction.version", "max_version_level": level, "min_version_level": level}]
    supported = [
        {"name": "group.version", "min_version": 0, "max_version": 1},
        {"name": "share.version", "min_version": 0, "max_version": 1},
        {"name": "streams.version", "min_version": 0, "max_version": 1},
        {"name": "transaction.version", "min_version": 0, "max_version": 2},
    ]
    assert reply["finalized_features"] == (told if level and version >= 3 else [])
    assert reply["supported_features"] == (supported if version == 4 else [])
    assert reply["finalized_features_epoch"] == (7 if version >= 3 else -1)


@pytest.mark.proves("transactions 32")
async def test_api_versions_returns_the_configured_transaction_version_as_finalized(
    tmp_path: Path,
) -> None:
    for level, epoch in ((2, 1), (0, 2)):
        setting = {"transaction.version": str(level)}
        async with serving(tmp_path, setting) as served:
            reply = await served.client.call(
                18, 4, client_software_name="tester", client_software_version="1.0"
            )

        levels = {each["name"]: each["max_version_level"] for each in reply["finalized_features"]}
        expected = {"group.version": 1, "share.version": 1, "streams.version": 1}
        expected |= {"transaction.version": level} if level else {}
        assert (levels, reply["finalized_features_epoch"]) == (expected, epoch)


async def test_invalid_client_software_name_is_refused(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()
        for name, version, code in (
            ("apache-kafka-java", "4.3.1", 0),
            ("a", "1", 0),
            ("", "1", 42),
            ("-java", "1", 42),
            ("java-", "1", 42),
            ("ja va", "1", 42),
            ("java", "", 42),
            ("java", "1\n", 42),
        ):
            for api_version in (3, 4):
                reply = await client.call(
                    18,
                    api_version,
                    client_software_name=name,
                    client_software_version=version,
                )
                assert reply["error_code"] == code, (name, version)
