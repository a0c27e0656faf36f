"""A broker in test mode in the event loop of the test, for tests that need more than the HTTP
verbs."""

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
    """Yields a started test broker. A double underscore in a keyword means a dot in the name of the
    setting."""
    sets = [f"{name.replace('__', '.')}={value}" for name, value in settings.items()]
    config = load(None, {}, sets, {}, DEFAULTS)
    tested = TestedBroker(config, Addresses(config), directory, KeptLines(io.StringIO()))
    await tested.start()
    try:
        yield tested
    finally:
        await tested.end()


async def asked(tested: TestedBroker, work: Callable[[Wire], T]) -> T:

    def run() -> T:
        with Wire(tested.addresses.listeners[0].port) as wire:
            return work(wire)

    return await asyncio.to_thread(run)
