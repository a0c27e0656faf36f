"""Fixtures of the recipe tests: the topic `orders`, and members of the group `billing` that run in
child processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import pytest

from musterd.testing import Muster, MusterCluster
from tests.musterd.recipes.driven import CLIENTS, Member, Pool, Producer, Worker, workers

JAVA = pytest.mark.interop
SESSION_MS = 50_000
"""The session timeout of members in ms. Tests advance the clock by a minute to expire a session, so
the timeout is shorter. It is longer than the delays of a busy machine."""


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Yields the worker processes that all tests of a pytest process share."""
    with workers() as made:
        yield made


@pytest.fixture(
    params=[pytest.param(each, marks=JAVA if each == "java" else ()) for each in CLIENTS]
)
def client(request: pytest.FixtureRequest) -> str:
    """Returns the name of a client library. Each test runs once per library."""
    name: str = request.param
    return name


Started = TypeVar("Started", Muster, MusterCluster)
"""A broker or a cluster."""


class Shop(Generic[Started]):
    """An empty broker or cluster with the topic `orders`, and the workers of one client library."""

    def __init__(self, muster: Started, pool: Pool, client: str) -> None:
        self.muster = muster
        self.pool = pool
        self.client = client

    def orders(self, *values: str, within_s: float = 30.0) -> int:
        """Produces orders, and returns the number of orders that were acknowledged during this
        call."""
        acknowledged: int = self._worker("first").ask(
            "produce",
            bootstrap=self.muster.bootstrap_servers,
            topic="orders",
            values=values,
            within_s=within_s,
        )
        return acknowledged

    def producer(self, name: str, **asked: Any) -> Producer:
        """Starts a producer with the settings of `workers.worker.Producer`."""
        bootstrap = self.muster.bootstrap_servers
        return Producer(self._worker("first"), name, bootstrap=bootstrap, **asked)

    def member(
        self,
        name: str,
        *,
        group: str = "billing",
        careful: bool = True,
        batch: int = 1,
        heartbeat_ms: int = 50,
        reset: str = "earliest",
        role: str = "first",
        **more: str,
    ) -> Member:
        """Starts a member of a group. Each ``role`` has a process of its own.

        ``more`` may have `isolation`, the isolation level.
        """
        asked: dict[str, Any] = {
            **more,
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
            group=group,
            topic="orders",
            **asked,
        )

    def _worker(self, role: str) -> Worker:
        return self.pool.worker(self.client, role)

    def close(self) -> None:
        self.pool.end(self.client)


@pytest.fixture
def shop(muster: Muster, pool: Pool, client: str) -> Iterator[Shop[Muster]]:
    """A shop whose topic `orders` has one partition."""
    muster.create_topics("orders", "orders.dead", retention_ms=-1)
    made = Shop(muster, pool, client)
    yield made
    made.close()
