"""Starts a Prometheus that scrapes brokers every second and loads Muster's rules."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.absent import program
from tests.brokers import free_port
from tests.waiting import until

RULES = Path(__file__).parents[2] / "dashboards" / "prometheus"


class Prometheus:
    """A client of the HTTP API of a running Prometheus."""

    def __init__(self, port: int) -> None:
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Returns the result of an instant query. Raises AssertionError if the query fails."""
        answer = self.client.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", answer
        result = answer["data"]["result"]
        return [result] if answer["data"]["resultType"] == "scalar" else result

    def firing(self) -> set[tuple[str, str]]:
        """Returns alert name and instance label of each firing alert. The label is "" if it is
        absent."""
        alerts = self.client.get("/api/v1/alerts").json()["data"]["alerts"]
        return {
            (each["labels"]["alertname"], each["labels"].get("instance", ""))
            for each in alerts
            if each["state"] == "firing"
        }

    def ready(self) -> bool:
        with suppress(httpx.TransportError):
            scrapes = self.client.get(
                "/api/v1/query", params={"query": "count_over_time(up[1m]) >= 4"}
            )
            return scrapes.status_code == 200 and bool(scrapes.json()["data"]["result"])
        return False


@contextmanager
def scraping(
    folder: Path, *targets: str, rules: Path = RULES / "rules.yml"
) -> Iterator[Prometheus]:
    """Yields a Prometheus after it has scraped ``targets`` (HOST:PORT) at least four times.
    ``folder`` receives its configuration and data."""
    command = program("prometheus", "prometheus")
    port = free_port()
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n"
        f"rule_files: ['{rules}']\n"
        "scrape_configs:\n"
        f"  - {{job_name: muster, static_configs: [{{targets: {list(targets)}}}]}}\n"
    )
    server = subprocess.Popen(
        [
            command,
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/tsdb",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        running = Prometheus(port)
        until("Prometheus has scraped the broker a few times", running.ready, within_s=40)
        yield running
    finally:
        server.terminate()
        server.wait(20)
