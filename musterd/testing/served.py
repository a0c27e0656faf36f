"""`Served`, the base class of `Muster` and `MusterCluster`: the start of the process, its topics,
and requests to it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from musterd.testing import clock
from musterd.testing.errors import MusterError
from musterd.testing.happened import HappenedVerbs
from musterd.testing.http import Gone, Http
from musterd.testing.process import LOOPBACK, Child, Lines, Ready
from musterd.testing.time import BrokerTime

Json = dict[str, Any]


class Served(HappenedVerbs):
    """A process that serves `/test`; the base class of `Muster` and `MusterCluster`."""

    _USE = "with Muster() as broker:"

    def __init__(
        self, settings: Mapping[str, object] | None, ports: tuple[int, int],
        start_timeout_s: float, gently: bool = False,
    ) -> None:  # fmt: skip
        """`ports` are the port for clients and the port for HTTP. The process is ended with SIGTERM
        if `gently`, otherwise with SIGKILL."""
        self.time = BrokerTime(self._tell, self._look)
        """The broker's clocks: `advance`, `freeze`, `run`, `now`, `follow`."""
        self._settings = {name: value_text(value) for name, value in (settings or {}).items()}
        self._asked_ports = ports
        self._start_timeout_s = start_timeout_s
        self._gently = gently
        self._lines = Lines()
        self._child: Child | None = None
        self._ready: Ready | None = None
        self._http: Http | None = None
        self._finalizer: weakref.finalize[..., Served] | None = None

    # Addresses

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, HOST:PORT. The address stays the same until `close`."""
        return self._started().bootstrap_servers

    @property
    def http(self) -> str:
        """The URL of the broker's web page, such as `http://HOST:PORT`. `/metrics`, `/api` and
        `/test` are below it."""
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
        """Start the broker. Return when it accepts connections."""
        raise NotImplementedError

    def close(self) -> None:
        """End the broker's process. Data in memory is lost."""
        self.time._end_following()
        self._end_process()
        self._ready = None

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
        self, name: str, partitions: int | None = None,
        configs: Mapping[str, object] | None = None, **more: object,
    ) -> None:  # fmt: skip
        """Create a topic. Return when it can be used.

        Without `partitions`, the topic has as many partitions as the broker's `num.partitions`,
        which is 1 by default. `configs` and keywords are Kafka's topic configs: `retention_ms=1000`
        is `retention.ms`. The keyword `replication_factor` is the number of replicas, by default 3
        in a cluster.
        """
        self._create([name], partitions, configs, more)

    def create_topics(
        self, *names: str, partitions: int | None = None,
        configs: Mapping[str, object] | None = None, **more: object,
    ) -> None:  # fmt: skip
        """Create topics with the same partitions and configs; see `create_topic`."""
        self._create(names, partitions, configs, more)

    def delete(self, *names: str) -> None:
        """Delete topics, with their records and committed offsets. Return when they are deleted."""
        self._ask("POST", "/test/topics/delete", names=list(names))

    def _create(
        self, names: Iterable[str], partitions: int | None, configs: Mapping[str, object] | None,
        more: dict[str, object],
    ) -> None:  # fmt: skip
        replicas = more.pop("replication_factor", None)
        given = {**(configs or {}), **{key.replace("_", "."): more[key] for key in more}}
        wanted = {key: value_text(value) for key, value in given.items()}
        common = {"partitions": partitions, "replication_factor": replicas, "configs": wanted}
        topics = [{"name": each, **common} for each in names]
        self._ask("POST", "/test/topics", topics=topics)

    # Requests

    def _ask(self, method: str, path: str, **arguments: object) -> Json:
        self.time._keep_up()
        return self._tell(method, path, **arguments)

    def _tell(self, method: str, path: str, **arguments: object) -> Json:
        """Send a request to the broker, without first reading the test's clock."""
        if self._child is None or self._http is None:
            raise MusterError(f"the broker is not started: use `{self._USE}`, or call start()")
        try:
            return self._http.ask(method, path, arguments)
        except Gone as gone:
            if self._child.ends_soon():
                raise self._child.died("the broker died") from None
            raise MusterError(f"the broker did not respond to {path}: {gone}") from gone

    def _look(self) -> clock.Look:
        return clock.look()

    def _is_there(self) -> bool:
        return self._child is not None and self._child.is_running

    def _started(self) -> Ready:
        if self._ready is None:
            raise MusterError(f"the broker is not started and has no address: use `{self._USE}`")
        return self._ready

    def _launch(self, arguments: Sequence[str]) -> None:
        """Start a process. If there was a process before, use the same addresses."""
        before = self._ready
        self._end_process()
        clients, http = self._asked_ports if before is None else ports_of(before)
        given = [f"--listen={LOOPBACK}:{clients}", f"--http={LOOPBACK}:{http}", *arguments]
        given += [f"--set={name}={value}" for name, value in self._settings.items()]
        child = Child(given, self._start_timeout_s, self._lines)
        self._child, self._finalizer = (
            child,
            weakref.finalize(self, child.end, gently=self._gently),
        )
        try:
            self._ready = child.ready()
        except BaseException:
            self._end_process()
            raise
        self._http = Http(self._ready.http)

    def _end_process(self) -> None:
        child, self._child = self._child, None
        http, self._http = self._http, None
        if http is not None:
            http.close()
        if self._finalizer is not None:
            self._finalizer.detach()
        if child is not None:
            child.end(gently=self._gently)

    def __repr__(self) -> str:
        where = "not started" if self._ready is None else self._ready.bootstrap_servers
        return f"<{type(self).__name__} {where}>"


def ports_of(ready: Ready) -> tuple[int, int]:
    """Return the port for clients and the port for HTTP of a process."""
    kafka, http = (int(each.rpartition(":")[2]) for each in (ready.bootstrap_servers, ready.http))
    return kafka, http


def value_text(value: object) -> str:
    """Return a value in the syntax of Kafka's properties."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(value_text, value))
    return str(value)
