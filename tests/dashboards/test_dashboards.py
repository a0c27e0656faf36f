"""The dashboard files are up to date, and every panel shows data.

Clients cause all events that the panels show. A real Prometheus scrapes the broker, and each query
of each panel must return data.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

from broker.authorizer.acl_store import AclFile
from broker.config.authorizer_rules import STANDARD
from log.files.filesystem import OsFileSystem
from pipeline.engines.duck import DuckEngine
from pipeline.model.tables import CATCH_UP
from pipeline.run.textfile import write_textfile
from protocol.consumer_protocol import encode_assignment
from security.acls.model import AclEntry, Operation, Pattern, Permission, ResourceType
from tests.absent import program
from tests.broker.seen import documented
from tests.brokers import CHECKOUT, free_port
from tests.certificates import Authority
from tests.dashboards.prometheus import RULES, Prometheus, scraping
from tests.interop.secured.brokers import SecuredMuster
from tests.interop.zookeeper_cluster import MUSTER, running
from tests.pipeline.relations import rows_of
from tests.waiting import until
from tests.wire import Wire, batch
from tools.make_dashboards import DASHBOARDS, FOLDER, Dashboard, render

ONLY_IN_A_CLUSTER = documented(in_cluster=True).keys() - documented().keys()
VARIABLES = {"$__rate_interval": "20s", "$instance": ".*", "$group": ".*", "$source": ".*"}
PAUSE_S = 0.1
RECIPES = CHECKOUT / "docs" / "use" / "pipeline-commands.md"


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_dashboard_files_are_up_to_date(dashboard: Dashboard) -> None:
    written = (FOLDER / f"{dashboard.name}.json").read_text()
    assert written == render(dashboard), "make dashboards rewrites the files"


def test_dashboard_folder_contains_one_file_per_dashboard() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {each.name for each in DASHBOARDS}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_panels_of_a_dashboard_do_not_overlap_and_have_unique_ids(dashboard: Dashboard) -> None:
    panels = json.loads(render(dashboard))["panels"]
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not taken & cells
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


class Busy(threading.Thread):
    """A client that produces, fetches, rejoins a group, and sends commits that are accepted or
    rejected."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.done = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with Wire(self.port, "busy") as wire:
                topic = {"name": "orders", "num_partitions": 2, "replication_factor": 1}
                topics = [{**topic, "assignments": [], "configs": []}]
                wire.call("CreateTopics", 4, {"topics": topics, "timeout_ms": 10_000})
                wire.call("FindCoordinator", 1, {"key": "team", "key_type": 0})
                offset = 0
                while not self.done.wait(PAUSE_S):
                    offset += 1
                    self.round(wire, offset)
        except Exception as failure:  # noqa: BLE001 - the waiting test reports it
            self.failure = failure

    def round(self, wire: Wire, offset: int) -> None:
        """Produces two records, fetches, and commits. Every 20th round starts a new generation of
        the group."""
        data = {"name": "orders", "partition_data": [{"index": 0, "records": batch(b"a", b"b")}]}
        wire.call("Produce", 9, {"acks": -1, "timeout_ms": 5000, "topic_data": [data]})
        read = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000}
        wanted = [{"topic": "orders", "partitions": [read]}]
        wire.call(
            "Fetch", 4, {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "topics": wanted}
        )
        if offset % 20 == 1:
            self.member = self.joined(wire)
        self.commit(wire, "team", offset, *self.member)
        self.commit(wire, "team", offset, self.member[0], 999)
        self.commit(wire, "reader", offset)
        self.commit(wire, "rewinder", 5 if offset % 2 else 3)

    def joined(self, wire: Wire) -> tuple[str, int]:
        """Rejoins the group team as its only member. Returns the member id and the generation."""
        if getattr(self, "member", None) is not None:
            wire.call("LeaveGroup", 2, {"group_id": "team", "member_id": self.member[0]})
        answer = wire.call(
            "JoinGroup",
            3,
            {
                "group_id": "team",
                "session_timeout_ms": 30_000,
                "rebalance_timeout_ms": 30_000,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
        )
        member_id, generation = answer["member_id"], answer["generation_id"]
        assignment = {
            "member_id": member_id,
            "assignment": encode_assignment({"orders": [0, 1]}),
        }
        sync = {"group_id": "team", "generation_id": generation, "member_id": member_id}
        wire.call("SyncGroup", 3, {**sync, "assignments": [assignment]})
        return member_id, generation

    @staticmethod
    def commit(
        wire: Wire, group_id: str, offset: int, member_id: str = "", generation: int = -1
    ) -> None:
        """Commits an offset and ignores the error code."""
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        wire.call(
            "OffsetCommit",
            7,
            {
                "group_id": group_id,
                "generation_id_or_member_epoch": generation,
                "member_id": member_id,
                "topics": [{"name": "orders", "partitions": [row]}],
            },
        )


def release_records(bootstrap: str) -> None:
    """Releases records of a share group repeatedly, until some are archived because they were
    delivered too often."""
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "shared",
            "share.acknowledgement.mode": "explicit",
        }
    )
    consumer.subscribe(["orders"])

    def released() -> bool:
        records = consumer.poll(0.1)
        for record in records:
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
        consumer.commit_sync()
        return bool(records)

    for _ in range(8):
        until("records are released", released, 30)
    consumer.close()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    settings = {
        "offsets.topic.num.partitions": "4",
        "log.flush.interval.messages": "1",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": "100",
        "authorizer.class.name": STANDARD,
        "allow.everyone.if.no.acl.found": "true",
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.keystore.location": str(Authority(folder).issue("broker").pem),
    }
    pattern = Pattern(ResourceType.GROUP, "theirs")
    theirs = AclEntry(pattern, "User:nobody", "*", Operation.ALL, Permission.ALLOW)
    (folder / "data").mkdir()
    AclFile(OsFileSystem(), str(folder / "data")).write([theirs])
    where = f"127.0.0.1:{free_port()}"
    broker = SecuredMuster(folder / "data", settings, http=where).start()
    with Wire(broker.port) as wire:
        wire.call("DeleteGroups", 2, {"groups_names": ["theirs"]})
    busy = Busy(broker.port)
    busy.start()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "billing-1"})
    try:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"x", partition=0)
        assert producer.flush(30) == 0
        release_records(broker.bootstrap)
        with scraping(folder, where) as running:
            assert busy.failure is None, busy.failure
            yield running
    finally:
        busy.done.set()
        busy.join(10)
        broker.kill()


@pytest.mark.interop
def test_every_panel_and_rule_returns_data_on_a_busy_broker(prometheus: Prometheus) -> None:
    """All queries are in one test, so that only one pytest worker starts a Prometheus."""
    wanted = (*panel_queries(), *rule_queries())
    missing = [each for each in wanted if not (needs_cluster(each) or is_of_the_pipeline(each))]
    assert len(missing) > 70
    assert left_without_data(prometheus, missing) == [], "these queries have no data"


@pytest.mark.interop
def test_every_panel_and_rule_about_a_cluster_returns_data(tmp_path: Path) -> None:
    wanted = [each for each in (*panel_queries(), *rule_queries()) if needs_cluster(each)]
    assert len(wanted) > 30
    with running(tmp_path, {1: MUSTER, 2: MUSTER}) as cluster:
        cluster.create("orders", 4, 2)
        with scraping(tmp_path, *cluster.http.values()) as prometheus:
            assert left_without_data(prometheus, wanted) == []


@pytest.mark.interop
def test_every_panel_and_rule_about_the_pipeline_returns_data(tmp_path: Path) -> None:
    """promtool checks the textfile, and Prometheus scrapes it from an HTTP server."""
    file = textfile(tmp_path)
    checked = subprocess.run(
        [program("promtool", "prometheus"), "check", "metrics"],
        input=file.read_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
    rules = tmp_path / "rules.yml"
    [written] = re.findall(r"^```yaml\n(groups:.*?)```", RECIPES.read_text(), re.M | re.S)
    rules.write_text(written)
    expressions = re.findall(r"expr: (.+)", written)
    wanted = [*filter(is_of_the_pipeline, panel_queries()), *expressions]
    assert len(expressions) > 1
    assert len(wanted) > 18
    with exposed(file) as where, scraping(tmp_path, where, rules=rules) as prometheus:
        assert left_without_data(prometheus, wanted) == []


def textfile(folder: Path) -> Path:
    """Writes a textfile of the pipeline as of one day ago, with one group for each verdict. Returns
    its path."""
    engine = DuckEngine(str(folder))
    verdicts = ("falling behind", "stopped", "nobody runs it", "out of range", "catching up")
    rows = [
        {"group_id": verdict, "topic": "orders", "partition": 0, "verdict": verdict,
         "member_count": 1, "lag_records": 9, "lag_s": 1.0, "lost_records": 1,
         "consumed_per_s": 1.0, "produced_per_s": 2.0, "catch_up_s": 3.0}
        for verdict in verdicts
    ]  # fmt: skip
    engine.read("catch_up", [rows_of(CATCH_UP, rows)], CATCH_UP)
    as_of_ms = round((time.time() - 86_400) * 1000)
    found = write_textfile(engine, str(folder / "lag.prom"), "muster:9092", as_of_ms)
    engine.close()
    return Path(found)


@contextmanager
def exposed(file: Path) -> Iterator[str]:
    """Yields HOST:PORT of an HTTP server that returns the content of ``file``."""

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(file.read_bytes())

        def log_message(self, *_: object) -> None:
            """Does nothing, so that requests are not logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def left_without_data(prometheus: Prometheus, wanted: list[str]) -> list[str]:
    """Waits up to 60 s until every query returns data. Returns the queries that still return no
    data."""
    missing = list(wanted)

    def nothing_is_missing() -> bool:
        missing[:] = [expression for expression in missing if not prometheus.query(expression)]
        return not missing

    with suppress(AssertionError):
        until("every query has data", nothing_is_missing, within_s=60)
    return missing


def needs_cluster(expression: str) -> bool:
    names = re.findall(r"\b(muster_\w+)", expression)
    return any(name.removesuffix("_bucket") in ONLY_IN_A_CLUSTER for name in names)


def is_of_the_pipeline(expression: str) -> bool:
    return "muster_pipeline_" in expression


def panel_queries() -> Iterator[str]:
    """Yields each query of each panel. Values replace the variables of the dashboard."""
    for dashboard in DASHBOARDS:
        for panel in (panel for row in dashboard.rows for panel in row):
            for query, _ in panel.queries:
                expression = query
                for name, value in VARIABLES.items():
                    expression = expression.replace(name, value)
                assert "$" not in expression
                yield expression


def rule_queries() -> set[str]:
    """Returns the names of all recording rules, and of all metrics that a rule reads."""
    text = (RULES / "rules.yml").read_text()
    names = set(re.findall(r"record: (\S+)", text))
    for expression in re.findall(r"expr: (?:>-\n\s+)?(.+)", text):
        names |= set(re.findall(r"\b((?:muster|kafka)_\w+)", expression))
    return names
