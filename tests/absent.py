"""What a test does when a program that it needs is not on the machine."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def absent(sentence: str, *, required: bool = True) -> NoReturn:
    """Skip the test and say what to install; with CI=true fail it if the program is required."""
    if required and os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def program(name: str, package: str, *, required: bool = True) -> str:
    """The path of the program `name`, which Debian has in `package`."""
    found = shutil.which(name)
    if found is None:
        sentence = f"this test runs {name}, which is not on this machine"
        absent(f"{sentence}: apt-get install -y {package}", required=required)
    return found
