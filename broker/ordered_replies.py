"""Replies in the order of their requests, gathered so that each turn writes once.

The half of a connection that faces out. A request that is answered while it is handled, with none
before it waiting, needs no slot; all others wait in one until those before them are finished.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from broker.request import Body, Request
from broker.response import file_chunks
from protocol.schema import Buffer

if TYPE_CHECKING:
    from broker.server import Server

_CHUNKED_BYTES = 64 * 1024
"""Replies from this size on are written chunk by chunk rather than copied into one buffer."""


class OrderedReplies:
    """Slots for requests, and the bytes of those that may leave."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.dirty = False
        """In the server's list of connections to flush."""
        self.closed = False
        """Nothing more is read, handled or written."""
        self.handling: Request | None = None
        """The request whose handler runs now; what it answers meanwhile needs no telling."""
        self.requests = 0
        """Handled so far."""
        self.bytes_in = self.bytes_out = 0
        """Replies counted when they are handed to the transport."""
        self._transport: asyncio.Transport
        self._slots: deque[Request] = deque()
        """Requests handled and not yet on their way out, in order."""
        self._parked: Request | None = None
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._busy = False
        """Requests are being handled; their replies are written at the end of that."""

    def flush(self) -> None:
        """Writes what is finished."""
        self.dirty = False
        self._write()

    def abort(self) -> None:
        """Closes the connection at once."""
        self.closed = True
        self._transport.abort()

    def answered(self, request: Request) -> None:
        """Takes the reply of a request that was not answered while it was handled."""
        if self.closed:
            return
        slots = self._slots
        if slots[0] is request:
            while slots and (reply := slots[0].reply) is not None:
                slots.popleft()
                self._append(reply)
        if self._parked is request:
            self._parked = None
        if not self._busy and not self.dirty:
            self.server.touch(self)

    def park(self, request: Request) -> None:
        """Handles no later request before ``request`` is answered."""
        self._parked = request

    def may_park(self) -> bool:
        """Whether a request may be parked now: none is, and somebody still waits for an answer."""
        return self._parked is None and not self.closed

    def _place(self, request: Request) -> None:
        """Keeps a request that was handled until its reply's turn has come; often that is now."""
        self.handling = None
        self.requests += 1
        reply = request.reply
        if reply is None or self._slots:
            self._slots.append(request)
        elif type(reply) is bytes:
            self._out.append(reply)
            self._out_bytes += len(reply)
        else:
            self._append(reply)
        if reply is not None and self._parked is request:
            self._parked = None

    def _append(self, reply: Body) -> None:
        """Hands a reply, all those before which are on their way, to the next write."""
        if isinstance(reply, (bytes, bytearray, memoryview)):
            self._out.append(reply)
            self._out_bytes += len(reply)
            return
        for chunk in file_chunks(reply):
            self._out.append(chunk)
            self._out_bytes += len(chunk)

    def _write(self) -> None:
        out = self._out
        if not out or self.closed:
            return
        self.bytes_out += self._out_bytes
        if len(out) == 1:
            self._transport.write(out[0])
        elif self._out_bytes < _CHUNKED_BYTES:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        self._out = []
        self._out_bytes = 0
