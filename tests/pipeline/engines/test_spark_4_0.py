"""The jobs on the oldest Spark that they are for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.run.catalog import TABLES
from tests.brokers import CHECKOUT
from tests.cached import cached
from tests.cli.running import run
from tests.pipeline.given import table

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]

LOCKED = CHECKOUT / "tests" / "data" / "spark-4.0" / "requirements.txt"


def bring(folder: Path) -> None:
    """Install what is locked into a folder, which Python finds before its own packages."""
    uv = Path(sys.executable).parent / "uv"
    words = ["pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(LOCKED)]
    subprocess.run(
        [str(uv), *words, "--python", sys.executable, "--target", str(folder)],
        check=True,
        timeout=600,
    )


def test_all_tables_are_those_of_duckdb_on_spark_4_0(history: Path, out: Path) -> None:
    spark = cached("spark-4.0", LOCKED, bring)
    words = ("pipeline", "all", "--source", str(history), "--out")
    light = run(*words, str(out / "light"))
    assert light.code == 0, light.err

    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words, str(out / "heavy"), "--engine", "spark"],
        env={**os.environ, "PYTHONPATH": str(spark)},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "Spark 4.0." in done.stdout
    assert done.stderr == ""
    for name, made in TABLES.items():
        found = [table(out / where, name, made.schema) for where in ("light", "heavy")]
        assert found[0] == found[1], name
