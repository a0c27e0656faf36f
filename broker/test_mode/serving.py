"""`muster serve --test`: the process of a `TestedBroker`, from the binding of its addresses to its
end.

The process writes one line of JSON to standard output when the broker accepts connections.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from broker.broker import CannotListen
from broker.config.config import Config
from broker.config.listeners import parse_host_and_port
from broker.loop.garbage import THRESHOLDS
from broker.loop.log_lines import configure
from broker.test_mode.addresses import Addresses, bind_all
from broker.test_mode.clock.mock_time import MockTime
from broker.test_mode.cluster.settings import of_broker
from broker.test_mode.cluster.tested_cluster import TestedCluster
from broker.test_mode.lines import KeptLines
from broker.test_mode.run import drop_lines_of_the_dead
from broker.test_mode.tested_broker import CANNOT_START, TestedBroker
from broker.time import Time

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from broker.web.http import HttpServer

STDIN = 0


class CannotServe(Exception):
    """Raised if the broker can't start. The exception's text is one sentence."""


@dataclass(frozen=True)
class Options:
    """The command line options of `muster serve --test`."""

    version: str
    directory: str | None
    with_stdin: bool
    ahead_ms: int
    """The difference in ms between the broker's clock and the system's clock at the start."""
    stands_at_ms: int | None
    """The time in ms since 1970 at which the wall clock is frozen at the start; None if the clock
    runs."""
    brokers: int = 0
    """The number of brokers of a cluster; 0 for a standalone broker."""


def keep_lines() -> KeptLines:
    lines = KeptLines(sys.stderr)
    sys.stderr = lines
    return lines


def serve_test(
    config: Config,
    options: Options,
    lines: KeptLines,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None,
) -> None:
    """Serves until a signal arrives or standard input ends. Raises CannotServe."""
    time = MockTime()
    configure(time, config["log.format"], config["log.level"])
    structlog.configure(processors=[drop_lines_of_the_dead, *structlog.get_config()["processors"]])
    configs = {1: config}
    if options.brokers:
        configs = {each: of_broker(config, each) for each in range(1, options.brokers + 1)}
    try:
        addresses = bind_all(configs)
    except CannotListen as error:
        raise CannotServe(str(error)) from None
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(configs, options, addresses, lines, time))


async def _serve(
    configs: Mapping[int, Config],
    options: Options,
    addresses: Mapping[int, Addresses],
    lines: KeptLines,
    time: MockTime,
) -> None:
    gc.freeze()  # excludes imported modules; the objects of runs are still collected
    tested: TestedBroker | TestedCluster
    if options.brokers:
        tested = TestedCluster(configs, addresses, lines, time)
    else:
        tested = TestedBroker(configs[1], addresses[1], options.directory, lines, time)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, tested.ended.set)
    if options.with_stdin:
        _end_with_stdin(loop, tested.ended)
    await _set_clock(tested.time, options)
    try:
        await tested.start()
    except CANNOT_START as error:
        raise CannotServe(str(error)) from None
    except OSError as error:
        where = error.filename or options.directory
        raise CannotServe(f"{where} can't be used: {error.strerror}") from None
    for each in addresses.values():
        each.http_socket.listen()
    print(_ready(tested, addresses, options), flush=True)
    servers = await Time().in_thread(_http_servers, configs, tested)
    for server in servers:
        server.start()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    await tested.ended.wait()
    await tested.end()
    del servers


async def _set_clock(time: MockTime, options: Options) -> None:
    """Sets the clock to the time that the clock of an earlier process had. Must be called before
    the broker sets timers."""
    try:
        if options.stands_at_ms is not None:
            time.freeze()
            await time.set_wall(options.stands_at_ms)
        elif options.ahead_ms:
            await time.set_wall(time.now().wall_ms + options.ahead_ms)
    except ValueError as error:
        raise CannotServe(f"--clock-at, --clock-ahead: {error}") from None


def _http_servers(
    configs: Mapping[int, Config], tested: TestedBroker | TestedCluster
) -> list[HttpServer]:
    """Returns the HTTP server of each broker; the servers use the system's time. Called in a thread
    while the broker already serves clients, since the imports take longer than the broker's start.
    """
    from broker.test_mode.routes import Routes
    from broker.test_mode.verbs.table import OF_BROKER, OF_CLUSTER, VERBS

    if isinstance(tested, TestedBroker):
        return [_http_server(configs[1], tested, Routes(tested, (tested, VERBS)))]
    return [
        _http_server(
            configs[each], broker, Routes(broker, (tested, OF_CLUSTER), (broker, OF_BROKER))
        )
        for each, broker in tested.brokers.items()
    ]


def _http_server(config: Config, tested: TestedBroker, routes: ASGIApp) -> HttpServer:
    from broker.web.http import HttpServer
    from broker.web.http_connection import HttpLimits
    from broker.web.http_guard import Hosts

    host, _ = parse_host_and_port(config["http.listener"])
    return HttpServer(
        tested.addresses.http_socket,
        routes,
        Hosts(host, (), config["http.allowed.hosts"]),
        Time(),
        HttpLimits(request_s=_PATIENCE_S, idle_s=_PATIENCE_S),
        with_verbs=True,
    )


_PATIENCE_S = 24 * 3600
"""The number of seconds for which an HTTP connection may be idle. A test may wait
for hours between two requests of the test API."""


def _ready(
    tested: TestedBroker | TestedCluster, addresses: Mapping[int, Addresses], options: Options
) -> str:
    servers = [each.bootstrap_servers for each in addresses.values()]
    pages = [f"http://{each.http}" for each in addresses.values()]
    line = {
        "bootstrap_servers": ",".join(servers),
        "http": pages[0],
        "pid": os.getpid(),
        "version": options.version,
        "data": options.directory,
    }
    if isinstance(tested, TestedCluster):
        line["brokers"] = [
            {"broker": each, "bootstrap_servers": server, "http": page}
            for each, server, page in zip(addresses, servers, pages, strict=True)
        ]
    return json.dumps(line)


def _end_with_stdin(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Sets ``ended`` when standard input closes. Ignores data on standard input."""

    def readable() -> None:
        data = b""
        with suppress(OSError):
            data = os.read(STDIN, 1 << 16)
        if not data:
            loop.remove_reader(STDIN)
            ended.set()

    try:
        loop.add_reader(STDIN, readable)
    except OSError:  # the loop can't wait for a regular file
        raise CannotServe(
            "--with-stdin: standard input is a file; it must be a pipe, which closes when the"
            " parent process ends"
        ) from None
