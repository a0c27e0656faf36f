"""The three types of bytes that decoders accept and that are written to files."""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview
"""Bytes in one of three types; the items of a ``memoryview`` must be bytes."""
