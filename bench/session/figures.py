"""Passes the figures of a session from its fixtures to bench/session/__main__.py."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

FILE = "SESSION_FIGURES"
"""The environment variable with the path of the file of figures."""


def write(figures: Mapping[str, float]) -> None:
    """Writes the measured figures of this test session to a file. The keys are titles of columns in
    the table of results."""
    Path(os.environ[FILE]).write_text(json.dumps(figures))
