"""The interface that a layer of TLS needs of the connection that speaks over it."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Wrapped(Protocol):
    """The connection that speaks over the layer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer is there; nothing has come of it."""

    def data_received(self, data: bytes) -> None:
        """Decrypted bytes came."""

    def eof_received(self) -> bool | None:
        """The peer says that nothing more comes."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone."""

    def pause_writing(self) -> None:
        """The peer does not take what it is sent."""

    def resume_writing(self) -> None:
        """It does again."""
