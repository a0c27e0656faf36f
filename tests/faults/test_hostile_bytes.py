"""Invalid bytes and false lengths close their connection and have no other effect. In each test,
other clients get fast responses, and the memory of the broker returns to its previous size."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers import Broker, make_broker
from tests.faults.hostile import (
    Bystander,
    closed_without_a_word,
    connect,
    ends,
    framed,
    header,
    honest,
    lies,
    resident_bytes,
    send,
    served,
)
from tests.waiting import until

pytestmark = pytest.mark.faults

GROWTH_BYTES_MAX = 5 * 1024 * 1024
WAIT_S_MAX = 1.0
"""The longest time in seconds for which another client may wait. The limit is high, because the
machine may run other tests at the same time."""
CREATES = {19, 37}
"""The API keys of CreateTopics and CreatePartitions. The tests send no mutated requests of these
APIs, because such a request could create many partitions."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields one broker for all tests. It has served requests before, so that memory growth after
    its start does not count."""
    broker = make_broker(tmp_path_factory.mktemp("hostile") / "data").start()
    for _ in range(2):
        for key, versions in served(broker).items():
            for version in versions:
                send(broker, framed(header(key, version) + honest(key, version)))
                send(broker, framed(header(key, version) + b"\x7f" * 40))
    yield broker
    assert broker.stop() == 0, broker.tail()


@pytest.fixture(autouse=True)
def nothing_else_happens(target: Broker) -> Iterator[None]:
    """Checks that during the test other clients get fast responses, and that after the test the
    broker still runs and uses no more memory than before."""
    before = resident_bytes(target)
    with Bystander(target) as bystander:
        yield
        until("the bystander is answered", lambda: bystander.answers > 3, 10)
    assert bystander.failure is None
    assert bystander.longest_s < WAIT_S_MAX
    memory_is_as_it_was(target, before)
    assert target.process is not None
    assert target.process.poll() is None, target.tail()


def memory_is_as_it_was(target: Broker, before: int) -> None:
    """Waits until a garbage collection returns the broker's memory to its previous size."""
    until("memory comes back", lambda: resident_bytes(target) - before < GROWTH_BYTES_MAX, 60)


@pytest.mark.parametrize("length", [2**31 - 1, 104857601, -1, -(2**31), 0, 7])
def test_invalid_frame_length_closes_the_connection(target: Broker, length: int) -> None:
    sock = connect(target)
    sock.sendall(struct.pack(">i", length))

    assert closed_without_a_word(sock)


def test_false_count_or_length_in_any_request_closes_the_connection(
    target: Broker,
) -> None:
    tried = 0
    for key, versions in served(target).items():
        for version in versions:
            for what, body in lies(key, version):
                said = send(target, framed(header(key, version) + body))
                assert said == b"", f"API {key} v{version} answered a lying {what}: {said.hex()}"
                tried += 1
    assert tried > 700


def test_false_client_id_length_closes_the_connection(target: Broker) -> None:
    for key, versions in served(target).items():
        start = struct.pack(">hhih", key, versions[-1], 1, 32767)
        assert send(target, framed(start + b"short")) == b""


def test_invalid_tagged_fields_in_a_request_header_close_the_connection(target: Broker) -> None:
    for tags in (
        b"\xff\xff\xff\xff\x07",
        b"\x01\x00\xff\xff\xff\xff\x07",
        b"\x80" * 11,
        b"\x02\x01\x00\x00\x00",
    ):
        assert send(target, framed(header(12, 4)[:-1] + tags)) == b""


def test_truncated_request_in_a_complete_frame_closes_the_connection(target: Broker) -> None:
    """The broker responds only to requests whose body is complete."""
    for key, versions in served(target).items():
        whole = header(key, versions[-1]) + honest(key, versions[-1])
        for cut in range(0, len(whole), 3):
            assert send(target, framed(whole[:cut])) == b"", f"API {key} cut at {cut}"


def test_incomplete_frame_closes_only_the_connection_that_sent_it(target: Broker) -> None:
    for key, versions in served(target).items():
        whole = framed(header(key, versions[-1]) + honest(key, versions[-1]))
        assert send(target, whole[:-1]) == b""


def test_random_and_mutated_bodies_do_not_affect_other_clients(target: Broker) -> None:
    chance = random.Random(20260101)
    for key, versions in served(target).items():
        for version in versions:
            for size in (1, 17, 300):
                send(target, framed(header(key, version) + chance.randbytes(size)))
            if key in CREATES:
                continue
            body = bytearray(honest(key, version))
            for _ in range(3):
                if body:
                    body[chance.randrange(len(body))] = chance.randrange(256)
                send(target, framed(header(key, version) + bytes(body)))


def test_random_bytes_do_not_affect_other_clients(target: Broker) -> None:
    chance = random.Random(7)
    for size in (1, 4, 10, 100, 5000):
        for _ in range(20):
            send(target, chance.randbytes(size))


def test_unknown_api_keys_and_versions_close_the_connection(target: Broker) -> None:
    known = served(target)
    for key in (*range(-3, 120, 7), 999, 32767, -32768):
        if key in known:
            continue
        assert send(target, framed(struct.pack(">hhihh", key, 0, 1, -1, 0))) == b""
    for key, versions in known.items():
        if key == 18:
            continue
        for version in (-1, versions[0] - 1, versions[-1] + 1, 32767):
            assert send(target, framed(struct.pack(">hhihh", key, version, 1, -1, 0))) == b""


def test_api_versions_request_of_an_unknown_version_returns_supported_versions(
    target: Broker,
) -> None:
    """KIP-511: the response has version 0, the error UNSUPPORTED_VERSION, and the versions of
    ApiVersions that the broker supports."""
    versions = served(target)[18]
    for version in (versions[-1] + 1, 32767, -1):
        said = send(target, framed(struct.pack(">hhihh", 18, version, 4711, -1, 0)))

        expected = struct.pack(">ihihhh", 4711, 35, 1, 18, versions[0], versions[-1])
        assert said == framed(expected)


def told(target: Broker, words: str) -> list[str]:
    """Returns the log lines about bytes that are not a Kafka request, if they contain ``words``."""
    return [line for line in list(target.log) if "not a Kafka request" in line and words in line]


def test_http_and_tls_bytes_are_rejected_with_one_log_line_each(target: Broker) -> None:
    hello = bytes.fromhex("1603010200010001fc0303") + os.urandom(500)
    for data, words in (
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", f"frame of {int.from_bytes(b'GET ')} bytes"),
        (b"POST /x HTTP/1.0\r\n\r\n", f"frame of {int.from_bytes(b'POST')} bytes"),
        (hello, "a TLS client"),
    ):
        assert send(target, data) == b""
        until("a line about it", lambda words=words: told(target, words))  # type: ignore[misc]
        assert len(told(target, words)) == 1


def test_client_ids_are_escaped_in_the_log(target: Broker) -> None:
    for evil, harmless in (
        ("a\nFAKE LINE", "FAKE LINE"),
        ("\x1b[2J", "[2J"),
        ("x" * 5000, "xxx"),
        ("grüße\u202e", "grüße"),
    ):
        send(target, framed(header(12, 0, evil) + b"\x7f"))
        [line] = until("a line about it", lambda name=harmless: told(target, name))  # type: ignore[misc]
        assert "\x1b[2J" not in line
        assert "\u202e" not in line
        assert not any(each.startswith("FAKE") for each in list(target.log))
        assert len(line) < 1000


def test_memory_for_frames_with_a_length_of_100_mib_is_not_preallocated(target: Broker) -> None:
    before = resident_bytes(target)
    socks = [connect(target) for _ in range(20)]
    for sock in socks:
        sock.sendall(struct.pack(">i", 104857600) + header(0, 3))
    with Bystander(target) as other:
        until("others are answered", lambda: other.answers > 100, 30)

    assert other.longest_s < WAIT_S_MAX
    memory_is_as_it_was(target, before)
    for sock in socks:
        ends(sock)


def test_ten_thousand_pipelined_requests_are_answered_in_order(target: Broker) -> None:
    sock = connect(target)
    body = honest(12, 0)
    start = header(12, 0)
    frames = b"".join(
        framed(start[:4] + struct.pack(">i", number) + start[8:] + body) for number in range(10_000)
    )

    def read() -> Iterator[int]:
        file = sock.makefile("rb")
        for _ in range(10_000):
            (size,) = struct.unpack(">i", file.read(4))
            yield struct.unpack_from(">i", file.read(size))[0]

    writer = threading.Thread(target=sock.sendall, args=(frames,), daemon=True)
    writer.start()
    assert list(read()) == list(range(10_000))
    writer.join(10)
    ends(sock)


def test_broker_stops_reading_when_its_responses_are_not_read(target: Broker) -> None:
    """The client repeats ApiVersions requests and has a small receive buffer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    sock.connect(("127.0.0.1", target.port))
    sock.settimeout(1)
    question = framed(header(18, 0)) * 1000
    sent = 0
    try:
        while sent < 2000:
            sock.sendall(question)
            sent += 1
    except TimeoutError:
        pass
    sock.close()
    assert sent < 2000, "2 million answers were taken in that nobody read"


def test_flood_of_connections_is_limited_to_max_connections(
    brokers: Callable[..., Broker], tmp_path: Path
) -> None:
    broker = brokers({"max.connections": "50"})
    socks = [connect(broker) for _ in range(80)]
    refused = [sock for sock in socks[50:] if closed_without_a_word(sock)]

    assert len(refused) == 30
    sock = socks[0]
    sock.sendall(framed(header(18, 0)))
    assert sock.recv(4)
    for sock in socks[:50]:
        sock.close()


def test_idle_connection_is_closed_after_connections_max_idle_ms(
    brokers: Callable[..., Broker],
) -> None:
    broker = brokers({"connections.max.idle.ms": "1000"})
    silent, half = connect(broker), connect(broker)
    half.sendall(struct.pack(">i", 100) + b"abc")

    assert closed_without_a_word(silent)
    assert closed_without_a_word(half)
