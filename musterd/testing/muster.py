"""`Muster`: a broker in its own process, for the length of a test."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from musterd.testing import clock
from musterd.testing.errors import BrokerDied, MusterError
from musterd.testing.faults import FaultVerbs
from musterd.testing.happened import HappenedVerbs
from musterd.testing.http import Gone, Http
from musterd.testing.process import LOOPBACK, Child, Lines, Ready, hold
from musterd.testing.time import BrokerTime

Json = dict[str, Any]


class Muster(FaultVerbs, HappenedVerbs):
    """A Kafka broker on a free port of this machine.

    The broker keeps its data in memory, or in the directory `data`, which is not deleted.
    `settings` are Kafka's broker properties, such as `{"num.partitions": 3}`. `port` and
    `http_port` are 0 to choose free ports. A start that takes longer than `start_timeout_s` seconds
    raises `BrokerDied`.

    >>> with Muster() as broker:
    ...     broker.create_topic("orders", partitions=3)
    ...     produce(broker, "orders", "one", "two")
    ...     sorted(record.value for record in broker.records("orders"))
    [b'one', b'two']

    The broker's process ends with the `with` block, with `close`, or with the test's process.
    """

    def __init__(
        self, *, data: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None, port: int = 0, http_port: int = 0,
        start_timeout_s: float = 30.0,
    ) -> None:  # fmt: skip
        self.time = BrokerTime(self._tell, self._look)
        """The broker's clocks: `advance`, `freeze`, `run`, `now`, `follow`."""
        self._data = None if data is None else Path(data).absolute()
        self._settings = {name: _value(value) for name, value in (settings or {}).items()}
        self._asked_ports = port, http_port
        self._start_timeout_s = start_timeout_s
        self._lines = Lines()
        self._child: Child | None = None
        self._ready: Ready | None = None
        self._http: Http | None = None
        self._finalizer: weakref.finalize[..., Muster] | None = None
        self._killed: Killed | None = None

    # Addresses

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, HOST:PORT. The address stays the same until `close`."""
        return self._started().bootstrap_servers

    @property
    def http(self) -> str:
        """The URL of the broker's page, `/metrics`, `/api` and `/test`, such as `http://HOST:PORT`."""
        return self._started().http

    @property
    def pid(self) -> int:
        """The broker's process id."""
        return self._started().pid

    @property
    def lines(self) -> list[str]:
        """The last 1,000 lines of the broker's log, newest last."""
        return self._lines.since()

    # Life cycle

    def start(self) -> None:
        """Start the broker, also after `stop` or `kill`; return when it accepts connections."""
        if self._child is None or self._killed is not None:
            self._start_process()
        else:
            self._ask("POST", "/test/start")
            self.time._look_again()

    def stop(self) -> None:
        """Stop the broker as SIGTERM does. The broker keeps its data; connections are refused until
        `restart`."""
        self._ask("POST", "/test/stop")

    def kill(self) -> None:
        """Kill the broker as SIGKILL does, without a flush; connections are refused until
        `restart`.

        Data in memory are kept, as the operating system keeps the files of a killed process. With
        `data` the process is killed, and `restart` starts another process.
        """
        if self._data is None:
            self._ask("POST", "/test/kill")
            return
        clocks = self._ask("GET", "/test/time")
        child, ready = self._child, self._started()
        assert child is not None, "a broker that responds has a process"
        child.kill()
        self._killed = Killed(ready, clocks)

    def restart(self) -> None:
        """Stop the broker if it runs, and start it with the same addresses, data and time."""
        if self._killed is None:
            self.stop()
        self.start()

    def reset(self) -> None:
        """Empty the broker within milliseconds; the broker keeps its addresses.

        Delete topics, groups, the journal and recorded requests, end all faults, and set the clocks
        to the system's time. A broker that has died or is not started is started.
        """
        self.time._end_following()
        if self._is_there():
            with suppress(BrokerDied):
                self._tell("POST", "/test/reset")
                return
        self._start_process()
        if self._data is not None:
            self._tell("POST", "/test/reset")

    def close(self) -> None:
        """End the broker's process. Data in memory are lost."""
        self.time._end_following()
        self._end_process()
        if self._killed is not None:
            self._killed.let_go()
        self._killed = self._ready = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    # Topics

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None,
        **more: object,
    ) -> None:  # fmt: skip
        """Create a topic; return when it can be used.

        `configs` and keywords are Kafka's topic configs: `retention_ms=1000` is `retention.ms`.
        """
        self._create([name], partitions, configs, more)

    def create_topics(
        self, *names: str, partitions: int = 1, configs: Mapping[str, object] | None = None,
        **more: object,
    ) -> None:  # fmt: skip
        """Create topics with the same partitions and configs; see `create_topic`."""
        self._create(names, partitions, configs, more)

    def delete(self, *names: str) -> None:
        """Delete topics, with their records and committed offsets; return when they are deleted."""
        self._ask("POST", "/test/topics/delete", names=list(names))

    def _create(
        self, names: Iterable[str], partitions: int, configs: Mapping[str, object] | None,
        more: Mapping[str, object],
    ) -> None:  # fmt: skip
        given = {**(configs or {}), **{key.replace("_", "."): more[key] for key in more}}
        wanted = {key: _value(value) for key, value in given.items()}
        topics = [{"name": each, "partitions": partitions, "configs": wanted} for each in names]
        self._ask("POST", "/test/topics", topics=topics)

    # Requests

    def _ask(self, method: str, path: str, **arguments: object) -> Json:
        self.time._keep_up()
        return self._tell(method, path, **arguments)

    def _tell(self, method: str, path: str, **arguments: object) -> Json:
        """Send a request without reading the test's clock."""
        if self._child is None or self._http is None:
            raise MusterError(
                "the broker is not started: use `with Muster() as broker:`, or call start()"
            )
        if self._killed is not None:
            raise MusterError("the broker was killed: call restart()")
        try:
            return self._http.ask(method, path, arguments)
        except Gone as gone:
            if self._child.ends_soon():
                raise self._child.died("the broker died") from None
            raise MusterError(f"the broker did not respond to {path}: {gone}") from gone

    def _look(self) -> clock.Look:
        return clock.look()

    def _is_there(self) -> bool:
        return self._child is not None and self._killed is None and self._child.is_running

    def _started(self) -> Ready:
        if self._ready is None:
            raise MusterError(
                "the broker is not started and has no address: use `with Muster() as broker:`"
            )
        return self._ready

    def _start_process(self) -> None:
        """Start the first process, or a replacement with the same addresses and time."""
        killed, before = self._killed, self._ready
        self._end_process()
        ports = self._asked_ports if before is None else _ports(before)
        arguments = [f"--listen={LOOPBACK}:{ports[0]}", f"--http={LOOPBACK}:{ports[1]}"]
        if self._data is not None:
            arguments.append(f"--data={self._data}")
        if killed is not None:
            arguments.append(killed.clock_option)
        arguments += [f"--set={name}={value}" for name, value in self._settings.items()]
        child = Child(arguments, self._start_timeout_s, self._lines)
        self._child, self._finalizer = (
            child,
            weakref.finalize(self, child.end, gently=self._data is not None),
        )
        try:
            self._ready = child.ready()
        except BaseException:
            self._end_process()
            raise
        self._http = Http(self._ready.http)
        self._killed = None
        if killed is not None:
            killed.let_go()
            self.time._look_again()

    def _end_process(self) -> None:
        child, self._child = self._child, None
        http, self._http = self._http, None
        if http is not None:
            http.close()
        if self._finalizer is not None:
            self._finalizer.detach()
        if child is not None:
            child.end(gently=self._data is not None)

    def __repr__(self) -> str:
        where = "not started" if self._ready is None else self._ready.bootstrap_servers
        return f"<{type(self).__name__} {where}>"


class Killed:
    """The state of a killed process that the next process takes over: clocks and ports."""

    def __init__(self, ready: Ready, clocks: Json) -> None:
        self.clock_option = f"--clock-ahead={clocks['ahead_ms']}"
        """The option that sets the next process's clocks."""
        if clocks["is_frozen"]:
            self.clock_option = f"--clock-at={clocks['wall_ms']}"
        self._held = hold(_ports(ready))

    def let_go(self) -> None:
        """Release the ports, for the next process."""
        for each in self._held:
            each.close()


def _ports(ready: Ready) -> tuple[int, int]:
    kafka, http = (int(each.rpartition(":")[2]) for each in (ready.bootstrap_servers, ready.http))
    return kafka, http


def _value(value: object) -> str:
    """Return a value in the syntax of Kafka's properties."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(_value, value))
    return str(value)
