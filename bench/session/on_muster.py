"""The fixtures with which the benchmark session runs on Muster. They use the fixture `muster`,
which yields an empty broker to each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.session import figures
from bench.throughput import cpu_s
from musterd.testing import Muster


class Served:
    orders = "orders"
    group = "billing"

    def __init__(self, muster: Muster) -> None:
        self.bootstrap_servers = muster.bootstrap_servers
        self.create_topic = muster.create_topic


@pytest.fixture
def broker(muster: Muster) -> Iterator[Served]:
    yield Served(muster)
    figures.write({"broker": cpu_s(muster.pid)})
