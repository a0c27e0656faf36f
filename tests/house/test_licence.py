"""The licence text is Apache 2.0, and pyproject.toml declares and installs it."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "LICENSE"
OWNER = "Copyright 2026 the Muster authors"
BLANK = "Copyright [yyyy] [name of copyright owner]"
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""The SHA-256 of the file LICENSE-2.0.txt that the Apache Software Foundation publishes."""


def test_licence_is_the_apache_2_text_with_the_copyright_line() -> None:
    text = TEXT.read_text()

    assert text.count(OWNER) == 1
    assert hashlib.sha256(text.replace(OWNER, BLANK).encode()).hexdigest() == APACHE_2


def test_pyproject_declares_the_licence_and_its_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["license"] == "Apache-2.0"
    assert project["license-files"] == [TEXT.name]
