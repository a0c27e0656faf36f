"""The three types of bytes that decoders accept and that can be written to files."""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview
"""Bytes in one of three types. The items of a ``memoryview`` must be single bytes."""
