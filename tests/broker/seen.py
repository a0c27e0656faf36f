"""Reads the HTTP pages of a broker as an operator does. The Prometheus client library parses the
metrics."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.broker.config.served import Served, serving
from tests.broker.openapi import check_answer

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "metrics.md"
WITHIN_S = 60
"""The timeout of a request in seconds. The first request is slow on a busy machine, because it
imports the HTTP server."""
ONLY_IN_A_CLUSTER = "## In a cluster"


class Scrape:
    """One parsed response of /metrics. ``scrape["name", "label=value", ...]`` is the value of a
    series."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.types: dict[str, str] = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        self.values: dict[tuple[str, frozenset[str]], float] = {}
        self.labels: dict[str, set[frozenset[str]]] = {}
        """For each metric name, the sets of label names that its series have."""
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                pairs = frozenset(f"{name}={value}" for name, value in sample.labels.items())
                key = (sample.name, pairs)
                assert key not in self.values, f"{key} is there twice"
                self.values[key] = sample.value
                name = re.sub("_(bucket|sum|count)$", "", sample.name)
                if self.types.get(name) != "histogram":
                    name = sample.name
                self.labels.setdefault(name, set()).add(frozenset(sample.labels) - {"le"})

    def __getitem__(self, key: str | tuple[str, ...]) -> float | None:
        name, *labels = (key,) if isinstance(key, str) else key
        return self.values.get((name, frozenset(labels)))

    def of(self, name: str) -> dict[frozenset[str], float]:
        """Returns the values of all series of one metric, by their labels."""
        return {labels: value for (found, labels), value in self.values.items() if found == name}


class Seen(Served):
    """A broker in this process with an HTTP listener."""

    address = ""

    async def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        async with httpx.AsyncClient(base_url=f"http://{self.address}", timeout=WITHIN_S) as client:
            answer = await client.get(path, headers=headers)
        check_answer(path, answer.status_code, answer.headers.get("content-type", ""), answer.text)
        return answer

    async def scrape(self) -> Scrape:
        """Returns the metrics that Prometheus would scrape."""
        answer = await self.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return Scrape(answer.text)


@asynccontextmanager
async def seeing(
    directory: Path, settings: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[Seen]:
    """Yields a started broker, like `serving`, with an HTTP listener on a free port."""
    wanted = {
        "http.listener": "127.0.0.1:0",
        "group.initial.rebalance.delay.ms": 0,
        **(settings or {}),
    }
    async with serving(directory, wanted, **more) as served:
        seen = Seen(served.broker, served.time, served.client)
        served.broker.start_http()
        where = served.broker.sockets.http_address()
        assert where is not None
        seen.address = where
        yield seen


def documented(in_cluster: bool = False) -> dict[str, tuple[str, frozenset[str], str]]:
    """Returns type, label names and meaning of each metric in docs/operate/metrics.md, by metric
    name. If ``in_cluster``, includes the metrics that only a broker in a cluster has."""
    rows = {}
    section = ""
    for line in PAGE.read_text().splitlines():
        section = line if line.startswith("## ") else section
        if section == ONLY_IN_A_CLUSTER and not in_cluster:
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found = re.fullmatch(r"`((?:muster|kafka|process)_\w+)`", cells[0])
        if found is None or not line.startswith("|"):
            continue
        kind, labels, meaning = cells[1:] if len(cells) == 4 else ("gauge", *cells[1:])
        rows[found[1]] = (kind, frozenset(filter(None, re.split(r"[, ]+", labels))), meaning)
    return rows
