"""What decoders read and files take: the three kinds of bytes."""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview
"""A ``memoryview`` must be of bytes."""
