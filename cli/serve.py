"""`muster serve`: runs a broker in this process until SIGTERM or SIGINT; SIGHUP reloads settings.

An error at start is one sentence on standard error and exit code 1 (2 for wrong use). When all
listeners are open, their addresses are printed on standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cli.version import VERSION

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.config.config import BadConfig, Config
    from broker.config.config_table import Value
    from broker.time import Time

FAILED = 1
USAGE = 2
INTERRUPTED = 130

_EPILOG = """settings are Kafka's broker properties; see docs/operate/configuration.md. They are
read from --config, then the environment (MUSTER_LOG_RETENTION_MS is log.retention.ms), then
--set, then the other options; the last one wins. For compose files of Kafka images use --kafka-
env."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"muster serve: {message}; see muster serve --help", file=sys.stderr)
        raise SystemExit(USAGE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="muster serve",
        description="Run a Kafka broker on one data directory.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="address for clients; port 0 chooses a free port"
    )
    parser.add_argument("--data", metavar="DIR", help="the data directory (default ./data)")
    parser.add_argument("--config", metavar="FILE", type=Path, help="a server.properties")
    parser.add_argument(
        "--kafka-env",
        action="store_true",
        help="also read the variables of Kafka container images: KAFKA_LOG_RETENTION_MS or"
        " KAFKA_CFG_LOG_RETENTION_MS",
    )
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="one setting; repeatable"
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT|off",
        help="address of the page, /metrics and /healthz (default 127.0.0.1:9644)",
    )
    parser.add_argument(
        "--test",
        action="store_true",
        help="run a broker for tests: free ports, data in memory unless --data is set, HTTP"
        " requests under /test, and one line of JSON on standard output",
    )
    parser.add_argument(
        "--brokers", metavar="N", type=int, default=0,
        help="with --test: run a cluster of N brokers in this process, with a registry in memory"
        " in place of ZooKeeper",
    )  # fmt: skip
    parser.add_argument(
        "--with-stdin", action="store_true", help="with --test: exit when standard input is closed"
    )
    parser.add_argument(
        "--clock-ahead", metavar="MS", type=int, default=0,
        help="with --test: start the clock this many milliseconds ahead of the system clock",
    )  # fmt: skip
    parser.add_argument(
        "--clock-at", metavar="MS", type=int,
        help="with --test: freeze the clock at this time, in milliseconds since 1970",
    )  # fmt: skip
    return parser


def serve(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    # Garbage collection would make imports a third slower, and imported objects are never freed.
    gc.disable()
    _import_structlog()
    from broker.loop.allocator import keep_large_buffers
    from broker.loop.log_writer import standard_streams
    from broker.time import Time

    keep_large_buffers()
    time = Time()
    with standard_streams(time):
        try:
            return _serve_with(options, time)
        except Exception:  # noqa: BLE001 - Python would print it too, but on a stream that can block
            traceback.print_exc()
            return FAILED


def _serve_with(options: argparse.Namespace, time: Time) -> int:
    if options.test:
        return _serve_test(options)
    from broker.config.config import BadConfig, WrongUse
    from broker.loop.log_lines import configure

    try:
        if options.with_stdin:
            raise WrongUse("--with-stdin needs --test")
        if options.brokers:
            raise WrongUse("--brokers needs --test")
        if options.clock_ahead or options.clock_at is not None:
            raise WrongUse("--clock-ahead and --clock-at need --test")
        config = _config(options)
        configure(time, config["log.format"], config["log.level"])
        return _run(config, time, lambda: _config(options), kafka_env=options.kafka_env)
    except WrongUse as error:
        return _complain(str(error), USAGE)
    except BadConfig as error:
        return _complain(_all_faults(error))
    except KeyboardInterrupt:  # before the broker's own signal handlers are installed
        return INTERRUPTED


def _serve_test(options: argparse.Namespace) -> int:
    from broker.config.config import BadConfig, WrongUse
    from broker.test_mode.serving import CannotServe, Options, keep_lines, serve_test

    lines = keep_lines()
    try:
        config = _config_of_test(options)
        _refuse_unknown(config, options.set)
        _raise_file_limit()
        asked = Options(
            VERSION,
            options.data,
            options.with_stdin,
            options.clock_ahead,
            options.clock_at,
            options.brokers,
        )
        serve_test(config, asked, lines, _loop_factory())
    except WrongUse as error:
        return _complain(str(error), USAGE)
    except BadConfig as error:
        return _complain(_all_faults(error))
    except CannotServe as error:
        return _complain(str(error))
    except KeyboardInterrupt:  # before the broker's own signal handlers are installed
        return INTERRUPTED
    return 0


def _config_of_test(options: argparse.Namespace) -> Config:
    """Returns the settings of a broker or cluster in test mode. Raises WrongUse for settings that
    test mode does not support."""
    from broker.config.config import WrongUse
    from broker.test_mode.settings import DEFAULTS, check

    if not options.brokers:
        config = _config(options, DEFAULTS)
        check(config)
        return config
    from broker.test_mode.cluster import settings

    if not 1 <= options.brokers <= settings.BROKERS_MAX:
        raise WrongUse(f"--brokers {options.brokers}: choose 1 to {settings.BROKERS_MAX}")
    config = _config(options, settings.cluster_defaults(options.brokers))
    check(config)
    settings.check(config, options.data)
    return config


def _refuse_unknown(config: Config, sets: Sequence[str]) -> None:
    """Raises WrongUse for unknown settings of --set, because tests do not read warnings."""
    from broker.config.config import WrongUse
    from broker.config.unknown_names import hint

    written = {pair.partition("=")[0].strip() for pair in sets}
    for name in sorted(written.intersection(config.unknown)):
        raise WrongUse("; ".join(filter(None, [f"unknown setting {name}", hint(name)])))


def _import_structlog() -> None:
    """Imports structlog without rich, which structlog would import for coloured tracebacks.
    Importing rich takes 0.2 s, half of a broker's start, and a broker does not need it."""
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]


def _complain(sentence: str, code: int = FAILED) -> int:
    print(f"muster serve: {sentence}", file=sys.stderr)
    return code


def _all_faults(error: BadConfig) -> str:
    """Returns the faults of a configuration as text: a single fault as a sentence, or several
    faults with one line each."""
    if len(error.faults) < 2:
        return str(error)
    lines = [fault.sentence for fault in error.faults]
    return "\n  ".join([f"{len(lines)} problems in the settings:", *lines])


def _config(options: argparse.Namespace, preset: Mapping[str, Value] = {}) -> Config:
    from broker.config.config import WrongUse
    from broker.config.listeners import parse_host_and_port
    from broker.config.sources import load

    flags = {}
    if options.listen is not None:
        try:
            host, port = parse_host_and_port(options.listen)
        except ValueError as error:
            raise WrongUse(f"--listen: {error}") from None
        shown = f"[{host}]" if ":" in host else host
        flags["listeners"] = f"PLAINTEXT://{shown}:{port}"
    if options.data is not None:
        flags["log.dirs"] = options.data
    if options.http is not None:
        flags["http.listener"] = options.http
    return load(options.config, os.environ, options.set, flags, preset, kafka_env=options.kafka_env)


def _run(config: Config, time: Time, reread: Callable[[], Config], *, kafka_env: bool) -> int:
    from broker.broker import BadDirectory, Broker, CannotListen, CorruptLog, DirectoryLocked
    from broker.config.config import BadConfig

    _raise_file_limit()
    broker = Broker(config, time=time)
    try:
        broker.open()
    except (BadConfig, BadDirectory, CannotListen, CorruptLog, DirectoryLocked) as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.filename or broker.directory} can't be used: {error.strerror}")
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(broker, reread, kafka_env=kafka_env))
    finally:
        broker.release()


def _raise_file_limit() -> None:
    """Raises the limit of open files to its maximum, because every partition has open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not available for this platform; asyncio's own loop works too
        return None
    return uvloop.new_event_loop


async def _serve(broker: Broker, reread: Callable[[], Config], *, kafka_env: bool) -> int:
    from broker.broker import BadDirectory, CannotJoin, CannotListen, CorruptLog
    from broker.config.config import BadConfig
    from broker.loop.garbage import collect_seldom

    collect_seldom(broker.time, broker.watchdog)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, broker.stopped.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: broker.spawn(_reload(broker, reread)))
    problem = None
    try:
        await broker.join()
    except (BadConfig, BadDirectory, CannotJoin, CorruptLog) as error:
        return _complain(str(error))
    try:
        await broker.start()
        _report_settings(broker.config, kafka_env=kafka_env)
        print(_ready_lines(broker), flush=True)
        broker.start_http()
        if not broker.loading:  # else the end of loading does the same
            # A collection would block the loop for 0.1 s and free little.
            gc.freeze()
            gc.enable()
        await broker.stopped.wait()
    except (CannotJoin, CannotListen) as error:
        problem = str(error)
    await broker.stop()
    problem = problem or broker.fatal
    return _complain(problem) if problem else 0


async def _reload(broker: Broker, reread: Callable[[], Config]) -> None:
    """Handles SIGHUP: reads the settings again, and applies those that may change at run time."""
    import structlog

    from broker.config.config import BadConfig

    try:
        fresh = reread()
    except BadConfig as error:
        structlog.get_logger(__name__).error("configs not reloaded", reason=str(error))
        return
    await broker.reload(fresh)


def shown_directory(directory: str) -> str:
    """Returns the directory as a relative path if it is below the current directory, else as an
    absolute path."""
    from_here = os.path.relpath(directory)
    is_below = from_here.partition(os.sep)[0] not in (os.curdir, os.pardir)
    return os.path.join(os.curdir, from_here) if is_below else os.path.abspath(directory)


def _ready_lines(broker: Broker) -> str:
    from broker.config.listeners import Endpoint
    from protocol.compiled import IN_USE

    where = ", ".join(Endpoint("", host, port).address for host, port in broker.sockets.addresses())
    ready = (
        f"muster {VERSION} accepts connections on {where},"
        f" data in {shown_directory(broker.directory)}, cluster {broker.registry.cluster_id},"
        f" codecs: {IN_USE}"
    )
    http = broker.sockets.http_address()
    scheme = "https" if broker.config["http.security.protocol"] == "SSL" else "http"
    return f"{ready}\nthe page, /metrics and /healthz are on {scheme}://{http}" if http else ready


def _report_settings(config: Config, *, kafka_env: bool) -> None:
    """Logs settings that may not have the effect that the user expects."""
    import structlog

    from broker.config.sources import ignored_kafka_variables
    from broker.config.unknown_names import hint
    from broker.config.variables import of_services

    logger = structlog.get_logger(__name__)
    if config.unknown:
        hints = {name: text for name in config.unknown if (text := hint(name))}
        advice = "; ".join(f"{name}: {text}" for name, text in hints.items())
        logger.warning(
            "unknown settings ignored",
            settings=", ".join(config.unknown),
            **({"advice": advice} if advice else {}),
        )
    for name, instead in config.not_followed.items():
        logger.warning("setting not followed", setting=name, instead=instead)
    if not kafka_env and (found := ignored_kafka_variables(os.environ)):
        logger.warning(
            "Kafka image variables ignored",
            variables=", ".join(found),
            advice="start with --kafka-env to read them",
        )
    if found := of_services(os.environ):
        logger.debug("service variables ignored", variables=", ".join(found))
