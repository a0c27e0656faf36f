"""The layer between the sockets and the APIs of a broker in test mode.

In the table of served APIs, each handler is replaced by a handler that first checks the rules. Each
connection records its requests and responses. If a rule delays a request, later requests of the
same connection are also delayed, as in a slow broker; other connections continue. A delayed request
is handled even if its client has disconnected, as in a slow broker.

A delay is measured in the system's time, even if the broker's clock is frozen, since the client's
clock runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from broker.net.connection import Connection
from broker.net.request import Handler, Request, ServedApi, Steps
from broker.test_mode.requests.error_templates import respond_with
from broker.test_mode.requests.request_recorder import RequestRecorder
from broker.test_mode.requests.rules import (
    ClientGate,
    Fail,
    Filter,
    Gate,
    Held,
    Rule,
    StopAnswering,
)
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.net.listener import Listener
    from broker.net.server import Server


class Interposed:
    """The rules (faults that affect requests) and the request recorder of one test broker, kept
    when the broker is restarted. Implements `broker.net.interpose.Interpose`."""

    def __init__(self, recorder: RequestRecorder) -> None:
        self.recorder = recorder
        self.connections: dict[TestedConnection, None] = {}
        self._rules: list[Rule] = []

    def served(self, served: Mapping[int, ServedApi]) -> Mapping[int, ServedApi]:
        """Returns the rows of ``served`` with handlers that first apply the rules. The rules are
        the faults that affect requests."""
        return {key: replace(row, handle=self._before(row.handle)) for key, row in served.items()}

    def connection(self, server: Server, listener: Listener) -> TestedConnection:
        """Returns a new connection that reports its requests and responses to the recorder."""
        return TestedConnection(server, listener, self)

    def begin(self, rule: Rule) -> None:
        self._rules.append(rule)
        rule.on_end(lambda: self._rules.remove(rule))
        if isinstance(rule, StopAnswering):
            for connection in self.connections:
                rule.silence(connection)

    @contextmanager
    def holding_clients(self) -> Iterator[None]:
        """Delays the requests that clients send during the `with` block, and handles them at the
        end of the block."""
        gate = ClientGate("hold", Filter(), {})
        self.begin(gate)
        try:
            yield
        finally:
            gate.finish()

    def disconnect(self, client_id: str | None = None) -> int:
        """Closes the connections of the client ``client_id``, or all connections if ``client_id``
        is None. Returns the number of closed connections."""
        found = [each for each in self.connections if client_id in (None, each.client_id)]
        for connection in found:
            connection.abort()
        return len(found)

    def broker_gone(self) -> None:
        """Drops the delayed requests, since the broker was stopped or killed."""
        for rule in list(self._rules):
            if isinstance(rule, Gate):
                rule.drop()
            if rule.of_run:
                rule.finish()
        self.connections.clear()

    # -- inside

    def _before(self, inner: Handler) -> Handler:
        def handle(services: Services, request: Request) -> Steps | None:
            if not self._rules:
                return inner(services, request)
            return self._ruled(services, request, inner)

        return handle

    def _ruled(self, services: Services, request: Request, inner: Handler) -> Steps | None:
        met = [rule for rule in list(self._rules) if rule.meets(services, request)]
        for rule in met:
            if rule.fault_id:
                self.recorder.met(request, rule.fault_id)
        handle = inner
        for rule in met:
            if isinstance(rule, Fail):
                handle = partial(_fail, rule.error_code)
                break
        gates = [rule for rule in met if isinstance(rule, Gate)]
        if not gates:
            return handle(services, request)
        request.park()
        Held(request, gates, partial(_handle_late, services, request, handle)).go_on()
        return None


def _fail(error_code: int, services: Services, request: Request) -> None:
    respond_with(services, request, error_code)


def _handle_late(services: Services, request: Request, handle: Handler) -> None:
    """Handles a request that a rule has delayed, in the same way as its connection would have
    handled it on arrival."""
    connection = request.connection
    assert isinstance(connection, TestedConnection)
    connection.unpark(request)
    try:
        steps = handle(services, request)
        if steps is not None:
            request.work_off(steps)
    except ProtocolError as error:
        connection.refuse(error)
    except Exception:  # noqa: BLE001 - logged, with its traceback
        request.fail()


class TestedConnection(Connection):
    """A connection in test mode. It reports to the recorder, and faults can delay its responses."""

    __slots__ = ("_interposed", "silences")
    __test__ = False

    def __init__(self, server: Server, listener: Listener, interposed: Interposed) -> None:
        super().__init__(server, listener)
        self._interposed = interposed
        self.silences = 0
        """The number of rules that currently delay the responses of the connection."""
        interposed.connections[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Extends `Connection.connection_lost`: records that the unanswered requests get no
        response."""
        self._interposed.connections.pop(self, None)
        for request in self._slots:
            self._interposed.recorder.lost(request)
        super().connection_lost(exc)

    def answered(self, request: Request) -> None:
        """Extends `Connection.answered`: records the response."""
        self._interposed.recorder.answered(request)
        super().answered(request)

    def unpark(self, request: Request) -> None:
        """Ends the wait for ``request``, so that the connection handles its later requests."""
        if self._parked is request:
            self._parked = None
            if not self.closed:
                self.server.writes.touch(self)

    def speak(self) -> None:
        """Called when a rule that delays responses ends. If no other rule delays responses, sends
        the delayed responses."""
        self.silences -= 1
        if not self.silences and not self.closed:
            self.server.writes.touch(self)

    def _place(self, request: Request) -> None:
        self._interposed.recorder.came(request)
        super()._place(request)

    def _write(self) -> None:
        if not self.silences:
            super()._write()
