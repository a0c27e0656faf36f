"""The three kinds of bytes that decoders accept and files are written from."""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview
"""A ``memoryview`` must be of bytes."""
