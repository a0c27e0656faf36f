"""Tests that Fetch does not copy records: the transport gets the same bytes objects that were read
from the file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, cast

from broker.apis.fetch.response import Fetched
from broker.net.connection import Connection
from broker.net.limits.connections import Limits
from broker.time import Time
from log.files.os_file import OsFile
from log.values import Slice
from protocol.generated.fetch import ENCODE_RESPONSE


class RecordingFile(OsFile):
    """A file that keeps references to the buffers that it returned."""

    def __init__(self, path: str) -> None:
        super().__init__(path, create=True)
        self.given: list[bytes | bytearray] = []

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        data = super().read_cached(position, length)
        assert data is not None
        self.given.append(data)
        return data


class Transport:
    """A fake transport that keeps each written object."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    def get_extra_info(self, name: str) -> None:
        """Implements `asyncio.BaseTransport.get_extra_info`. A transport without a socket gets
        copies of files."""

    def write(self, data: Any) -> None:
        self.written.append(data)

    def writelines(self, chunks: Iterable[Any]) -> None:
        self.written.extend(chunks)


class Server:
    """A fake server with the attributes that a new connection reads."""

    now_s = 0
    services = partials = long = None
    routes: ClassVar[dict[int, Any]] = {}
    limits = Limits()
    time = Time()


def test_fetched_records_are_passed_to_the_transport_without_a_copy(tmp_path: Path) -> None:
    file = RecordingFile(str(tmp_path / "segment"))
    file.write(0, bytes(300_000))
    fetched = Fetched(0, records=[Slice(file, 1000, 200_000)], size_bytes=200_000)
    replies, transport = Connection(cast(Any, Server()), 0), Transport()
    replies._transport = cast(asyncio.Transport, transport)

    replies._append(ENCODE_RESPONSE[12](7, 0, 0, 0, [("t", [fetched])]))
    replies._write()

    assert sum(map(len, file.given)) == 200_000
    written = {id(chunk) for chunk in transport.written}
    assert written.issuperset(map(id, file.given))
    assert sum(map(len, transport.written)) < 200_000 + 100
