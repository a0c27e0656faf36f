"""The version of this Muster."""

from __future__ import annotations

from musterd import __version__

VERSION = __version__
"""Not from the package's metadata, which takes 20 ms to read."""
