"""Fixtures for tests that compare Muster with Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import Broker
from tests.wire import Wire


@pytest.fixture
def both(pair: tuple[Broker, Broker]) -> Iterator[tuple[Wire, Wire]]:
    """Yields a connection to each of the two brokers in the fixture ``pair`` of the test module."""
    with Wire(pair[0].port) as muster, Wire(pair[1].port) as kafka:
        yield muster, kafka
