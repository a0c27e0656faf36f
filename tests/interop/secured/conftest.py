"""A secured broker under test and a secured Apache Kafka, which all tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import java
from tests.brokers import KIND
from tests.interop.secured.brokers import Secured, secured_kafka, secured_muster
from tests.interop.secured.least_rights import READER, WRITER, prepare
from tests.interop.secured.table.whole import CELLS

USERS = [WRITER, READER, *(cell.user for cell in CELLS)]


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Yields Apache Kafka 4.3.1, even if the broker under test is Kafka too."""
    with secured_kafka(tmp_path_factory.mktemp("kafka"), USERS) as shared:
        prepare(shared)
        yield shared


@pytest.fixture(scope="session")
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """Yields the secured broker under test."""
    if KIND == "kafka":
        yield request.getfixturevalue("kafka")
        return
    with secured_muster(tmp_path_factory.mktemp("muster"), USERS) as shared:
        prepare(shared)
        yield shared


@pytest.fixture(scope="session")
def secured_for_old_clients(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """Yields a secured broker that also serves clients of 2017. If the tests run on Muster, it is
    the broker under test."""
    if KIND == "muster":
        yield request.getfixturevalue("secured")
        return
    folder = tmp_path_factory.mktemp("old")
    version = java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS
    with secured_kafka(folder, USERS, version=version) as shared:
        prepare(shared)
        yield shared
