"""The interface through which the TLS layer calls the connection that it wraps."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Wrapped(Protocol):
    """The protocol object that gets the decrypted bytes of a TLS connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the socket is accepted, before any byte arrives."""

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None:
        """Called when the peer has closed its half of the connection."""

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None:
        """Called when the peer does not read the bytes that were sent."""

    def resume_writing(self) -> None:
        """Called when the peer has resumed reading."""
