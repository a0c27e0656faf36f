"""The version of this Muster installation."""

from __future__ import annotations

from musterd import __version__

VERSION = __version__
"""The version in the source code. Reading the package's metadata instead would take 20 ms."""
