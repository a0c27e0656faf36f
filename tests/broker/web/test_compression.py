from __future__ import annotations

import asyncio
import gzip
import threading
import zlib
from pathlib import Path

import pytest

from broker.web.compression import AT_ONCE_BYTES, accepts_gzip
from tests.broker.config.served import GROUP
from tests.broker.seen import Scrape, Seen, seeing

GZIP = "Accept-Encoding: gzip"


async def asked(seen: Seen, path: str, *headers: str) -> tuple[dict[str, str], bytes]:
    """Returns the headers and the body of a response. The chunks of the body are joined, but a
    compressed body is not decompressed."""
    host, _, port = seen.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    status, *rest = head.decode().split("\r\n")
    assert status == "HTTP/1.1 200 OK"
    found = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    if found.get("transfer-encoding") != "chunked":
        return found, body
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole += body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]
    return found, whole


async def test_scrape_is_compressed_when_the_request_accepts_gzip(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await seen.client.commit(GROUP, 1)
        headers, packed = await asked(seen, "/metrics", GZIP)
        plain_headers, plain = await asked(seen, "/metrics")

    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == plain_headers["vary"] == "Accept-Encoding"
    assert headers["content-type"] == plain_headers["content-type"]
    assert "content-encoding" not in plain_headers
    scrape, expected = Scrape(gzip.decompress(packed).decode()), Scrape(plain.decode())
    assert set(scrape.values) == set(expected.values)
    assert len(packed) * 4 < len(plain)


async def test_small_responses_and_stream_events_are_not_compressed(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        headers, body = await asked(seen, "/livez", GZIP)
        assert body == b'{"live":true}'
        assert "content-encoding" not in headers
        for number in range(60):
            await seen.client.commit(f"group-{number}", 1)
        headers, body = await asked(seen, "/api/groups", GZIP)
        assert headers["content-encoding"] == "gzip"
        assert b'"group-59"' in gzip.decompress(body)
        host, _, port = seen.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = ["GET /api/live?watch=groups HTTP/1.1", "Host: localhost", GZIP, "", ""]
        writer.write("\r\n".join(lines).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert b"text/event-stream" in head
        assert b"content-encoding" not in head
        writer.close()


async def test_large_response_is_compressed_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    packed = zlib.compressobj

    class Watched:
        """A compressor that records the threads in which large data is compressed."""

        def __init__(self, *words: int) -> None:
            self._pack = packed(*words)

        def compress(self, data: bytes) -> bytes:
            if len(data) > AT_ONCE_BYTES:
                threads.append(threading.get_ident())
            return self._pack.compress(data)

        def flush(self) -> bytes:
            return self._pack.flush()

    monkeypatch.setattr(zlib, "compressobj", Watched)
    async with seeing(tmp_path) as seen:
        await asked(seen, "/metrics", GZIP)

    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("deflate, gzip;q=0.5, br", True),
        ("*", True),
        ("gzip; q=0.001", True),
        ("identity;q=0.5, gzip;q=1.0", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("*;q=0", False),
        ("*, gzip;q=0", False),
        ("identity, gzip;q=0.5", False),
        ("gzip;q=high", False),
        ("notgzip", False),
    ],
)
def test_gzip_is_used_only_when_accept_encoding_allows_gzip(header: str, accepted: bool) -> None:
    assert accepts_gzip([header]) is accepted


def test_accept_encoding_can_be_in_several_headers() -> None:
    assert accepts_gzip(["br", "gzip"])
    assert not accepts_gzip([])
