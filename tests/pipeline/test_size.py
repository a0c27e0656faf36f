"""What is little enough for a session that starts quickly and runs slowly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CommandError
from cli.pipeline.session import spark_session
from pipeline import session
from pipeline.errors import PipelineError
from pipeline.session import BRIEF_JAVA
from pipeline.sources.size import SMALL_BYTES, is_small
from tests.brokers import CHECKOUT
from tests.pipeline.small_logs import write_segment

ARGUMENTS = """
from pipeline.session import open_session
spark = open_session("local[1]", brief=True)
factory = spark._jvm.java.lang.management.ManagementFactory
print(*factory.getRuntimeMXBean().getInputArguments())
spark.stop()
"""


def test_folders_are_small_by_the_bytes_of_all_their_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for data in (first, second):
        file = write_segment(data, 0, b"", partition=3)
        os.truncate(file, SMALL_BYTES // 2)

    assert is_small(str(first))
    assert is_small(f"file:{first}")
    assert not is_small(f"{first},{second}")
    file.rename(file.with_suffix(".parquet"))
    assert not is_small(str(second)), "more rows than in as many bytes of a log"


@pytest.mark.parametrize("where", ["hdfs://there/tables", "127.0.0.1:1", "kafka://"])
def test_what_cannot_be_looked_at_is_not_small(where: str) -> None:
    assert not is_small(where)


@pytest.mark.parametrize("small", [True, False])
def test_a_command_tells_the_session_how_much_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    os.truncate(write_segment(tmp_path, 0, b""), 1 if small else SMALL_BYTES)
    said: list[Any] = []

    def open_session(*_: Any, **options: Any) -> None:
        said.append(options["brief"])
        raise PipelineError("enough")

    monkeypatch.setattr(session, "open_session", open_session)
    with (
        pytest.raises(CommandError, match="enough"),
        spark_session("local[1]", {}, connector=False, verbose=False, source=str(tmp_path)),
    ):
        raise AssertionError("there is no session")

    assert said == [small]


@pytest.mark.pipeline
def test_javas_second_compiler_stays_away_from_a_brief_session() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ARGUMENTS], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
        check=True, timeout=300,
    )  # fmt: skip

    assert set(BRIEF_JAVA.split()) <= set(done.stdout.split())
