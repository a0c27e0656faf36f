"""Tests of the commands in docs/use/pipeline-commands.md on a standalone Spark master with two
workers.

The Python processes of the workers find the project only in the archive that spark-submit sends.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pyarrow.parquet
import pyspark
import pytest

from pipeline.java import find_java
from tests import waiting
from tests.brokers import CHECKOUT, free_port
from tests.pipeline.small_logs import batch_of, commit, write_segment

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900), pytest.mark.proves("pipeline 10")]

PAGE = CHECKOUT / "docs" / "use" / "pipeline-commands.md"
PARTITIONS = 4
PROBE = """
import json, os, runpy, sys
submit, seen, *arguments = sys.argv[1:]
code = runpy.run_path(submit)["main"](arguments)

def where(batches):
    import offsets, pipeline, protocol, pyarrow
    from protocol.records import batch
    files = [module.__file__ for module in (pipeline, protocol, offsets, batch)]
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict(
            {"files": [",".join(files)], "executor": [os.getcwd()]})

from pyspark.sql import SparkSession
spark = SparkSession.getActiveSession()
rows = spark.range(0, 4, 1, 4).mapInArrow(where, "files string, executor string").collect()
with open(seen, "w") as out:
    json.dump([row.asDict() for row in rows], out)
spark.stop()
sys.exit(code)
"""


def commands() -> dict[str, list[str]]:
    """Returns the shell commands of docs/use/pipeline-commands.md, by their first two words."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return {" ".join(shlex.split(line)[:2]): shlex.split(line) for line in lines}


class Cluster:
    """A Spark master and its workers, started with the commands of the documentation page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.page = free_port(), free_port()
        home = Path(pyspark.__file__).parent
        bin_folders = [str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_CONF_DIR")},
            "PATH": ":".join(bin_folders),
            "SPARK_HOME": str(home),
            "JAVA_HOME": find_java(pyspark.__version__).home,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        self.words = {"MASTER:7077": f"127.0.0.1:{self.port}", "MASTER": "127.0.0.1",
                      "7077": str(self.port), "DIST": str(folder / "dist")}  # fmt: skip

    def line(self, command: list[str], *more: str) -> list[str]:
        """Returns a command of the documentation page for this cluster: replaces the names in the
        command by the names of this cluster, and appends ``more``."""
        pattern = re.compile("|".join(map(re.escape, self.words)))
        return [pattern.sub(lambda m: self.words[m[0]], word) for word in command] + [*more]

    def start(self, stack: ExitStack, command: list[str], *more: str) -> None:
        with open(self.folder / "log", "a") as log:
            process = subprocess.Popen(
                self.line(command, *more), env=self.environment, cwd=self.folder,
                stdout=log, stderr=log,
            )  # fmt: skip
        stack.callback(process.wait)
        stack.callback(process.kill)

    def workers(self) -> int:
        with urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=5) as answer:
            return sum(w["state"] == "ALIVE" for w in json.load(answer)["workers"])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    page = commands()
    with ExitStack() as stack:
        master = page["spark-class org.apache.spark.deploy.master.Master"]
        made.start(stack, master, "--webui-port", str(made.page))
        worker = page["spark-class org.apache.spark.deploy.worker.Worker"]
        for number in range(2):
            folder = str(tmp_path / f"worker-{number}")
            made.start(stack, worker, "--webui-port", "0", "--work-dir", folder)
        waiting.until("two workers are there", lambda: made.workers() == 2, within_s=120)
        yield made


def test_spark_workers_run_a_job_with_only_the_submitted_archive_of_python_code(
    cluster: Cluster, tmp_path: Path
) -> None:
    page = commands()
    archived = cluster.line(page["muster pipeline"])
    environment = {**cluster.environment, "PYTHONPATH": str(CHECKOUT)}
    subprocess.run(archived, env=environment, cwd=tmp_path, check=True, timeout=60)
    for partition in range(PARTITIONS):
        write_segment(
            tmp_path / "kafka", 0,
            *(batch_of(20 * i, commit(f"g{partition}", "t", [i] * 20)) for i in range(10)),
            partition=partition,
        )  # fmt: skip
    probe, seen = tmp_path / "probe.py", tmp_path / "seen.json"
    probe.write_text(PROBE)
    cluster.words |= {"/mnt/kafka": str(tmp_path / "kafka"), "/mnt/history": str(tmp_path / "out")}
    submit = cluster.line(page["spark-submit --master"])
    at = next(i for i, word in enumerate(submit) if word.endswith("muster_submit.py"))
    submit[at : at + 1] = [str(probe), submit[at], str(seen)]
    submit[1:1] = ["--conf", "spark.driver.host=127.0.0.1"]
    done = subprocess.run(
        submit, env=cluster.environment, cwd=tmp_path, timeout=400, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    log = (tmp_path / "log").read_text()
    assert done.returncode == 0, done.stdout + done.stderr[-4000:] + log[-2000:]

    rows = json.loads(seen.read_text())
    files = {file for row in rows for file in row["files"].split(",")}
    assert files, "the executors told where their modules are from"
    assert all("/muster.zip/" in file for file in files), files
    assert {row["executor"].startswith(str(tmp_path / "worker-")) for row in rows} == {True}
    assert len({row["executor"] for row in rows}) == 2, "both workers took part"
    commits = pyarrow.parquet.read_table(tmp_path / "out" / "commits")
    assert commits.num_rows == PARTITIONS * 200
