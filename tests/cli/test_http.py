"""Commands find Muster's HTTP API with --bootstrap, and check that the API belongs to the same
cluster."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.clock import Deadline
from cli.errors import REFUSED, UNREACHABLE, USAGE, CommandError
from cli.http import Api, api_of, find_api
from client.security import PLAINTEXT
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE
from tests.broker.transactional import initialized
from tests.broker.transactional_calls import create_led
from tests.brokers import KIND, Broker, KafkaBroker, free_port, running
from tests.cli.running import run
from tests.wire import Wire

HERE = {"http.listener": "127.0.0.1:9644", "http.advertised.listener": "127.0.0.1:9644"}
KAFKA: dict[str, str] = {}


class Scripted:
    """A fake broker whose DescribeConfigs response has the given settings."""

    def __init__(self, settings: dict[str, str], host: str = "10.0.0.5", here: bool = False):
        self.settings, self.host, self.is_here = settings, host, here
        self.address = f"{host}:9092"
        self.error_code = NONE

    def call(self, _name: str, asked: Any, _timeout_s: float | None) -> Any:
        [resource] = asked["resources"]
        wanted = ["http.listener", "http.advertised.listener", "http.security.protocol"]
        assert resource["configuration_keys"] == wanted
        configs = [{"name": name, "value": value} for name, value in self.settings.items()]
        kind, name = resource["resource_type"], resource["resource_name"]
        answer = {"error_code": self.error_code, "resource_type": kind, "resource_name": name}
        answer["error_message"] = None
        return {"results": [{**answer, "configs": configs}]}


class ScriptedCluster:
    """A fake cluster. The first broker is the bootstrap broker. The last broker coordinates every
    group."""

    def __init__(self, *brokers: Scripted) -> None:
        self.brokers = brokers
        self.any = brokers[0]
        self.deadline = Deadline(30)
        self.security = PLAINTEXT

    def metadata(self, _topics: list[str], _timeout_s: float) -> Any:
        nodes = [self._node(number) for number in range(len(self.brokers))]
        return {"cluster_id": "ours", "brokers": nodes}

    def _node(self, number: int) -> dict[str, Any]:
        return {"node_id": number, "host": f"b{number}", "port": 9092}

    def coordinator_node(self, _group: str) -> dict[str, Any]:
        return self._node(len(self.brokers) - 1)

    def connect(self, host: str, _port: int) -> Scripted:
        return self.brokers[int(host[1:])]


def muster(listener: str, advertised: str, **more: Any) -> Scripted:
    settings = {"http.listener": listener, "http.advertised.listener": advertised}
    return Scripted(settings, **more)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables the check that an HTTP address belongs to the right cluster, because these tests run
    no server at the address."""
    monkeypatch.setattr(Api, "check", lambda self, deadline: None)


def found(*brokers: Scripted, http: str | None = None, group: str | None = None) -> str | None:
    cluster: Any = ScriptedCluster(*brokers)
    api = find_api(cluster, "groups why", http, 30, group)
    return None if api is None else api.address


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("listener", "bound", "more", "address"),
    [
        ("127.0.0.1:9644", "127.0.0.1:9644", {"here": True}, "127.0.0.1:9644"),
        ("127.0.0.1:0", "127.0.0.1:40123", {"here": True}, "127.0.0.1:40123"),
        ("localhost:9644", "localhost:9644", {"here": True}, "localhost:9644"),
        ("[::1]:9644", "[::1]:9644", {"here": True}, "[::1]:9644"),
        ("0.0.0.0:9644", "0.0.0.0:9644", {}, "10.0.0.5:9644"),
        ("[::]:9644", "[::]:9644", {"host": "fd00::5"}, "[fd00::5]:9644"),
        (":9644", ":9644", {"host": "kafka"}, "kafka:9644"),
        ("10.0.0.9:80", "10.0.0.9:80", {}, "10.0.0.9:80"),
        ("0.0.0.0:9644", "muster.example.org:80", {}, "muster.example.org:80"),
    ],
)
def test_http_address_is_derived_from_the_settings_of_the_broker(
    listener: str, bound: str, more: dict[str, Any], address: str
) -> None:
    assert found(muster(listener, bound, **more)) == address


@pytest.mark.parametrize(
    ("listener", "bound", "says"),
    [
        ("off", "off", "does not serve the API (http.listener is off); start the broker with"),
        ("127.0.0.1:9644", "off", "does not serve the API (address 127.0.0.1:9644 was in"),
        (
            "127.0.0.1:9644",
            "127.0.0.1:9644",
            "which only the broker's own machine can reach; connect with `ssh -L"
            " 9644:127.0.0.1:9644 10.0.0.5`"
            " and --http 127.0.0.1:9644, or open the listener as docs/operate/security.md describes"
            " (http.listener, http.authentication, http.security.protocol)",
        ),
    ],
)
def test_error_about_an_unreachable_http_api_has_advice(
    listener: str, bound: str, says: str
) -> None:
    with pytest.raises(CommandError) as caught:
        found(muster(listener, bound))

    assert "groups why needs Muster's HTTP API, and the broker at 10.0.0.5:9092" in str(
        caught.value
    )
    assert says in str(caught.value)
    assert caught.value.exit_code == UNREACHABLE


@pytest.mark.usefixtures("unchecked")
def test_command_for_a_group_uses_the_http_api_of_the_coordinator() -> None:
    kafka = Scripted(KAFKA)
    one, two = (muster("0.0.0.0:9644", "0.0.0.0:9644", host=host) for host in ("b1", "b2"))
    off = muster("off", "off", host="b3")

    assert found(kafka, one, two) == "b1:9644"
    assert found(kafka, one, two, group="g") == "b2:9644"
    assert found(off, two) == "b2:9644"
    assert found(kafka, kafka) is None
    assert found(one, kafka, group="g") is None, "the coordinator is not a Muster"
    with pytest.raises(CommandError, match=r"http\.listener is off"):
        found(kafka, off)


def test_error_about_an_unknown_http_address_advises_the_http_option() -> None:
    older = Scripted(HERE)
    older.error_code = CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(CommandError) as caught:
        found(older)

    assert str(caught.value) == (
        "groups why needs Muster's HTTP API, and the broker at 10.0.0.5:9092 does not advertise"
        " the API's address (settings of broker 0: CLUSTER_AUTHORIZATION_FAILED); name the address"
        " with --http HOST:PORT"
    )
    assert caught.value.exit_code == REFUSED


@pytest.mark.usefixtures("unchecked")
def test_http_option_overrides_the_http_address_in_the_broker_settings() -> None:
    assert found(muster("off", "off"), http="10.1.1.1:80") == "10.1.1.1:80"
    assert found(muster("off", "off"), muster("off", "off"), http="a:80") == "a:80"
    assert found(Scripted(KAFKA), http="10.1.1.1:80") is None


def test_error_about_an_apache_kafka_broker_suggests_a_command_that_works() -> None:
    cluster: Any = ScriptedCluster(Scripted(KAFKA))
    with pytest.raises(CommandError) as caught:
        api_of(cluster, "groups why", None, 30, "g")

    assert "the broker at 10.0.0.5:9092 is not a Muster broker" in str(caught.value)
    assert "`muster groups describe GROUP` works with any Kafka" in str(caught.value)
    assert caught.value.exit_code == REFUSED


# ------------------------------------------------------- the server at the HTTP address


@contextmanager
def answering(status: int, body: bytes, length: int | None = None) -> Iterator[SimpleNamespace]:
    """Runs an HTTP server that returns one fixed response. ``asked`` has path and Host header of
    each request."""
    seen = SimpleNamespace(asked=[], status=status, body=body)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.asked.append((self.path, self.headers["Host"]))
            named = self.headers["Host"].startswith("localhost")
            self.send_response(421 if named and seen.status == 421 else min(seen.status, 404))
            self.send_header("Content-Length", str(length or len(seen.body)))
            self.end_headers()
            self.wfile.write(seen.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    seen.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def broker_of(cluster: str) -> bytes:
    return json.dumps({"cluster": cluster, "broker": 1}).encode()


def api(port: int, host: str = "127.0.0.1", timeout_s: float = 30) -> Api:
    return Api(f"{host}:{port}", "top", timeout_s, "ours", "127.0.0.1:9092")


def test_http_api_of_another_cluster_is_rejected_at_the_first_request() -> None:
    with answering(200, broker_of("theirs")) as seen, pytest.raises(CommandError) as caught:
        api(seen.port).get("/api/groups")

    assert str(caught.value) == (
        f"the HTTP API at 127.0.0.1:{seen.port} belongs to cluster theirs, and the broker at"
        " 127.0.0.1:9092 to cluster ours: choose the same cluster with --bootstrap and --http"
    )
    assert caught.value.exit_code == REFUSED
    assert [path for path, _ in seen.asked] == ["/api/broker"]


def test_http_client_checks_the_cluster_id_again_only_after_a_failed_request() -> None:
    with answering(200, broker_of("ours")) as seen:
        asking = api(seen.port)
        asking.get("/api/groups")
        asking.get("/api/groups")
        assert [path for path, _ in seen.asked] == ["/api/broker", "/api/groups", "/api/groups"]
    with pytest.raises(CommandError, match="no server answers at"):
        asking.get("/api/groups")

    assert asking.broker == {}, "another Muster may listen on this address later"


@pytest.mark.parametrize(
    ("status", "body", "length", "says"),
    [
        (404, b"<html>no such page</html>", None, r"is not Muster \(status 404\)"),
        (200, b"[]", None, r"is not Muster \(status 200\)"),
        (200, b"{}", None, "belongs to cluster None"),
        (200, b"{", 1000, "IncompleteRead"),
    ],
)
def test_http_server_that_is_not_muster_is_rejected(
    status: int, body: bytes, length: int, says: str
) -> None:
    with answering(status, body, length) as seen, pytest.raises(CommandError, match=says):
        api(seen.port).get("/api/groups")


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (403, ""),
        (401, "; log in with a file of Kafka client properties: --command-config"),
    ],
)
def test_error_about_denied_metrics_names_the_missing_right(status: int, advice: str) -> None:
    with answering(status, b"no") as seen:
        asking = api(seen.port)
        asking.broker = {"cluster": "ours"}
        with pytest.raises(CommandError) as caught:
            asking.text("/metrics")

    said = "not authorized to read /metrics: the user needs DESCRIBE on the cluster"
    assert str(caught.value) == said + advice
    assert caught.value.exit_code == REFUSED


def test_http_request_is_repeated_with_the_ip_address_after_status_421() -> None:
    with answering(421, broker_of("ours")) as seen:
        seen.status = 421
        with pytest.raises(CommandError, match="status 404"):
            api(seen.port, "localhost").get("/api/groups")

    assert [host for _, host in seen.asked] == [f"localhost:{seen.port}", "127.0.0.1"]


def test_endless_http_response_ends_with_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port, ended = server.getsockname()[1], threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not ended.wait(0.02):
                    connection.sendall(b" ")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(CommandError, match=r"no response within 0\.3 s") as caught:
            api(port, timeout_s=0.3).get("/api/groups")
        ended.set()
        thread.join(10)

    assert caught.value.exit_code == UNREACHABLE


@pytest.mark.parametrize("address", ["localhost", "h:0", "h:65536", "h:x", "h:" + "9" * 5000])
def test_http_option_with_an_invalid_address_is_rejected(address: str) -> None:
    done = run("groups", "why", "g", "--http", address)

    assert done.code == USAGE
    assert "write it as HOST:PORT" in done.err


# ---------------------------------------------------- commands at real and unreachable brokers

COMMANDS = [
    ("groups", "why", "billing"),
    ("groups", "watch", "billing"),
    ("groups", "watch"),
    ("top", "--once", "--every", "0.05"),
    ("offsets", "expiring", "--within", "8d"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_http_commands_exit_3_when_no_broker_answers(words: tuple[str, ...]) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = run(*words, "-b", address)

    assert done.code == UNREACHABLE
    assert f"no broker answers at {address}" in done.err


@pytest.mark.interop
@pytest.mark.skipif(KIND != "muster", reason="the HTTP API is Muster's own")
def test_http_commands_never_show_a_group_of_another_cluster_than_the_bootstrap_cluster(
    tmp_path: Path,
) -> None:
    ours = Broker(tmp_path / "ours", http="127.0.0.1:0")
    theirs = Broker(tmp_path / "theirs", http="127.0.0.1:0")
    silent = Broker(tmp_path / "silent")
    with running(ours, theirs, silent):
        for broker, offsets in ((ours, ["orders:0=1"]), (theirs, ["orders:0=2", "orders:1=2"])):
            run("topics", "create", "orders", "-p", "2", "-b", broker.bootstrap)
            run("produce", "orders", "-p", "0", "-v", "a", "-v", "b", "-b", broker.bootstrap)
            run("produce", "orders", "-p", "1", "-v", "a", "-v", "b", "-b", broker.bootstrap)
            words = ("offsets", "set", "billing", *offsets, "--execute", "-b", broker.bootstrap)
            assert run(*words).code == 0
        expiring = ("offsets", "expiring", "--within", "8d", "--json")
        listed = [run(*expiring, "-b", each.bootstrap).json["offsets"] for each in (ours, theirs)]
        lags = [
            run("top", "--once", "--every", "0.05", "--json", "-b", each.bootstrap).json["groups"]
            for each in (ours, theirs)
        ]
        their_http = theirs_http(theirs)
        crossed = [run(*words, "-b", ours.bootstrap, "--http", their_http) for words in COMMANDS]
        off = [run(*words, "-b", silent.bootstrap) for words in COMMANDS]
        given = run("groups", "why", "billing", "-b", theirs.bootstrap, "--http", their_http)
        none = run("groups", "why", "nobody", "-b", ours.bootstrap)
        slip = run("groups", "why", "biling", "-b", ours.bootstrap)

    assert [len(rows) for rows in listed] == [1, 2]
    assert [[row["lag"] for row in rows] for rows in lags] == [[1], [0]]
    assert {done.code for done in crossed} == {REFUSED}
    assert all(
        "choose the same cluster with --bootstrap and --http" in done.err for done in crossed
    )
    assert [done.out for done in crossed] == [""] * len(COMMANDS)
    assert {done.code for done in off} == {UNREACHABLE}
    assert all("http.listener is off" in done.err for done in off)
    assert given.out.startswith("billing  Empty")
    assert none.err == (
        "muster: group nobody does not exist; `muster groups list` shows all groups\n"
    )
    assert slip.err.endswith("shows all groups; did you mean billing?\n")


@pytest.mark.interop
@pytest.mark.skipif(KIND != "muster", reason="the HTTP API is Muster's own")
def test_error_of_transactions_why_suggests_a_correction_of_an_unknown_argument(
    tmp_path: Path,
) -> None:
    """If the argument is a topic, the error asks for a partition. If the argument is a partition of
    a misspelled topic, the error suggests the topic with the most similar name."""
    broker = Broker(tmp_path / "data", http="127.0.0.1:0")
    with running(broker):
        run("topics", "create", "orders", "-b", broker.bootstrap)
        asked = {
            what: run("transactions", "why", what, "-b", broker.bootstrap).err
            for what in ("orders", "orders:1", "ordres:0", "nobody")
        }
        held = run("transactions", "why", "orders:0", "-b", broker.bootstrap)

    assert asked == {
        "orders": "muster: orders is a topic: name a partition, such as orders:0;"
        " transactional id orders does not exist; `muster transactions list` shows all"
        " transactions\n",
        "orders:1": "muster: orders does not have partition 1, only 0 to 0\n",
        "ordres:0": "muster: topic ordres does not exist; `muster topics list` shows all topics;"
        " did you mean orders?\n",
        "nobody": "muster: transactional id nobody does not exist; `muster transactions list` shows"
        " all transactions\n",
    }
    assert held.out == "orders-0 is not blocked by a transaction\n"


@pytest.mark.interop
@pytest.mark.skipif(KIND != "muster", reason="the HTTP API is Muster's own")
def test_transactions_why_lists_in_one_line_all_partitions_that_a_transaction_blocks(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path / "data", http="127.0.0.1:0")
    with running(broker), Wire(broker.port) as wire:
        create_led(wire, "orders", 7)
        producer = initialized(wire, "billing-1")
        for partition in range(7):
            assert producer.produce("orders", partition=partition)["error_code"] == NONE
        told = run("transactions", "why", "billing-1", "-b", broker.bootstrap).out.splitlines()

    assert told[1].startswith("orders-0 is blocked at offset 0 by transaction 'billing-1' (")
    assert told[2] == (
        "the transaction also blocks read_committed consumers of orders-1 at offset 0,"
        " orders-2 at offset 0,"
        " orders-3 at offset 0, orders-4 at offset 0 and 2 more partitions"
    )
    assert told[4] == "    $ muster transactions abort billing-1"


def theirs_http(broker: Broker) -> str:
    """Returns the value of http.advertised.listener of the broker."""
    words = ("configs", "get", "http.advertised.listener", "--broker", "1", "--json")
    done = run(*words, "-b", broker.bootstrap)
    return str(done.json[0]["value"])


@pytest.mark.interop
def test_http_commands_reject_apache_kafka(tmp_path: Path) -> None:
    kafka = KafkaBroker(tmp_path / "kafka")
    with running(kafka):
        told = [run(*words, "-b", kafka.bootstrap) for words in COMMANDS]

    assert {done.code for done in told} == {REFUSED}
    for done in told:
        assert f"the broker at {kafka.bootstrap} is not a Muster broker" in done.err
        assert "with any Kafka" in done.err
        assert done.out == ""
