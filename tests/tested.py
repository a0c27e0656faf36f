"""Runs a `muster serve --test` process, and sends requests to its HTTP API."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import IO, Any, NamedTuple

from tests.brokers import CHECKOUT, COMMAND

ENDS_WITHIN_S = 20


class Answered(NamedTuple):
    status: int
    body: Any


class Tested:
    """A `muster serve --test` process. `start` returns when the process accepts connections."""

    __test__ = False

    def __init__(self, *words: str) -> None:
        self.words = words
        self.process: subprocess.Popen[str]
        self.told: dict[str, Any] = {}
        """The JSON line that the process prints when it has started."""
        self._stderr: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._http: HTTPConnection

    def start(self) -> Tested:
        command = [*COMMAND, "serve", "--test", "--with-stdin", *self.words]
        self.process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it did not start:\n{self.stderr()}"
        self.told = json.loads(line)
        self.ask_at(self.told["http"].removeprefix("http://"))
        return self

    def ask_at(self, address: str) -> None:
        """Sets the HTTP address HOST:PORT for later requests."""
        self._http = HTTPConnection(address, timeout=60)

    @property
    def bootstrap(self) -> str:
        return self.told["bootstrap_servers"]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def stderr(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()

    def asked(self, method: str, path: str, body: object = None, **headers: str) -> Answered:
        """Sends a request and returns the HTTP response. If ``body`` is bytes, it is sent
        unchanged; otherwise it is encoded as JSON."""
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self._http.request(method, path, sent, headers)
        with self._http.getresponse() as response:
            return Answered(response.status, json.loads(response.read()))

    def post(self, path: str, **arguments: object) -> Any:
        """Sends a POST request, and returns the decoded JSON response. Fails if the response is an
        error."""
        return self._done(self.asked("POST", f"/test{path}", arguments))

    def get(self, path: str) -> Any:
        return self._done(self.asked("GET", f"/test{path}"))

    def delete(self, path: str) -> Any:
        return self._done(self.asked("DELETE", f"/test{path}"))

    def _done(self, answered: Answered) -> Any:
        assert answered.status == 200, answered
        return answered.body

    def refused(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Sends a request, which must be refused. Returns the HTTP status and the error message."""
        answered = self.asked(method, f"/test{path}", body)
        assert answered.status != 200, answered
        assert list(answered.body) == ["error"]
        return answered.status, answered.body["error"]

    def end(self) -> int:
        """Closes the standard input of the process, waits for its end, and returns its exit
        code."""
        if self.process.poll() is None:
            self._http.close()
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            return self.process.wait(ENDS_WITHIN_S)
        finally:
            self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()


@contextmanager
def tested(*words: str) -> Iterator[Tested]:
    """Yields a process with the command-line options ``words``, and ends it after the block. By
    default its data is in memory."""
    started = Tested(*words)
    try:
        yield started.start()
    finally:
        started.end()


tested.__test__ = False  # type: ignore[attr-defined]
