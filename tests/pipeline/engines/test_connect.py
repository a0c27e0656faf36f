"""Tests of jobs on Spark Connect: the client has no Java, and the Spark server reads the
sources."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from pipeline.java import find_java, used
from pipeline.run.catalog import TABLES
from pipeline.session import BRIEF_JAVA
from tests import waiting
from tests.brokers import CHECKOUT, free_port
from tests.cli.running import run
from tests.pipeline.given import table

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(600), pytest.mark.proves("pipeline 8")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, folder = free_port(), tmp_path_factory.mktemp("server")
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.ui.enabled": "false",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with used(find_java(pyspark.__version__)), (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                f"{Path(pyspark.__file__).parent}/bin/spark-submit",
                *("--master", "local[2]", "--driver-java-options", BRIEF_JAVA, *words),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                "spark-internal",
            ],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            cwd=folder,
            stdout=log,
            stderr=log,
        )

        def is_open() -> bool:
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            with socket.socket() as trial:
                return trial.connect_ex(("127.0.0.1", port)) == 0

        try:
            waiting.until("the server answers", is_open, within_s=300)
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait(30)


def asked(server: str, *words: str) -> dict[str, Any]:
    """Runs a job on the Spark Connect server from a process without Java. Returns the summary of
    the job."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "pipeline", *words, "--master", server, "--json"],
        env={**os.environ, "PATH": "", "JAVA_HOME": "/nowhere"},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def test_all_tables_on_spark_connect_equal_those_of_duckdb(
    server: str, history: Path, out: Path
) -> None:
    words = ("--source", str(history), "--out")
    light = run("pipeline", "all", *words, str(out / "light"))
    assert light.code == 0, light.err

    summary = asked(server, "all", *words, str(out / "connected"))

    assert summary["engine"].startswith("Spark 4.")
    assert {each["name"] for each in summary["tables"]} == set(TABLES)
    for name, made in TABLES.items():
        found = [table(out / where, name, made.schema) for where in ("light", "connected")]
        assert found[0] == found[1], name


def test_tables_are_written_into_a_catalog_of_the_spark_connect_server(
    server: str, history: Path
) -> None:
    words = ("commits", "--source", str(history), "--format", "parquet")

    for _ in range(2):
        summary = asked(server, *words, "--catalog", "spark_catalog.default")

    made = {each["name"]: (each["path"], each["rows"]) for each in summary["tables"]}
    assert made["commits"][0] == "spark_catalog.default.commits"
    assert made["commits"][1] > 0


def test_unreachable_spark_connect_server_is_reported_with_exit_code_3(
    history: Path, out: Path
) -> None:
    address = f"sc://127.0.0.1:{free_port()}"
    words = ("--source", str(history), "--out", str(out), "--master", address)
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "pipeline", "commits", *words],
        env={**os.environ, "PATH": "", "JAVA_HOME": "/nowhere"},
        cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 3
    said = "can't connect to Spark Connect at 127.0.0.1:"
    assert done.stderr.startswith(f"muster: {said}"), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not out.exists()
