"""The faults that affect requests: which requests a fault selects, how many, and its effect on
these requests."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from broker.test_mode.faults import Fault
from broker.test_mode.requests.naming import names_group, names_topic
from protocol import errors

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from broker.apis.shared.services import Services
    from broker.net.request import Request
    from broker.time import Time
    from protocol.schema import Api


class Silenced(Protocol):
    """A connection whose responses a rule can delay."""

    client_id: str
    silences: int

    def speak(self) -> None:
        """Called when a rule ends that delayed the responses of this connection."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects the requests for a rule: a request must match every field that is not None."""

    api: Api | None = None
    group: str | None = None
    topic: str | None = None
    client_id: str | None = None

    def takes(self, services: Services, request: Request) -> bool:
        """Returns True if the request matches. Raises ProtocolError if the request can't be
        decoded."""
        return (
            (self.api is None or request.served.api is self.api)
            and (self.client_id is None or request.client_id == self.client_id)
            and (self.group is None or names_group(request, self.group))
            and (self.topic is None or names_topic(services, request, self.topic))
        )

    @property
    def is_of_clients(self) -> bool:
        """True if the filter selects requests only by client id: it has no condition on the API,
        the group or the topic."""
        return self.api is None and self.group is None and self.topic is None

    def shown(self) -> dict[str, Any]:
        api = None if self.api is None else self.api.name
        return {
            "api": api, "group": self.group, "topic": self.topic, "client_id": self.client_id
        }  # fmt: skip


class Held:
    """A request that one or more rules delay before it is handled. The rules delay the request one
    after the other."""

    def __init__(self, request: Request, rules: list[Gate], finish: Callable[[], None]) -> None:
        self.request = request
        self._rules = rules
        self._finish: Callable[[], None] = partial(copy_context().run, finish)
        """A function that handles the request. It runs in the contextvars context in which the
        request arrived, because tasks that it starts must belong to the broker of the request. The
        code that ends the rule may run in the context of another broker."""
        self.timer: TimerHandle | None = None

    def go_on(self) -> None:
        """Passes the request to the next rule that delays it. After the last rule, passes the
        request to its handler."""
        if self._rules:
            self._rules.pop(0).keep(self)
        else:
            self._finish()


class Rule(Fault):
    """A fault that affects requests."""

    def __init__(
        self, kind: str, which: Filter, shown: dict[str, Any], times: int | None = None
    ) -> None:
        super().__init__(kind, {**which.shown(), **shown, "times": times})
        self.which = which
        self._times = times

    def meets(self, services: Services, request: Request) -> bool:
        """Returns True if the rule applies to the request. In this case, increments ``hits``."""
        if self.is_over or (self._times is not None and self.hits >= self._times):
            return False
        if not self.which.takes(services, request):
            return False
        self.hits += 1
        return True


class Fail(Rule):
    """A rule that answers requests with an error instead of handling them."""

    def __init__(self, which: Filter, error_code: int, times: int | None = None) -> None:
        super().__init__("fail", which, {"error": errors.NAMES[error_code]}, times)
        self.error_code = error_code


class Gate(Rule):
    """A rule that delays requests until the rule releases them or ends."""

    def __init__(
        self, kind: str, which: Filter, shown: dict[str, Any], times: int | None = None
    ) -> None:
        super().__init__(kind, which, shown, times)
        self._kept: dict[Held, None] = {}

    def keep(self, held: Held) -> None:
        """Delays a request. If the rule has ended, lets the request continue at once."""
        if self.is_over:
            held.go_on()
        else:
            self._kept[held] = None

    def let_go(self, held: Held) -> None:
        if held in self._kept:
            del self._kept[held]
            self._stop_timer(held)
            held.go_on()

    def finish(self) -> None:
        """Ends the rule. All delayed requests continue in order of arrival."""
        super().finish()
        for held in list(self._kept):
            self.let_go(held)

    def drop(self) -> None:
        """Drops all delayed requests, because the broker has ended."""
        for held in self._kept:
            self._stop_timer(held)
        self._kept.clear()

    @staticmethod
    def _stop_timer(held: Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None


class ClientGate(Gate):
    """Delays requests of clients. Does not delay requests of other brokers."""

    def meets(self, services: Services, request: Request) -> bool:
        is_of_broker = services.replicas is not None and request.connection.listener.is_inter_broker
        return not is_of_broker and super().meets(services, request)


class Delay(Gate):
    """A rule that delays each request by ``ms`` milliseconds, as a slow broker does. The delay is
    measured with the system's clock, which ``time`` contains."""

    def __init__(self, which: Filter, ms: float, time: Time, times: int | None = None) -> None:
        super().__init__("delay", which, {"ms": ms}, times)
        self._ms = ms
        self._time = time

    def keep(self, held: Held) -> None:
        super().keep(held)
        if held in self._kept:
            held.timer = self._time.call_later(self._ms / 1000, self.let_go, held)


class StopAnswering(Gate):
    """A rule under which the broker reads requests but does not handle them. If the rule applies to
    all requests of a client, it also delays the responses that this client has not got yet."""

    def __init__(self, which: Filter, times: int | None = None) -> None:
        super().__init__("stop_answering", which, {}, times)
        self._silent: dict[Silenced, None] = {}

    def silence(self, connection: Silenced) -> None:
        """Delays all responses of a connection until the rule ends. Does nothing if the rule does
        not apply to all requests of the connection."""
        client_id = self.which.client_id
        if self.which.is_of_clients and client_id in (None, connection.client_id):
            connection.silences += 1
            self._silent[connection] = None

    def keep(self, held: Held) -> None:
        super().keep(held)

    def finish(self) -> None:
        """Extends `Gate.finish`: sends the delayed responses."""
        for connection in self._silent:
            connection.speak()
        self._silent.clear()
        super().finish()

    def drop(self) -> None:
        self._silent.clear()
        super().drop()
