"""The version of this Muster."""

from __future__ import annotations

from musterd import __version__

VERSION = __version__
"""The version in the source; reading the package's metadata would take 20 ms."""
