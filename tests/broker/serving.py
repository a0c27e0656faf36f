"""Runs a whole broker in the event loop of the test, so that a test can read and change the
broker's objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from broker.authorizer.authorizer import Authorizer
from broker.broker import Broker
from broker.config.sources import load
from broker.net.interpose import Interpose
from broker.time import Time
from broker.topics.cleaner.cleaning import Cleaner
from log.files.filesystem import FileSystem
from tests.broker.mock_time import IDLE_MS, MockTime
from tests.wire import Wire

T = TypeVar("T")

_CLIENTS = ThreadPoolExecutor(32)
"""Threads for clients only. A waiting client must not occupy a thread that the broker needs, such
as a thread for a flush."""


@asynccontextmanager
async def serving(
    directory: Path | str,
    settings: Mapping[str, str] | None = None,
    fs: FileSystem | None = None,
    time: Time | None = None,
    interpose: Interpose | None = None,
    new_cleaner: Callable[[], Cleaner] | None = None,
    authorizer: Authorizer | None = None,
) -> AsyncIterator[Broker]:
    """Yields a started broker on a free port of 127.0.0.1 and stops it cleanly at the end."""
    flags = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory)}
    sets = {"group.initial.rebalance.delay.ms": "0", "http.listener": "off", **(settings or {})}
    if isinstance(time, MockTime):
        sets.setdefault("connections.max.idle.ms", str(IDLE_MS))
    flags["listeners"] = sets.pop("listeners", flags["listeners"])
    config = load(None, {}, [f"{key}={value}" for key, value in sets.items()], flags)
    broker = Broker(config, fs=fs, time=time, interpose=interpose, new_cleaner=new_cleaner)
    if authorizer is not None:
        broker.secured.authorizer = authorizer
    try:
        broker.open()
        await broker.start()
        try:
            yield broker
        finally:
            await broker.stop()
    finally:
        broker.release()


async def asked(broker: Broker, work: Callable[[Wire], T], client_id: str = "wire") -> T:
    """Runs ``work`` in a thread with a connection to ``broker``, and returns the result of
    ``work``."""

    def run() -> T:
        with Wire(broker.sockets.addresses()[0][1], client_id=client_id) as wire:
            return work(wire)

    return await asyncio.get_running_loop().run_in_executor(_CLIENTS, run)


async def eventually(what: str, condition: Callable[[], Any], within_s: float = 60.0) -> None:
    """Runs the event loop until ``condition`` is true; fails after ``within_s`` seconds."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.005)
