"""Requests to the broker's /test: JSON over persistent connections."""

from __future__ import annotations

import http.client
import json
import os
import select
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from musterd.testing import clock
from musterd.testing.errors import MusterError, Refused

Json = dict[str, Any]

_ANSWERS_WITHIN_S = 120.0
"""The maximum time in seconds until a response. It is long, because an advance of the broker's
clock by a year takes long."""
_KEPT_FOR_S = 2.0
"""A connection is used again only within this number of seconds after its last use. The broker
closes connections that are idle for 5 s."""


class Gone(Exception):
    """The broker did not respond. Its process may have ended."""


class Http:
    """A client of the broker's HTTP interface. Any thread may send requests; each thread uses its
    own connection."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._owner = os.getpid()

    def ask(self, method: str, path: str, arguments: Mapping[str, object]) -> Json:
        """Send one request and return the JSON of the response. Arguments that are None are
        omitted."""
        given = {name: value for name, value in arguments.items() if value is not None}
        body = None
        if method == "POST":
            body = json.dumps(given)
        elif given:
            path = f"{path}?{urlencode(given)}"
        connection = self._take()
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise MusterError(
                    f"the broker did not respond to {path} within {_ANSWERS_WITHIN_S:g} s"
                ) from None
            raise Gone(str(error) or type(error).__name__) from error
        self._give_back(connection)
        return _read(path, response.status, answer)

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        if self._owner != os.getpid():  # forked: the idle connections belong to the other process
            self._owner, self._idle = os.getpid(), []
        while True:
            with self._lock:
                since_s, connection = self._idle.pop() if self._idle else (0.0, None)
            if connection is None:
                return http.client.HTTPConnection(self._host, self._port, timeout=_ANSWERS_WITHIN_S)
            if clock.real_s() - since_s < _KEPT_FOR_S and not _is_closed(connection):
                return connection
            connection.close()

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        if connection.sock is not None:
            with self._lock:
                self._idle.append((clock.real_s(), connection))


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Return whether the broker has closed an idle connection. An idle connection is readable only
    if it was closed."""
    if connection.sock is None:
        return True
    asked = select.poll()  # `select` supports no file descriptor above 1023
    asked.register(connection.sock, select.POLLIN)
    return bool(asked.poll(0))


def _read(path: str, status: int, answer: bytes) -> Json:
    try:
        parsed = json.loads(answer)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise MusterError(
            f"the broker's response to {path} is not JSON (status {status}): {answer[:200]!r}"
        )
    if status != http.client.OK:
        sentence = parsed.get("error") or f"the broker answered {path} with status {status}"
        raise Refused(status, str(sentence))
    return parsed
