"""Tests of `muster pipeline ...`, run as a process on commits that clients made on a running
Muster."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pyspark
import pytest

from pipeline.java import find_java
from tests.brokers import CHECKOUT, Broker, make_broker
from tests.cli.running import run
from tests.pipeline import dying
from tests.pipeline.many_commits import PARTITIONS, commit, prepare

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900), pytest.mark.proves("pipeline 4")]

GROUPS = 6
TWICE = 2
"""Number of commits per group and partition."""
MUSTER = [sys.executable, "-m", "cli.main"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {"offsets.topic.num.partitions": "3"}
    broker = make_broker(tmp_path_factory.mktemp("served") / "data", settings).start()
    prepare(broker)
    for _ in range(TWICE):
        commit(broker, range(GROUPS))
    yield broker
    broker.kill()


def rows_of(table: Path) -> list[dict[str, Any]]:
    """Returns the sorted rows of a table, as the Parquet reader of pyarrow reads them."""
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(table).to_pylist()
    return sorted(rows, key=repr)


def rows_there(table: Path) -> int:
    return sum(
        pyarrow.parquet.read_metadata(file).num_rows
        for file in table.rglob("*.parquet")
        if file.exists()
    )


def start(*words: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*MUSTER, "pipeline", *words], cwd=CHECKOUT, text=True, stdin=subprocess.DEVNULL, **more
    )


def test_options_group_and_partitions_select_rows_of_a_broker_source(
    served: Broker, tmp_path: Path
) -> None:
    words = ["--source", served.bootstrap, "--no-topics", "--json"]

    one = run(
        "pipeline", "commits", *words, "--group", "streamed-1", "--out", str(tmp_path / "one")
    )

    assert one.code == 0, one.err
    rows = rows_of(tmp_path / "one" / "commits")
    assert {row["group_id"] for row in rows} == {"streamed-1"}
    assert [row["previous_offset"] for row in rows].count(1) == PARTITIONS
    assert len(rows) == TWICE * PARTITIONS

    here = rows[0]["log_partition"]
    chosen = run(
        "pipeline", "rates", *words, "--partitions", str(here), "--out", str(tmp_path / "part")
    )

    assert chosen.code == 0, chosen.err
    rates = rows_of(tmp_path / "part" / "rates")
    assert "streamed-1" in {row["group_id"] for row in rates}
    nowhere = [str(p) for p in range(3) if p != here]
    words[-1:] = ["--json", "--partitions", ",".join(nowhere), "--overwrite"]
    others = run("pipeline", "rates", *words, "--out", str(tmp_path / "part"))
    assert others.code == 0, others.err
    rest = rows_of(tmp_path / "part" / "rates")
    assert "streamed-1" not in {row["group_id"] for row in rest}
    ours = {f"streamed-{group}" for group in range(GROUPS)}
    commits = sum(row["commits"] for row in rates + rest if row["group_id"] in ours)
    assert commits == GROUPS * TWICE * PARTITIONS


def test_progress_bars_go_to_the_terminal_and_the_result_to_stdout(
    served: Broker, tmp_path: Path
) -> None:
    """In this test, standard error is a terminal."""
    ours, theirs = pty.openpty()
    job = start(
        "commits", "--no-topics", "--source", str(served.data), "--out", str(tmp_path / "out"),
        stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 4096):
            drawn += chunk
    except OSError:
        pass  # the job has ended and closed the other end of the terminal
    finally:
        os.close(ours)
    said, _ = job.communicate(timeout=60)

    assert job.returncode == 0, drawn
    assert said.startswith("commits: ")
    assert "\x1b" not in said
    assert b"the history" in drawn
    assert b"\x1b[" in drawn


def test_spark_submit_runs_the_files_that_pipeline_package_writes(
    served: Broker, tmp_path: Path
) -> None:
    folder = tmp_path / "dist"

    made = run("pipeline", "package", "--out", str(folder), "--master", "local[2]")

    assert made.code == 0, made.err
    assert {file.name for file in folder.iterdir()} == {"muster.zip", "muster_submit.py"}
    again = run("pipeline", "package", "--out", str(folder))
    assert again.code == 1
    assert "already has muster.zip, muster_submit.py" in again.err
    home = Path(pyspark.__file__).parent
    line = shlex.split(made.out.replace("SOURCE", str(served.data)).replace(
        "TABLES", str(tmp_path / "out")))  # fmt: skip
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "SPARK_HOME": str(home),
        "JAVA_HOME": find_java(pyspark.__version__).home,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        line, env=environment, cwd=tmp_path, timeout=300, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert rows_there(tmp_path / "out" / "commits") >= GROUPS * TWICE * PARTITIONS


@pytest.fixture
def history(served: Broker, tmp_path: Path) -> Path:
    """Writes the history of the broker into an archive and returns its folder. Unlike the broker's
    log, the archive does not grow while a test runs its jobs."""
    ran = run("pipeline", "events", "--source", str(served.data), "--out", str(tmp_path / "then"))
    assert ran.code == 0, ran.err
    return tmp_path / "then"


JOB = """
import sys
from pipeline.engines.duck import DuckEngine
from pipeline.run.catalog import JOBS
from pipeline.run.jobs import run_job
from pipeline.sources.open import open_source
from pipeline.storage.store import Store
from tests.pipeline import dying

source, scratch, root = sys.argv[1:]


def retention(folder):
    run_job(DuckEngine(scratch), JOBS["retention"], open_source(source), Store(folder))


dying.everywhere(retention, root)
"""


def test_restarted_job_writes_the_same_rows_when_killed_at_any_step(
    history: Path, tmp_path: Path
) -> None:
    """The test kills a child process with SIGKILL before each change of the file system, then
    restarts the job."""
    scratch, root = tmp_path / "scratch", tmp_path / "root"
    scratch.mkdir()
    root.mkdir()
    words = [str(history), str(scratch), str(root)]
    subprocess.run([sys.executable, "-c", JOB, *words], cwd=CHECKOUT, check=True, timeout=600)

    [whole, *killed] = sorted(root.iterdir())
    assert len(killed) > 9, "killed at many places"
    files = {path.name for path in whole.iterdir()}
    for folder in killed:
        assert {path.name for path in folder.iterdir()} == files, folder
        for name in ("expiring_offsets", "dead_groups", "compaction"):
            assert rows_of(folder / name) == rows_of(whole / name), (folder, name)
        assert dying.died(folder) > 0
