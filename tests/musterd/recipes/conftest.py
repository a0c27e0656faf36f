"""Fixtures of the recipes: a worker per client, with orders and members of `billing`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from musterd.testing import Muster
from tests.musterd.recipes.driven import CLIENTS, Member, Pool, Worker, workers

JAVA = pytest.mark.interop
SESSION_MS = 50_000
"""Less than the minute by which tests move the clock, and more than a busy machine takes."""


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """One worker per client, for all tests of a test process."""
    with workers() as made:
        yield made


@pytest.fixture(
    params=[pytest.param(each, marks=JAVA if each == "java" else ()) for each in CLIENTS]
)
def client(request: pytest.FixtureRequest) -> str:
    """Each of the four clients."""
    name: str = request.param
    return name


class Shop:
    """A topic of orders on an empty broker, and workers of one client that bill them."""

    def __init__(self, muster: Muster, pool: Pool, client: str) -> None:
        self.muster = muster
        self.pool = pool
        self.client = client

    def orders(self, *values: str, within_s: float = 30.0) -> int:
        """Produce orders; returns the number of acknowledged ones of all that were produced so."""
        acknowledged: int = self._worker("first").ask(
            "produce",
            bootstrap=self.muster.bootstrap_servers,
            topic="orders",
            values=values,
            within_s=within_s,
        )
        return acknowledged

    def member(
        self,
        name: str,
        *,
        careful: bool = True,
        batch: int = 1,
        heartbeat_ms: int = 50,
        reset: str = "earliest",
        role: str = "first",
    ) -> Member:
        """One more member of `billing`; another `role` means another process."""
        asked: dict[str, Any] = {
            "careful": careful,
            "batch": batch,
            "heartbeat_ms": heartbeat_ms,
            "session_ms": SESSION_MS,
            "reset": reset,
        }
        return Member(
            self._worker(role),
            name,
            bootstrap=self.muster.bootstrap_servers,
            group="billing",
            topic="orders",
            **asked,
        )

    def _worker(self, role: str) -> Worker:
        return self.pool.worker(self.client, role)

    def close(self) -> None:
        self.pool.end(self.client)


@pytest.fixture
def shop(muster: Muster, pool: Pool, client: str) -> Iterator[Shop]:
    """Orders in one partition, and workers of each client."""
    muster.create_topics("orders", "orders.dead", retention_ms=-1)
    made = Shop(muster, pool, client)
    yield made
    made.close()
