"""Records every request and its response as bytes, and decodes them on demand.

Above a limit of entries or of memory, the recorder drops and counts the oldest entries. It stores
only the header of a request or response that is larger than `ENTRY_BYTES_MAX`. If a response reads
records from files, it stores only the first `SLICE_KEPT_BYTES` of the records of each partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker.test_mode.requests.decoded import answer_view, error_names, request_view
from log.values import Slice

if TYPE_CHECKING:
    from broker.net.request import Request
    from broker.time import Time
    from protocol.schema import Api

ENTRIES_MAX = 20_000
BYTES_MAX = 64 * 1024 * 1024
ENTRY_BYTES_MAX = 4 * 1024 * 1024
SLICE_KEPT_BYTES = 64 * 1024
_OVERHEAD_BYTES = 500
"""The estimated memory of an entry in bytes, without its two bodies."""
_LENGTH_BYTES = 4

WAITS = "waits"
ANSWERED = "answered"
WANTS_NONE = "wants no answer"
DISCONNECTED = "disconnected"


class Entry:
    """A recorded request and its response."""

    __slots__ = (
        "_body", "_missing", "_parts", "api", "at_ms", "bytes", "client_id", "correlation_id",
        "error_code", "faults", "host", "outcome", "seq", "took_ns", "version",
    )  # fmt: skip

    def __init__(self, seq: int, at_ms: int, request: Request) -> None:
        self.seq = seq
        self.at_ms = at_ms
        self.api: Api = request.served.api
        self.version = request.api_version
        self.client_id = request.client_id
        self.host = request.connection.client_host
        self.correlation_id = request.correlation_id
        self.outcome = WAITS
        self.took_ns: int | None = None
        self.faults: list[str] = []
        body = request.buffer[request.position :]
        self._body: bytes | None = body if len(body) <= ENTRY_BYTES_MAX else None
        self._parts: list[bytes | int] | None = None
        """The parts of the response's frame: recorded bytes, or the number of record bytes that
        were not recorded."""
        self._missing = False
        """True if the response was too large to be recorded."""
        self.bytes = _OVERHEAD_BYTES + len(self._body or b"")

    def answer(self, request: Request, took_ns: int) -> None:
        """Records the response of the request. ``took_ns`` is the time that the broker took."""
        self.took_ns = took_ns
        reply = request.reply
        assert reply is not None
        if not reply:
            self.outcome = WANTS_NONE
            return
        self.outcome = ANSWERED
        parts = list(_kept((reply,) if isinstance(reply, bytes) else reply))
        size = sum(len(part) for part in parts if isinstance(part, bytes))
        if size > ENTRY_BYTES_MAX:
            self._missing = True
        else:
            self._parts = parts
            self.bytes += size

    def row(self) -> dict[str, Any]:
        row = self.short()
        row["request"] = None if self._body is None else request_view(
            self.api, self.version, self._body
        )  # fmt: skip
        row["response"] = None
        if self._parts is not None:
            row["response"] = answer_view(self.api, self.version, self._frame())
        if self._body is None or self._missing:
            row["note"] = f"bodies of more than {ENTRY_BYTES_MAX} bytes are not recorded"
        found = error_names(row["response"])
        row["error"] = found[0] if found else None
        row["errors"] = found
        return row

    def short(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "at_ms": self.at_ms,
            "api": self.api.name,
            "version": self.version,
            "client_id": self.client_id,
            "host": self.host.removeprefix("/"),
            "correlation_id": self.correlation_id,
            "outcome": self.outcome,
            "took_ms": None if self.took_ns is None else round(self.took_ns / 1e6, 3),
            "faults": self.faults,
        }

    def _frame(self) -> bytes:
        """Returns the response's frame without its length prefix. Record bytes that were not
        recorded are replaced by zeros."""
        assert self._parts is not None
        frame = b"".join(part if isinstance(part, bytes) else bytes(part) for part in self._parts)
        return frame[_LENGTH_BYTES:]


class RequestRecorder:
    """The recorded entries, oldest first. Only the event loop's thread may use this class."""

    def __init__(self, time: Time) -> None:
        self.time = time
        """The broker's time, which sets the field `at_ms` of entries."""
        self.dropped = 0
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._next = 1
        self._open: dict[Request, Entry] = {}
        self._met: dict[Request, list[str]] = {}

    def met(self, request: Request, fault_id: str) -> None:
        """Notes in the entry of a request that a fault affects the request. Called when the request
        is handled."""
        self._met.setdefault(request, []).append(fault_id)

    def came(self, request: Request) -> None:
        """Adds an entry for a request whose handler has returned. The entry has the response if the
        response is finished."""
        entry = Entry(self._next, self.time.now().wall_ms, request)
        entry.faults = self._met.pop(request, [])
        self._next += 1
        if request.reply is None:
            self._open[request] = entry
        else:
            entry.answer(request, self.time.ticks_ns() - request.since_ns)
        self._entries.append(entry)
        self._bytes += entry.bytes
        self._bound()

    def answered(self, request: Request) -> None:
        """Adds the response to the entry of a request that was parked."""
        entry = self._open.pop(request, None)
        if entry is None:
            return
        before = entry.bytes
        entry.answer(request, self.time.ticks_ns() - request.since_ns)
        if self._entries and entry.seq >= self._entries[0].seq:
            self._bytes += entry.bytes - before
            self._bound()

    def lost(self, request: Request) -> None:
        """Notes in the entry of a request that its client has disconnected. A response may still
        follow."""
        entry = self._open.get(request)
        if entry is not None:
            entry.outcome = DISCONNECTED

    def forget(self) -> None:
        """Removes all entries. The numbers of later entries continue without a reset."""
        self._entries.clear()
        self._open.clear()
        self._met.clear()
        self._bytes = self.dropped = 0

    def entries(
        self, *, since: int = 0, client_id: str | None = None, api: Api | None = None
    ) -> list[Entry]:
        """Returns the entries whose number is at least ``since``. ``client_id`` and ``api``
        restrict the result."""
        return [
            entry
            for entry in self._entries
            if entry.seq >= since
            and client_id in (None, entry.client_id)
            and api in (None, entry.api)
        ]

    @property
    def next_seq(self) -> int:
        return self._next

    def _bound(self) -> None:
        while len(self._entries) > ENTRIES_MAX or self._bytes > BYTES_MAX:
            gone = self._entries.popleft()
            self._bytes -= gone.bytes
            self.dropped += 1


def _kept(reply: Any) -> Iterator[bytes | int]:
    for chunk in reply:
        if not isinstance(chunk, Slice):
            yield bytes(chunk)
            continue
        try:
            data = bytes(chunk.file.read(chunk.position, min(chunk.length, SLICE_KEPT_BYTES)))
        except OSError:
            data = b""
        yield data
        if len(data) < chunk.length:
            yield chunk.length - len(data)
