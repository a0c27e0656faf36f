"""The faults of requests: their filters, their counts, and their effects."""

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
    """A connection whose responses rules may hold."""

    client_id: str
    silences: int

    def speak(self) -> None:
        """Removes one rule that holds responses of the connection."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects the requests of a rule: requests that match every field that is not None."""

    api: Api | None = None
    group: str | None = None
    topic: str | None = None
    client_id: str | None = None

    def takes(self, services: Services, request: Request) -> bool:
        """Returns whether a request matches. Raises ProtocolError if the request can't be
        decoded."""
        return (
            (self.api is None or request.served.api is self.api)
            and (self.client_id is None or request.client_id == self.client_id)
            and (self.group is None or names_group(request, self.group))
            and (self.topic is None or names_topic(services, request, self.topic))
        )

    @property
    def is_of_clients(self) -> bool:
        """Whether the filter matches all requests of a client, or all requests."""
        return self.api is None and self.group is None and self.topic is None

    def shown(self) -> dict[str, Any]:
        """The filter as a row of JSON."""
        api = None if self.api is None else self.api.name
        return {
            "api": api, "group": self.group, "topic": self.topic, "client_id": self.client_id
        }  # fmt: skip


class Held:
    """A request that rules hold one after the other before it is handled."""

    def __init__(self, request: Request, rules: list[Gate], finish: Callable[[], None]) -> None:
        self.request = request
        self._rules = rules
        self._finish: Callable[[], None] = partial(copy_context().run, finish)
        """Handles the request in the context of its arrival, so that the tasks of the handler
        belong to the broker, not to the caller that ends a rule."""
        self.timer: TimerHandle | None = None

    def go_on(self) -> None:
        """Passes the request to the next rule that holds it, or to its handler."""
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
        """Returns whether the rule applies to a request; if it does, counts the request."""
        if self.is_over or (self._times is not None and self.hits >= self._times):
            return False
        if not self.which.takes(services, request):
            return False
        self.hits += 1
        return True


class Fail(Rule):
    """Requests are answered with an error and not handled."""

    def __init__(self, which: Filter, error_code: int, times: int | None = None) -> None:
        super().__init__("fail", which, {"error": errors.NAMES[error_code]}, times)
        self.error_code = error_code


class Gate(Rule):
    """A rule that holds requests, and releases them when it ends."""

    def __init__(
        self, kind: str, which: Filter, shown: dict[str, Any], times: int | None = None
    ) -> None:
        super().__init__(kind, which, shown, times)
        self._kept: dict[Held, None] = {}

    def keep(self, held: Held) -> None:
        """Holds a request, or lets it continue if the rule has ended."""
        if self.is_over:
            held.go_on()
        else:
            self._kept[held] = None

    def let_go(self, held: Held) -> None:
        """Lets a held request continue."""
        if held in self._kept:
            del self._kept[held]
            self._stop_timer(held)
            held.go_on()

    def finish(self) -> None:
        """Ends the rule; all held requests continue in the order of their arrival."""
        super().finish()
        for held in list(self._kept):
            self.let_go(held)

    def drop(self) -> None:
        """Drops all held requests, because the broker has ended."""
        for held in self._kept:
            self._stop_timer(held)
        self._kept.clear()

    @staticmethod
    def _stop_timer(held: Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None


class Delay(Gate):
    """Requests are handled after ``ms`` of ``time``, the system's time, as by a slow broker."""

    def __init__(self, which: Filter, ms: float, time: Time, times: int | None = None) -> None:
        super().__init__("delay", which, {"ms": ms}, times)
        self._ms = ms
        self._time = time

    def keep(self, held: Held) -> None:
        """Implements `Gate.keep`."""
        super().keep(held)
        if held in self._kept:
            held.timer = self._time.call_later(self._ms / 1000, self.let_go, held)


class StopAnswering(Gate):
    """Requests are read but not handled, and unsent responses to those clients are held."""

    def __init__(self, which: Filter, times: int | None = None) -> None:
        super().__init__("stop_answering", which, {}, times)
        self._silent: dict[Silenced, None] = {}

    def silence(self, connection: Silenced) -> None:
        """Holds the responses of a connection until the rule ends, if the filter matches the
        connection."""
        client_id = self.which.client_id
        if self.which.is_of_clients and client_id in (None, connection.client_id):
            connection.silences += 1
            self._silent[connection] = None

    def keep(self, held: Held) -> None:
        """Implements `Gate.keep`."""
        super().keep(held)

    def finish(self) -> None:
        """Extends `Gate.finish`: sends the held responses."""
        for connection in self._silent:
            connection.speak()
        self._silent.clear()
        super().finish()

    def drop(self) -> None:
        """Implements `Gate.drop`."""
        self._silent.clear()
        super().drop()
