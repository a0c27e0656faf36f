"""A test broker in the test's event loop, for tests that its HTTP verbs cannot express."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from broker.config.sources import load
from broker.test_mode.addresses import Addresses
from broker.test_mode.lines import KeptLines
from broker.test_mode.settings import DEFAULTS
from broker.test_mode.tested_broker import TestedBroker
from tests.wire import Wire

T = TypeVar("T")


@asynccontextmanager
async def running(directory: str | None = None, **settings: str) -> AsyncIterator[TestedBroker]:
    """A started test broker; a double underscore in the name of a setting means a dot."""
    sets = [f"{name.replace('__', '.')}={value}" for name, value in settings.items()]
    config = load(None, {}, sets, {}, DEFAULTS)
    tested = TestedBroker(config, Addresses(config), directory, KeptLines(io.StringIO()))
    await tested.start()
    try:
        yield tested
    finally:
        await tested.end()


async def asked(tested: TestedBroker, work: Callable[[Wire], T]) -> T:
    """Runs ``work`` with a connection to the broker in a thread and returns its result."""

    def run() -> T:
        with Wire(tested.addresses.listeners[0].port) as wire:
            return work(wire)

    return await asyncio.to_thread(run)
