"""The wheel in a clean environment, used by a project whose modules have the names of Muster's
packages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest

from musterd import __version__
from tests.brokers import CHECKOUT
from tests.dist.environment import WAYS, Environment, serves_and_cleans
from tests.pipeline.small_logs import small_history

pytestmark = pytest.mark.interop

STRANGER = """
import sys
import musterd
import broker, cli, log, offsets, pipeline, protocol
for module in (broker, cli, log, offsets, pipeline, protocol):
    assert module.WHOSE == "the stranger"
assert not [name for name in sys.modules if "_rooms" in name]
assert not [path for path in sys.path if "_rooms" in path]
"""

OWN = """
def test_the_modules_here_are_ours(muster):
    import broker, cli, log, offsets, pipeline, protocol
    for module in (broker, cli, log, offsets, pipeline, protocol):
        assert module.WHOSE == "the stranger"
"""


@pytest.mark.parametrize("way", WAYS)
def test_installed_wheel_runs_broker_and_commands(
    clean: Environment, way: str, tmp_path: Path
) -> None:
    assert clean.run(*WAYS[way], "--version") == f"muster {__version__}\n"
    serves_and_cleans(clean.line(WAYS[way]), tmp_path / "data")


def test_pip_install_from_git_runs_broker_and_commands(of_git: Environment, tmp_path: Path) -> None:
    assert of_git.run("muster", "--version") == f"muster {__version__}\n"
    serves_and_cleans(of_git.line(["muster"]), tmp_path / "data")


def test_project_that_imports_musterd_keeps_its_own_modules(clean: Environment) -> None:
    clean.run("python", "-c", STRANGER)


def cpu_s(environment: Environment, folder: Path, outcome: str) -> float:
    """Runs pytest in ``folder``, checks its ``outcome``, and returns its CPU time in seconds."""
    before = getrusage(RUSAGE_CHILDREN)
    said = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder))
    after = getrusage(RUSAGE_CHILDREN)
    assert outcome in said
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.smoke
def test_readme_example_takes_less_than_three_seconds(clean: Environment, tmp_path: Path) -> None:
    """The limit is for the CPU time of the pytest run, including its start. The smaller of two runs
    counts, because other programs can evict the CPU caches."""
    (text,) = re.findall(r"```python\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    assert len(text.splitlines()) <= 20
    (tmp_path / "test_readme.py").write_text(text)
    (tmp_path / "test_own.py").write_text(OWN)

    assert min(cpu_s(clean, tmp_path, "2 passed"), cpu_s(clean, tmp_path, "2 passed")) < 3


def test_documented_test_that_kills_a_leader_takes_less_than_four_seconds(
    clean: Environment, tmp_path: Path
) -> None:
    """The limit is for the CPU time of the pytest run, including its start. The smaller of two runs
    counts."""
    page = (CHECKOUT / "docs" / "test" / "clusters.md").read_text()
    text = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    assert "muster_cluster.kill(leader)" in text
    assert len(text.splitlines()) <= 25
    (tmp_path / "test_cluster.py").write_text(text)

    assert min(cpu_s(clean, tmp_path, "1 passed"), cpu_s(clean, tmp_path, "1 passed")) < 4


def test_wheel_installs_one_package_and_one_command(clean: Environment) -> None:
    (site,) = clean.folder.glob("lib/python*/site-packages")
    record = next(site.glob("musterd-*.dist-info/RECORD")).read_text().splitlines()
    tops = {line.partition("/")[0] for line in record if not line.startswith("..")}
    commands = {line.partition(",")[0] for line in record if line.startswith("..")}

    assert tops == {"musterd", f"musterd-{__version__}.dist-info"}
    assert commands == {"../../../bin/muster"}


def test_pipeline_job_commits_on_duckdb_writes_the_committed_offsets(with_pipeline: Environment, tmp_path: Path) -> None:
    assert offsets_committed_by(with_pipeline, tmp_path, "duckdb") == [10, 40]


@pytest.mark.pipeline
@pytest.mark.timeout(900)
def test_pipeline_job_commits_on_spark_writes_the_committed_offsets(with_pipeline: Environment, tmp_path: Path) -> None:
    assert offsets_committed_by(with_pipeline, tmp_path, "spark") == [10, 40]


def offsets_committed_by(environment: Environment, folder: Path, engine: str) -> list[int]:
    """Runs a pipeline job on a small history, and returns the committed offsets in the table that
    the job writes."""
    history, out = small_history(folder / "history"), folder / "out"
    words = ["pipeline", "commits", "--source", str(history), "--out", str(out)]
    environment.run("muster", *words, "--engine", engine, within_s=600)
    read = "import duckdb, json; print(json.dumps(duckdb.sql(%r).fetchall()))"
    table = f"SELECT committed_offset FROM '{out}/commits/**/*.parquet' ORDER BY 1"
    return [row[0] for row in json.loads(environment.run("python", "-c", read % table))]
