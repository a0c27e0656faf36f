"""Skips or fails a test if a program that it needs is not installed on the machine."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def absent(sentence: str, *, required: bool = True) -> NoReturn:
    """Skips the test and prints ``sentence``, which says how to install the missing program. Fails
    the test instead if CI=true and ``required``."""
    if required and os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def program(name: str, package: str, *, required: bool = True) -> str:
    """Returns the path of the program ``name``, which the Debian package ``package`` installs.
    Skips the test if it is missing."""
    found = shutil.which(name)
    if found is None:
        sentence = f"this test runs {name}, which is not on this machine"
        absent(f"{sentence}: apt-get install -y {package}", required=required)
    return found
