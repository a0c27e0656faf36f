"""A session for little work starts Java in another way."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline.session import BRIEF_JAVA
from tests.brokers import CHECKOUT

ARGUMENTS = """
from pipeline.session import open_session
spark = open_session("local[1]", brief=True)
factory = spark._jvm.java.lang.management.ManagementFactory
print(*factory.getRuntimeMXBean().getInputArguments())
spark.stop()
"""


@pytest.mark.pipeline
def test_javas_second_compiler_stays_away_from_a_brief_session() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ARGUMENTS], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
        check=True, timeout=300,
    )  # fmt: skip

    assert set(BRIEF_JAVA.split()) <= set(done.stdout.split())
