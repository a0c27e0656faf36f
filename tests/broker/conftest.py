"""Runs each coroutine test in a new uvloop event loop, as the broker does. `wire` is a connection
to the broker process that all tests share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

import pytest
import uvloop

from tests.brokers import Broker
from tests.wire import Wire

TEST_WITHIN_S = 240


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test until it ends or exceeds its time limit. The limit is TEST_WITHIN_S or
    that of a `timeout` mark."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = inspect.signature(test).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    own = pyfuncitem.get_closest_marker("timeout")
    within_s = TEST_WITHIN_S if own is None else own.args[0]

    async def run() -> None:
        await asyncio.wait_for(test(**arguments), within_s)

    uvloop.run(run())
    return True


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.port) as connection:
        yield connection
