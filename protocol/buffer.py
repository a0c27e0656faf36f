"""The three kinds of bytes that decoders read and files take."""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview
"""A ``memoryview`` must be of bytes."""
