"""What a test does when a program that it needs is not on the machine."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def absent(sentence: str) -> NoReturn:
    """Skip the test with `sentence`, which says what to install; with CI=true fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def program(name: str, package: str) -> str:
    """The path of the program `name`, which Debian has in `package`."""
    found = shutil.which(name)
    if found is None:
        absent(f"this test runs {name}, which is not on this machine: apt-get install -y {package}")
    return found
