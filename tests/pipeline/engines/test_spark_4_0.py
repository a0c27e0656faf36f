"""Tests of the jobs on Spark 4.0, the oldest supported version."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog

from pipeline.run.catalog import TABLES
from tests import java, waiting
from tests.brokers import CHECKOUT, free_port
from tests.cached import cached
from tests.cli.running import run
from tests.pipeline.given import table

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.timeout(900),
    pytest.mark.proves("pipeline 8", "pipeline 9"),
]

CATALOG = CHECKOUT / "tests" / "data" / "java" / "IcebergCatalog.java"
LOCKED = CHECKOUT / "tests" / "data" / "spark-4.0" / "requirements.txt"


def bring(folder: Path) -> None:
    """Installs the locked packages of Spark 4.0 into ``folder``."""
    uv = Path(sys.executable).parent / "uv"
    words = ["pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(LOCKED)]
    subprocess.run(
        [str(uv), *words, "--python", sys.executable, "--target", str(folder)],
        check=True,
        timeout=600,
    )


def heavy(*words: str) -> str:
    """Returns the output of a command that runs on Spark 4.0."""
    spark = cached("spark-4.0", LOCKED, bring)
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "pipeline", *words, "--engine", "spark"],
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
    return done.stdout


def test_all_tables_on_spark_4_0_equal_those_of_duckdb(history: Path, out: Path) -> None:
    words = ("all", "--source", str(history), "--out")
    light = run("pipeline", *words, str(out / "light"))
    assert light.code == 0, light.err

    heavy(*words, str(out / "heavy"))

    for name, made in TABLES.items():
        found = [table(out / where, name, made.schema) for where in ("light", "heavy")]
        assert found[0] == found[1], name


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[str]:
    port, log = free_port(), tmp_path / "lake.log"
    words = (str(port), (tmp_path / "lake").as_uri())
    with log.open("w") as file:
        process = subprocess.Popen(
            java.source("iceberg-rest-1.11.0", CATALOG, *words), stdout=file, stderr=file
        )

    def is_open() -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", port)) == 0

    try:
        waiting.until("the catalog answers", is_open, within_s=120)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(30)


def test_second_run_into_an_iceberg_rest_catalog_makes_the_same_tables_as_duckdb(
    history: Path, out: Path, lake: str
) -> None:
    words = ("commits", "--source", str(history))
    light = run("pipeline", *words, "--out", str(out))
    assert light.code == 0, light.err
    [runtime] = java.jars("iceberg-spark-4.0")
    settings = {
        "jars": runtime,
        "sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "sql.catalog.lake.type": "rest",
        "sql.catalog.lake.uri": lake,
    }
    conf = [word for key, value in settings.items() for word in ("--conf", f"spark.{key}={value}")]

    for _ in range(2):
        heavy(*words, "--catalog", "lake.muster", *conf)

    for name in ("commits", "transactional_commits"):
        made = TABLES[name]
        found = RestCatalog("lake", uri=lake).load_table(f"muster.{name}")
        assert [field.name for field in found.spec().fields] == ["day"]
        rows = found.scan().to_arrow().select(made.schema.names).cast(made.schema).to_pylist()
        assert sorted(rows, key=str) == table(out, name, made.schema), name
