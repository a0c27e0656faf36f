"""Queries the HTTP APIs of all Muster brokers of a cluster in parallel."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cli import clock
from cli.client.at_once import all_at_once
from cli.errors import CommandError
from cli.http import Api

Value = dict[str, Any]

ASKED = "asked_ms"
"""The name of a field that is added to each response: the local times (ms) before the request and
after the response."""


class BrokerAnswers:
    """The HTTP APIs of the brokers. ``unasked`` records the brokers that can't be queried."""

    def __init__(self, apis: Mapping[int, Api | str]) -> None:
        self._apis = {node: each for node, each in apis.items() if isinstance(each, Api)}
        self.unasked = {node: each for node, each in apis.items() if isinstance(each, str)}
        """The reason why a broker can't be queried, by broker id."""

    def all(self, path: str, **query: Any) -> dict[int, Value]:
        """Returns the response of each broker to GET ``path``, together with the times at which the
        request was sent and the response arrived."""

        def ask(api: Api) -> Value | str:
            api.renew()
            try:
                began_ms = clock.now_ms()
                answer: Value = api.get(path, **query)
                ended_ms = clock.now_ms()
            except CommandError as error:
                return error.why
            return {**answer, ASKED: (began_ms, ended_ms)}

        found: dict[int, Value] = {}
        answers = all_at_once(ask, list(self._apis.values()))
        for node, answer in zip(self._apis, answers, strict=True):
            if isinstance(answer, str):
                self.unasked[node] = answer
            else:
                found[node] = answer
        return found

    def first(self, path: str, timeout_s: float, **query: Any) -> Value | None:
        """Returns the first successful response of any broker; None if all brokers fail."""
        for api in self._apis.values():
            api.renew(timeout_s)
            with suppress(CommandError):
                answer: Value = api.get(path, **query)
                return answer
        return None
