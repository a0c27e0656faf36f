"""Starts brokers in its own network namespace, runs a client's test suite, and stops the brokers.

The argument is JSON: `brokers`, `port` of the first broker, `data`, and the suite's command, folder
and environment. One broker runs standalone; several brokers form a cluster with its own ZooKeeper.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests import waiting
from tests.zookeeper import zookeeper

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",  # cleans small new parts too
    "offsets.topic.num.partitions": "5",
}
PROXY_PORT = 8474
SUITE_WITHIN_S = 330.0


class Proxies(BaseHTTPRequestHandler):
    """An HTTP server that replaces toxiproxy. It reports a proxy for each broker, such as kafka1,
    although clients connect to the broker itself at the address of the proxy."""

    def do_GET(self) -> None:
        """Returns the proxy with the name in the path, such as `/proxies/kafka1`."""
        self._answer(200, {"name": self.path.rpartition("/")[2], "enabled": True})

    def do_POST(self) -> None:
        self._answer(204, None)

    def _answer(self, status: int, value: Any) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Does nothing, because the test reads the output of the suite."""


def main(spec: dict[str, Any]) -> int:
    """Starts the brokers, runs the suite, and returns the exit code of the suite."""
    data = Path(spec["data"])
    with ExitStack() as ended:
        keeper = ended.enter_context(zookeeper(data)) if spec["brokers"] > 1 else None
        ended.enter_context(_brokers(spec, data, keeper))
        proxies = ThreadingHTTPServer(("127.0.0.1", PROXY_PORT), Proxies)
        Thread(target=proxies.serve_forever, daemon=True).start()
        done = subprocess.run(
            spec["suite"],
            cwd=spec["folder"],
            env={**os.environ, **spec["environment"]},
            stdin=subprocess.DEVNULL,
            timeout=SUITE_WITHIN_S,
            check=False,
        )
        return done.returncode


@contextmanager
def _brokers(spec: Mapping[str, Any], data: Path, keeper: str | None) -> Iterator[None]:
    """Starts the brokers. Yields when they accept connections. Stops them one after another at the
    end."""
    command = [sys.executable, "-m", "cli.main"]
    if keeper is None:
        address = f"127.0.0.1:{spec['port']}"
        command += ["serve", "--listen", address, "--data", str(data / "data"), "--http", "off"]
        command += [f"--set=advertised.listeners=PLAINTEXT://localhost:{spec['port']}"]
        command += [f"--set={name}={value}" for name, value in SETTINGS.items()]
    else:
        command += ["dev", "cluster", "--brokers", str(spec["brokers"])]
        command += ["--port", str(spec["port"]), "--dir", str(data / "dev"), "--zookeeper", keeper]
    log = data / "brokers.log"
    with log.open("wb") as printed:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed
        )
    ready = "accepts connections" if keeper is None else "MUSTER_BOOTSTRAP"
    try:
        waiting.until("the brokers have started", lambda: ready in log.read_text(), 120)
        yield
    finally:
        started.terminate()
        started.wait(60)
        print(log.read_text()[-2000:])


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
