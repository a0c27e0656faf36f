"""An HTTP server with the page's files and invented API responses, for tests of how the page shows
values."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from broker.web.page_files import HEADERS

FILES = Path(__file__).parents[2] / "broker" / "web" / "page"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
BROKER = {
    "broker": 1,
    "cluster": "cluster-of-a-stub",
    "in_cluster": False,
    "address": "127.0.0.1:9092",
    "state": "ready",
}
Watched = Mapping[str, Any]
"""The fields ``head`` and ``rows`` of an event that `/api/live` sends."""


class Stub(ThreadingHTTPServer):
    """Serves the page, and events about objects such as groups. A test stores the events of an
    object in ``watched``, and then opens the view of this object."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.watched: dict[str, Watched] = {}
        self.ended = threading.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/api/broker":
            self._answer("application/json", json.dumps(BROKER).encode())
        elif url.path == "/api/live":
            self._live(parse_qs(url.query)["watch"][0])
        else:
            name = "index.html" if url.path == "/" else url.path.rpartition("/")[2]
            self._answer(_TYPES[name.rpartition(".")[2]], (FILES / name).read_bytes())

    def _live(self, watch: str) -> None:
        watched = self.server.watched.get(watch)
        if watched is None:
            error = {"error": "this broker is standalone: it does not belong to a cluster"}
            self._answer("application/json", json.dumps(error).encode(), 404)
            return
        event = {"at_ms": now_ms(), "reset": True, "more": False, **watched}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()
        self.server.ended.wait()

    def _answer(self, kind: str, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "content-type": kind}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def now_ms() -> int:
    """Returns the time of the stub in ms since 1970. The page computes durations from this time."""
    return int(time.time() * 1000)


@contextmanager
def stubbed() -> Iterator[Stub]:
    stub = Stub()
    thread = threading.Thread(target=stub.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield stub
    finally:
        stub.ended.set()
        stub.shutdown()
        thread.join()
        stub.server_close()
