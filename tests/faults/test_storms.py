"""Floods of requests from administrators or unauthenticated clients do not delay other clients.

Several connections send requests as fast as the broker answers, and an authenticated client sends
heartbeats. The broker must answer 99 of 100 heartbeats within 50 ms, and during a flood of TLS
handshakes all heartbeats. Time in which the broker or the client waits for a CPU core does not
count.
"""

from __future__ import annotations

import base64
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count

import jwt
import pytest

from broker.config.authorizer_rules import STANDARD
from tests.broker.apis.test_acls import describe, entry, wanted
from tests.broker.authentication.bearers import HANDLER, OTHER, keys, token
from tests.brokers import Broker, free_port
from tests.certificates import Authority
from tests.core_waits import CoreWaits
from tests.raw_connection import frame
from tests.waiting import until
from tests.wire import Wire

pytestmark = [pytest.mark.faults, pytest.mark.proves("security 35")]

WAIT_S_MAX = 0.05
TRIES = 4
"""The maximum number of tries of a measurement, because other load on the machine can slow down one
try."""
CLIENTS = 3
ENTRIES = 10_000
"""The number of ACLs in each client's request."""
HANDSHAKES = 500
ANSWERED_WITHIN_S = 120.0


class Beats:
    """A client that sends heartbeats continuously and measures their durations."""

    def __init__(self, broker: Broker, port: int) -> None:
        self.took_s: list[float] = []
        self._broker_pid = broker.pid
        self._wire = Wire(port)
        self._wire.call("FindCoordinator", 2, {"key": "g"})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Beats:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(ANSWERED_WITHIN_S)
        self._wire.close()

    def _run(self) -> None:
        value = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        request = frame("Heartbeat", 3, 1, value)
        core_waits = CoreWaits(self._broker_pid)
        while not self._stop.wait(0.001):
            began = time.perf_counter() - core_waits.seconds()
            self._wire.socket.sendall(request)
            answer_of(self._wire.socket)
            self.took_s.append(time.perf_counter() - core_waits.seconds() - began)

    def p99_s(self, storm: Callable[[], None]) -> float:
        """Returns the 99th percentile of the heartbeat durations while ``storm`` runs, in
        seconds."""
        took = self._beside(storm)
        return took[len(took) * 99 // 100]

    def longest_s(self, storm: Callable[[], None]) -> float:
        """Returns the longest heartbeat duration while ``storm`` runs, in seconds."""
        return self._beside(storm)[-1]

    def _beside(self, storm: Callable[[], None]) -> list[float]:
        self.took_s.clear()
        storm()
        took = sorted(self.took_s)
        assert took, "no heartbeat was answered at all"
        return took


def answer_of(sock: socket.socket) -> int:
    size = left = struct.unpack(">i", some(sock, 4))[0]
    while left:
        left -= len(some(sock, min(left, 1 << 18)))
    return int(size)


def some(sock: socket.socket, size: int) -> bytes:
    data = sock.recv(size)
    if not data:
        raise EOFError
    return data


def at_once(work: Callable[[int], None], clients: int = CLIENTS) -> None:
    """Calls ``work`` once for each client, with the client's number, concurrently in threads."""
    failed: list[BaseException] = []

    def run(client: int) -> None:
        try:
            work(client)
        except BaseException as error:  # noqa: BLE001 - the waiting caller raises it
            failed.append(error)

    threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def asked(port: int, requests: Iterable[bytes], comes_from: str = "127.0.0.1") -> None:
    """Sends the requests on one connection. Each request waits for the response to the previous
    one."""
    at, own = ("127.0.0.1", port), (comes_from, 0)
    with socket.create_connection(at, ANSWERED_WITHIN_S, own) as sock:
        for request in requests:
            sock.sendall(request)
            answer_of(sock)


def shortest(
    beats: Beats, storm: Callable[[], None], again: Callable[[], None] | None = None
) -> float:
    """Runs a storm up to `TRIES` times, until the 99th percentile of the heartbeat durations is
    small enough. Returns the smallest of these percentiles. Calls ``again`` between two runs."""
    found = beats.p99_s(storm)
    for _ in range(TRIES - 1):
        if found > WAIT_S_MAX:
            if again:
                again()
            found = min(found, beats.p99_s(storm))
    return found


# -- ACLs


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields a broker with an ACL authorizer in which all clients are super users."""
    settings = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    broker = Broker(tmp_path_factory.mktemp("storms") / "data", settings).start()
    yield broker
    assert broker.stop() == 0, broker.tail()


def test_many_acl_requests_at_once_do_not_delay_other_clients(judging: Broker) -> None:
    port = judging.port
    rounds = count()

    def creations(client: int, of: int) -> bytes:
        made = [entry(f"{of}-{client}-{n}", pattern=3 + n % 2) for n in range(ENTRIES)]
        return frame("CreateAcls", 3, 1, {"creations": made})

    def created() -> None:
        of = next(rounds)
        requests = [creations(client, of) for client in range(CLIENTS)]
        at_once(lambda client: asked(port, [requests[client]]))

    def changed_one_by_one() -> None:
        def one(client: int) -> None:
            made = [entry(f"one-{client}-{n}") for n in range(3)]
            asked(port, [frame("CreateAcls", 3, 1, {"creations": [each]}) for each in made])

        at_once(one)

    every = frame("DescribeAcls", 3, 1, wanted())
    nothing = frame("DeleteAcls", 3, 1, {"filters": [wanted(principal="User:nobody")] * 5})
    all_twice = frame("DeleteAcls", 3, 1, {"filters": [wanted()] * 2})
    storms: dict[str, Callable[[], None]] = {
        "created": created,
        "described": lambda: at_once(lambda _: asked(port, [every] * 2)),
        "changed one by one": changed_one_by_one,
        "looked for": lambda: at_once(lambda _: asked(port, [nothing])),
        "deleted": lambda: at_once(lambda _: asked(port, [all_twice])),
    }
    with Beats(judging, port) as beats:
        took = {
            name: shortest(beats, storm, created if name == "deleted" else None)
            for name, storm in storms.items()
        }
    assert {name: s for name, s in took.items() if s > WAIT_S_MAX} == {}, took
    with Wire(port) as wire:
        assert describe(wire, wanted()) == []


# -- unauthenticated clients


class TwoListeners(Broker):
    """A broker with a plaintext listener for heartbeats, and another listener for the clients of
    the flood."""

    protocol = "SASL_PLAINTEXT"
    other_port = 0

    def _command(self) -> list[str]:
        self.other_port = self.other_port or free_port()
        ours = f"PLAINTEXT://127.0.0.1:{self.port},{self.protocol}://127.0.0.1:{self.other_port}"
        sets = [f"--set={key}={value}" for key, value in self.settings.items()]
        named = ["--data", str(self.data), "--http", "off", f"--set=listeners={ours}"]
        return [*self.command, "serve", *named, *sets]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoListeners]:
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "keys.json").write_text(keys())
    listener = "listener.name.sasl_plaintext"
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "connection.failed.authentication.delay.ms": "0",
    }
    broker = TwoListeners(folder / "data", settings)
    broker.port = free_port()
    broker.start()
    yield broker
    assert broker.stop() == 0, broker.tail()


def bearer(text: str) -> list[tuple[str, list[bytes]]]:
    return [("OAUTHBEARER", [b"n,,\x01auth=Bearer " + text.encode() + b"\x01\x01", b"\x01"])]


def wrong_nonce() -> list[tuple[str, list[bytes]]]:
    final = b"c=biws,r=other,p=" + base64.b64encode(bytes(64))
    return [("SCRAM-SHA-512", [b"n,,n=alice,r=abc", final])]


def forged() -> list[tuple[str, list[bytes]]]:
    unsigned = jwt.encode({"sub": "admin", "exp": 4e9, "iat": 0}, None, "none", {"kid": "a"})
    shared = token("s" * 32, "HS256")
    others = token(OTHER, iat=0, exp=4_000_000_000)
    return [*bearer(unsigned), *bearer(shared), *bearer(others)]


@contextmanager
def crowd(port: int, count: int, data: bytes) -> Iterator[None]:
    """Opens connections that send ``data`` to start an authentication, but never finish it."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    try:
        for each in sockets:
            with suppress(OSError):  # the broker may have closed the oldest connections
                each.sendall(data)
        yield
    finally:
        for each in sockets:
            each.close()


@pytest.mark.parametrize("logins", [wrong_nonce, forged], ids=["nonces", "tokens"])
def test_failing_logins_do_not_delay_other_clients(
    asking: TwoListeners, logins: Callable[[], list[tuple[str, list[bytes]]]]
) -> None:
    tries = logins()

    def guess(client: int) -> None:
        """Sends wrong passwords. Each guess has a different source address, because the broker
        delays logins from an address after a failure."""
        for number in range(60):
            mechanism, tokens = tries[(client + number) % len(tries)]
            requests = [frame("SaslHandshake", 1, 1, {"mechanism": mechanism})]
            requests += [frame("SaslAuthenticate", 1, 1, {"auth_bytes": each}) for each in tokens]
            with suppress(EOFError, ConnectionError):  # closed after the failure
                asked(asking.other_port, requests, f"127.0.{client + 1}.{number + 1}")

    half_done = frame("SaslHandshake", 1, 1, {"mechanism": "SCRAM-SHA-512"}) + struct.pack(
        ">i", 500_000
    )
    half_done += b"x" * 1000
    with Beats(asking, asking.port) as beats, crowd(asking.other_port, 300, half_done):
        took = shortest(beats, lambda: at_once(guess))
    assert took < WAIT_S_MAX
    told = f"mechanism={tries[0][0]} "

    def failed() -> int:
        return sum("login failed" in line and told in line for line in list(asking.log))

    until("each is told of", lambda: failed() >= 180)


class WithTls(TwoListeners):
    """A broker with a plaintext listener for heartbeats, and a TLS listener for the clients of the
    flood."""

    protocol = "SSL"


@pytest.fixture(scope="module")
def encrypting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithTls]:
    folder = tmp_path_factory.mktemp("handshakes")
    own = Authority(folder).issue("broker")
    broker = WithTls(folder / "data", {"ssl.keystore.location": str(own.pem)})
    broker.port = free_port()
    broker.start()
    yield broker
    assert broker.stop() == 0, broker.tail()


class HalfWay:
    """A TLS client that has sent only the first message of its TLS handshake."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWERED_WITHIN_S)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()

    def begin(self) -> None:
        self._socket.sendall(self._outgoing.read())

    def end(self) -> None:
        while True:
            self._incoming.write(some(self._socket, 1 << 16))
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                break
        self._socket.sendall(self._outgoing.read())

    def close(self) -> None:
        self._socket.close()


def test_hundreds_of_tls_handshakes_do_not_delay_other_clients(encrypting: WithTls) -> None:
    """All handshakes start at once. The test limits the longest time that a heartbeat of another
    client takes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def storm(clients: list[HalfWay]) -> None:
        for client in clients:
            client.begin()
        for client in clients:
            client.end()

    took = []
    with Beats(encrypting, encrypting.port) as beats:
        while len(took) < TRIES and min(took, default=1.0) > WAIT_S_MAX:
            clients = [HalfWay(encrypting.other_port, context) for _ in range(HANDSHAKES)]
            took.append(beats.longest_s(partial(storm, clients)))
            for client in clients:
                client.close()
    assert min(took) < WAIT_S_MAX, took
